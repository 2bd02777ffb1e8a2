--- The benchmark: attention speed on a device, on the CPU as a share of the FMA peak measured in the same run. Every case runs once per
-- round, rounds are shuffled, and the figure is the median.
--   fa4 scripts/bench.lua [--device NAME] [--threads N] [--dtype LIST] [--dim LIST] [--length LIST] [--rounds N] [--quick] [--json FILE]
--   fa4 scripts/bench.lua --device cuda --peers [--rows LIST] [--rounds N] [--json FILE]
local fa4 = require "fa4"
local json = require "fa4.json"

local usage = [[
usage: fa4 scripts/bench.lua [options]

  --device NAME    "cpu" (default), "cuda"; "emu": the machine's own speed on
                   the chapter's shape
  --threads N      CPU threads (default 1)
  --dtype LIST     of f32,f16,bf16 (default: all that the device has)
  --dim LIST       head dimensions (default 64,128)
  --length LIST    sequence lengths (default 1024; on a GPU 1024,4096,16384)
  --heads Q,KV     query and key heads (default 8,8; on a GPU 32,8)
  --batch N        (default 1)
  --rounds N       runs of each case, in shuffled order (default 9)
  --quick          3 rounds
  --json FILE      the rows as JSON
  --peers          a GPU beside FlashAttention-3, FlashAttention-4 and cuDNN,
                   those that Python finds, all timed by peers_h200.py
  --rows LIST      with --peers: of main,gqa,sharp,decode (default: all)
  --python NAME    with --peers: the interpreter (default python3)
  --library FILE   with --peers: our shared library (default build/libfa4.so)
  --seconds S      with --peers: start no further case after S seconds

FLOPs are 4 * batch * heads * length^2 * dim, half of it when causal. The share
of the peak is against f32 FMA, measured in the same run, whatever the dtype.
]]

local HERE = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local options_of = dofile(HERE .. "options.lua")
local OPTIONS = {device = "value", threads = "value", dtype = "value", dim = "value", length = "value", heads = "value", batch = "value",
  rounds = "value", quick = "flag", json = "value", help = "flag", peers = "flag", rows = "value", python = "value", library = "value",
  seconds = "value"}
local KEYS = {"device", "dtype", "dim", "length", "heads_q", "heads_kv", "batch", "mask", "threads", "tflops", "share_of_peak", "peer",
  "peer_tflops", "ratio"}

