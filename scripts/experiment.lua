--- The experiment: how the rescale threshold trades rescaling against error, on real data and on synthetic data of chosen sharpness.
--   fa4 scripts/experiment.lua [--quick] [--device NAME] [--input FILE.safetensors] [--sharpness X]
--                              [--json FILE] [--csv FILE] [--svg FILE] [--help]
local fa4 = require "fa4"

local usage = [[
usage: fa4 scripts/experiment.lua [options]

Sweeps the rescale threshold, the order of key blocks and the exp2 split over
the attention inputs of a real language model and over synthetic ones; prints a
table and a plot. Exit status 1 when a row fails.

  --device NAME     "cpu", "cuda", "emu", ...; may be given more than once
                    (default: every device here)
  --input FILE      a safetensors file with q, k, v (batch, seq, heads, dim),
                    causal, in place of the real data
  --sharpness X     the deviation of the synthetic scores in natural units
                    (default 10)
  --quick           fewer thresholds and orders
  --json FILE, --csv FILE, --svg FILE
                    write the rows, or a picture of them
  --help            this text
]]

-- The folder of this script: its data and helpers are found from anywhere.
local HERE = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local options_of = dofile(HERE .. "options.lua")

local OPTIONS = {device = "list", input = "value", sharpness = "value", json = "value", csv = "value", svg = "value", quick = "flag",
  help = "flag"}

local function read_options(list)
  local options, message = options_of.read(list, OPTIONS)
  if not options then return nil, message end
  options.sharpness = tonumber(options.sharpness or 10)
  if not options.sharpness then return nil, "--sharpness needs a number" end
  return options
end

-- ---- inputs ----------------------------------------------------------------------------------------------------------------

local function load_real(path)
  local tensors = fa4.load(path)
  for _, name in ipairs{"q", "k", "v"} do
    if type(tensors) ~= "table" or not fa4.is_tensor(tensors[name]) then
      error(("%s: expected tensors q, k and v"):format(path), 0)
    end
  end
  return {name = path:match("([^/]+)%.%w+$") or path, q = tensors.q, k = tensors.k, v = tensors.v}
end

-- Unit-normal keys, and queries scaled so that scores q.k / sqrt(dim) have the given deviation.
local function synthetic(sharpness)
  local function make(seed, heads, scale)
    return fa4.randn({1, 1024, heads, 64}, {dtype = "f16", seed = seed, scale = scale})
  end
  return {name = ("synthetic %g"):format(sharpness), q = make(1, 4, sharpness), k = make(2, 2, 1), v = make(3, 2, 1)}
end

local function devices_here()
  local list = {"cpu"}
  if fa4.device("cuda") then list[2] = "cuda" end
  return list
end

-- ---- the sweep -------------------------------------------------------------------------------------------------------------

local function run(options)
  local quick = options.quick
  local inputs = {load_real(options.input or HERE .. "data/real_qkv.safetensors"), synthetic(options.sharpness)}
  local devices = #options.device > 0 and options.device or devices_here()
  local thresholds = fa4.sweep{
    config = {mask = fa4.mask.causal(), counters = true}, -- a GPU counts in a build of its own: its time is of that build
    inputs = inputs,
    order = {"device", "kv_order", "rescale.threshold"},
    over = {
      device = devices,
      kv_order = quick and {"reverse"} or {"reverse", "forward", "sink_first"},
      ["rescale.threshold"] = quick and {0, 8, 15} or {0, 1, 2, 4, 6, 8, 10, 12, 15},
    },
  }
  local split = fa4.sweep{
    config = {mask = fa4.mask.causal(), counters = true}, -- a GPU counts in a build of its own: its time is of that build
    inputs = {inputs[1]},
    over = {device = devices, ["exp2.emulated_pairs"] = quick and {0, 4} or {0, 1, 2, 4, 6, 8}},
  }
  return thresholds, split
end

local function main()
  local options, message = read_options(arg or {})
  if not options then
    io.stderr:write("experiment: ", message, "\n", usage)
    return 2
  elseif options.help then
    io.stdout:write(usage)
    return 0
  end
  local thresholds, split = run(options)
  print("How far may a row's maximum run ahead before the row is rescaled? (threshold in")
  print("log2 units; RMS error of O before its 16-bit rounding; ratio: largest error over")
  print("that of a naive 16-bit computation, at most 1 passes)\n")
  thresholds:print()
  print("\nHow many exponentials may be a cubic polynomial? (pairs of every 8, threshold 8)\n")
  split:print()
  print()
  thresholds:plot("rescale.threshold", "rescaled_rows_percent")
  if options.json then thresholds:save(options.json) end
  if options.csv then thresholds:save(options.csv) end
  if options.svg then
    thresholds:save(options.svg, {title = "FlashAttention-4: rescaling against error, by rescale threshold"})
  end
  local pass = thresholds.pass and split.pass
  print(("\n%s: %d rows"):format(pass and "PASS" or "FAIL", #thresholds + #split))
  return pass and 0 or 1
end

local code = main()
if code ~= 0 then os.exit(code) end