local function words(text)
  local list = {}
  for word in text:gmatch("[^,]+") do list[#list + 1] = word end
  return list
end

-- The settings, or nil and what is wrong with an option.
local function read_settings(options)
  local wrong
  local gpu = (options.device or "cpu"):find("^cuda") ~= nil
  local settings = {device = options.device or "cpu", gpu = gpu, dtypes = words(options.dtype or (gpu and "f16,bf16" or "f32,f16,bf16"))}
  local function numbers(name, default)
    local list = options_of.numbers(options[name] or default)
    if not list then wrong = ("--%s: expected whole numbers from 1 on, got %s"):format(name, options[name]) end
    return list or {1}
  end
  settings.dims, settings.lengths = numbers("dim", "64,128"), numbers("length", gpu and "1024,4096,16384" or "1024")
  settings.heads = numbers("heads", gpu and "32,8" or "8,8")
  settings.batch, settings.threads = numbers("batch", "1")[1], numbers("threads", "1")[1]
  settings.rounds = numbers("rounds", options.quick and "3" or "9")[1]
  if settings.threads > 1024 then wrong = ("--threads: expected 1..1024, got %d"):format(settings.threads) end
  for _, dtype in ipairs(settings.dtypes) do
    if not ("f32 f16 bf16"):find(dtype, 1, true) then wrong = ("--dtype: expected f32, f16 or bf16, got %s"):format(dtype) end
  end
  if wrong then return nil, wrong end
  return settings
end

-- ---- cases -----------------------------------------------------------------------------------------------------------------

local function make_case(s, dtype, dim, length, mask)
  local function tensor(seed, heads)
    local t = fa4.randn({s.batch, length, heads, dim}, {dtype = dtype, seed = seed})
    return s.gpu and t:to{device = s.device} or t
  end
  local case = {dtype = dtype, dim = dim, length = length, mask = mask, times = {}}
  local q, k, v = tensor(1, s.heads[1]), tensor(2, s.heads[2] or s.heads[1]), tensor(3, s.heads[2] or s.heads[1])
  local op = fa4.attention{device = s.device, mask = fa4.mask[mask](), threads = not s.gpu and s.threads or nil}
  local out = op(q, k, v)
  case.device = s.gpu and out.report.device or ("%s (%s)"):format(out.report.device, out.report.path)
  case.run = function() return op(q, k, v, {o = out.o, lse = out.lse}).report.time_us end
  return case
end

local function make_cases(s)
  local cases = {}
  for _, dtype in ipairs(s.dtypes) do
    for _, dim in ipairs(s.dims) do
      for _, length in ipairs(s.lengths) do
        for _, mask in ipairs{"full", "causal"} do cases[#cases + 1] = make_case(s, dtype, dim, length, mask) end
      end
    end
  end
  return cases
end

local function shuffled(cases)
  local list = {}
  for i, case in ipairs(cases) do list[i] = case end
  for i = #list, 2, -1 do
    local j = math.random(i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

local function median(list)
  table.sort(list)
  local middle = math.floor((#list + 1) / 2)
  return #list % 2 == 1 and list[middle] or (list[middle] + list[middle + 1]) / 2
end

-- Runs everything; on the CPU the peaks are measured in every round too: of f32, and of bf16 pairs where the path has them.
local function measure(s, cases)
  local peaks, pair_peaks = {}, {}
  for _ = 1, s.rounds do
    if not s.gpu then peaks[#peaks + 1], pair_peaks[#pair_peaks + 1] = fa4.cpu_peak(s.threads) end
    for _, case in ipairs(shuffled(cases)) do case.times[#case.times + 1] = case.run() end
  end
  if #peaks > 0 then return median(peaks), median(pair_peaks) end
end

local function row_of(s, case, peak)
  local flops = 4 * s.batch * s.heads[1] * case.length ^ 2 * case.dim * (case.mask == "causal" and 0.5 or 1)
  local row = {device = case.device, dtype = case.dtype, dim = case.dim, length = case.length, heads_q = s.heads[1],
    heads_kv = s.heads[2] or s.heads[1], batch = s.batch, mask = case.mask, threads = not s.gpu and s.threads or nil}
  row.tflops = flops / median(case.times) * 1e-6
  row.share_of_peak = peak and row.tflops * 1e3 / peak or json.null
  -- Peers are measured with --peers; their columns stand here too so that rows can be joined.
  row.threads, row.peer, row.peer_tflops, row.ratio = row.threads or json.null, json.null, json.null, json.null
  return row
end

-- ---- the emulator ------------------------------------------------------------------------------------------------------------

-- FlashAttention-4's shape: 1,024 positions, 32 query heads on 8 key heads, dim 128, f16.
local function emu_tensors()
  local function tensor(seed, heads) return fa4.randn({1, 1024, heads, 128}, {dtype = "f16", seed = seed}) end
  return {q = tensor(1, 32), k = tensor(2, 8), v = tensor(3, 8), o = fa4.zeros({1, 1024, 32, 128}, {dtype = "f16"}),
    lse = fa4.zeros({1, 32, 1024})}
end

-- Least seconds and most GFLOP/s of the matrix units, since each run does the same work, and the report, of a launch with or without
-- checks.
local function time_launch(s, p, t, unchecked)
  local times, rates, report = {}, {}, nil
  t.threads, t.unchecked = s.threads, unchecked
  for i = 1, s.rounds do
    report = assert(fa4.kernel.launch(p, t))
    times[i], rates[i] = report.time_us * 1e-6, report.mma_flops / report.mma_us * 1e-3
  end
  return math.min(unpack(times)), math.max(unpack(rates)), report
end

local function bench_emu(s)
  local t = emu_tensors()
  print(("%s, %d thread%s: 1,024 positions, 32 heads on 8, dim 128, f16; best of %d"):format(s.device, s.threads,
    s.threads == 1 and "" or "s", s.rounds))
  local peaks, size = {}, 0
  for i = 1, s.rounds do peaks[i] = (fa4.cpu_peak(1)) end
  local peak = math.max(unpack(peaks))
  print(("f32 FMA peak of one thread: %.1f GFLOP/s"):format(peak))
  print("mask    instructions   MMAs  checked s  unchecked s  M inst/s  MMA GFLOP/s  load ms")
  for _, mask in ipairs{"full", "causal"} do
    local p = assert(fa4.attention{device = s.device, mask = fa4.mask[mask](), counters = false}:plan(t.q, t.k, t.v))
    local text = assert(fa4.kernel.source(p, "ptx"))
    local load_ms = fa4.time(function() fa4.emu.load(text) end, {runs = s.rounds}).median_us * 1e-3
    local checked, rate, report = time_launch(s, p, t, false)
    local unchecked = time_launch(s, p, t, true)
    print(("%-6s  %12d  %5d  %9.3f  %11.3f  %8.1f  %4.0f (%2.0f %%)  %7.2f"):format(mask, report.instructions, report.mmas, checked,
      unchecked, report.instructions / checked * 1e-6, rate, 100 * rate / peak, load_ms))
    size = #text
  end
  print(("MMA: matrix units alone, operands fetched, and their share of the peak.\nload: parse and decode %d KB of PTX."):format(
    size / 1024))
  return 0
end

-- ---- a GPU's calls and peers ------------------------------------------------------------------------------------------------

-- Host time of one small call: waited for, and queued (report = false), as a loop in Lua pays it.
local function print_calls(device)
  local function tensor(seed) return fa4.randn({1, 128, 2, 128}, {dtype = "f16", seed = seed}):to{device = device} end
  local q, k, v = tensor(1), tensor(2), tensor(3)
  local waiting, queueing = fa4.attention{device = device}, fa4.attention{device = device, report = false}
  local out, kernel = waiting(q, k, v), {}
  local outputs = {o = out.o, lse = out.lse}
  local waited = fa4.time(function() kernel[#kernel + 1] = waiting(q, k, v, outputs).report.time_us end, {runs = 1000})
  local queued = fa4.time(function() queueing(q, k, v, outputs) end, {runs = 500})
  out.lse:to{device = "cpu"} -- waits for what is queued
  local text = "\nA small call from Lua (128 positions, 2 heads, dim 128): queued in %.1f us; " ..
    "waited\nfor in %.1f us, of which the kernel %.1f us"
  print(text:format(queued.median_us, waited.median_us, median(kernel)))
end

local function bench_peers(s, options)
  local peers = dofile(HERE .. "peers.lua")
  local cases = peers.run(HERE, options)
  if not cases then
    io.stderr:write("bench: no row came from peers_h200.py\n")
    return 1
  end
  peers.print(cases)
  if options.json then require("fa4.files").write_text(options.json, json.write(peers.rows(cases, s.device), KEYS)) end
  if fa4.device(s.device) then print_calls(s.device) end
  return 0
end

local function main()
  local options, message = options_of.read(arg or {}, OPTIONS)
  if not options then
    io.stderr:write("bench: ", message, "\n", usage)
    return 2
  elseif options.help then
    io.stdout:write(usage)
    return 0
  end
  local s, wrong = read_settings(options)
  if not s then
    io.stderr:write("bench: ", wrong, "\n", usage)
    return 2
  end
  if not s.gpu and s.threads > fa4.info().cpu.threads then fa4.open{threads = s.threads} end
  if s.device:find("^emu") then return bench_emu(s) end
  if options.peers then return bench_peers(s, options) end
  local cases = make_cases(s)
  local peak, pair_peak = measure(s, cases)
  if peak then
    local pairs_text = pair_peak > 0 and (", of bf16 pairs %.1f"):format(pair_peak) or ""
    print(("%s: f32 FMA peak of %d thread%s: %.1f GFLOP/s%s"):format(cases[1].device, s.threads, s.threads == 1 and "" or "s", peak,
      pairs_text))
  end
  print("dtype  dim  length  mask    GFLOP/s  of f32 peak   least to most us")
  local rows = {}
  for i, case in ipairs(cases) do
    rows[i] = row_of(s, case, peak)
    print(("%-5s  %3d  %6d  %-6s  %7.1f  %s  %.0f to %.0f"):format(case.dtype, case.dim, case.length, case.mask, rows[i].tflops * 1e3,
      peak and ("%9.1f %%"):format(100 * rows[i].share_of_peak) or (" "):rep(11), case.times[1], case.times[#case.times]))
  end
  if options.json then require("fa4.files").write_text(options.json, json.write(rows, KEYS)) end
  return 0
end

local code = main()
if code ~= 0 then os.exit(code) end
