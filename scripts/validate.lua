--- A conformance test of the devices: named suites of problems, each held to the float64 reference; one line a case with its error.
--   fa4 scripts/validate.lua [--suite NAME] [--device NAME] [--list] [--help]
local fa4 = require "fa4"
local page = require "fa4.page"

local usage = [[
usage: fa4 scripts/validate.lua [--suite NAME] [--device NAME] [--list] [--help]

  --suite NAME    one suite; may be given more than once (default: all)
  --device NAME   "cpu" (default), "cuda", "emu", "emu:sm_90a", ...
  --list          the suites' names

A line a case: the largest error of O, as a share of what a naive computation in
the input's dtype may have (ratio) and of its bound, and the error of LSE. Exit
status 1 when a case fails. Cases that the device cannot run are named and
skipped.
]]

local HERE = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local options_of = dofile(HERE .. "options.lua")

-- ---- cases: a name, shapes and a config ------------------------------------------------------------------------------------

local suites, order = {}, {}

local function suite(name, fill)
  local cases = {}
  fill(function(title, shape, config)
    cases[#cases + 1] = {title = title, shape = shape, config = config or {}}
  end)
  suites[name] = cases
  order[#order + 1] = name
end

local function shape(sq, skv, more)
  local made = {batch = 1, sq = sq, skv = skv, hq = 4, hkv = 2, dim = 64, dtype = "f16", scale = 1}
  for key, value in pairs(more or {}) do made[key] = value end
  return made
end

suite("shapes", function(case)
  for _, sizes in ipairs{{1, 1}, {1, 500}, {127, 129}, {128, 128}, {200, 77}, {300, 520}, {0, 5}, {5, 0}} do
    case(("%d queries, %d keys"):format(sizes[1], sizes[2]), shape(sizes[1], sizes[2]))
    case(("%d queries, %d keys, causal"):format(sizes[1], sizes[2]), shape(sizes[1], sizes[2]), {mask = fa4.mask.causal()})
  end
  for _, dim in ipairs{8, 64, 72, 128, 256} do case(("dim %d"):format(dim), shape(150, 200, {dim = dim})) end
  case("batch 3", shape(130, 140, {batch = 3}))
end)

suite("dtypes", function(case)
  for _, dtype in ipairs{"f16", "bf16", "f32"} do
    for _, dim in ipairs{64, 128} do
      case(("%s, dim %d"):format(dtype, dim), shape(260, 390, {dtype = dtype, dim = dim}), {mask = fa4.mask.causal()})
    end
  end
end)

suite("heads", function(case)
  for _, heads in ipairs{{1, 1}, {6, 2}, {8, 1}, {32, 8}, {9, 3}} do
    for _, packing in ipairs{true, false} do
      case(("%d query heads on %d, %s"):format(heads[1], heads[2], packing and "packed" or "not packed"),
        shape(140, 200, {hq = heads[1], hkv = heads[2]}), {mask = fa4.mask.causal(), gqa_packing = packing})
    end
  end
end)

suite("masks", function(case)
  local m = fa4.mask
  local masks = {
    {"full", m.full()}, {"causal", m.causal()}, {"window of 100 left, 0 right", m.window{left = 100, right = 0}},
    {"window of 5 left, 60 right", m.window{left = 5, right = 60}}, {"prefix of 150", m.prefix{length = 150}},
    {"four documents", m.document{lengths = {100, 40, 200, 60}}},
    {"two documents, causal", m.all_of(m.causal(), m.document{lengths = {300, 100}})},
    {"window of 10 each way or prefix of 3", m.any_of(m.window{left = 10, right = 10}, m.prefix{length = 3})},
    {"keys above the diagonal", m.none_of(m.causal())},
    {"a Lua function of i, j", m.lua{function(i, j) return (i * 7 + j * 3) % 5 ~= 0 end}},
    {"a Lua function of i, j, h", m.lua{function(i, j, h) return (i + j) % (h + 2) == 0 end}},
  }
  for _, one in ipairs(masks) do case(one[1], shape(300, 400), {mask = one[2]}) end
end)

suite("rescaling", function(case)
  for _, row_max in ipairs{"each_block", "first_block"} do
    for _, kv_order in ipairs{"reverse", "forward", "sink_first"} do
      for _, threshold in ipairs(row_max == "each_block" and {0, 4, 8, 15} or {7, 14}) do
        case(("%s, %s, threshold %g, sharp scores"):format(row_max, kv_order, threshold), shape(200, 700, {scale = 8}),
          {row_max = row_max, kv_order = kv_order, rescale = {threshold = threshold}, mask = fa4.mask.causal()})
      end
    end
  end
end)

suite("numbers", function(case)
  for _, scale in ipairs{0, -0.3, 1} do case(("scale %g"):format(scale), shape(130, 300), {scale = scale}) end
  for _, cap in ipairs{1, 30, 50} do case(("soft cap %g"):format(cap), shape(130, 300, {scale = 4}), {soft_cap = cap}) end
  for emulated = 0, 8, 2 do
    case(("%d polynomial pairs of 8"):format(emulated), shape(130, 300), {exp2 = {emulated_pairs = emulated, first_fragment = 0}})
  end
  for splits = 2, 3 do case(("%d key splits"):format(splits), shape(100, 700), {kv_splits = splits}) end
end)

-- ---- running ---------------------------------------------------------------------------------------------------------------

local function tensors(s)
  local function make(seed, length, heads, scale)
    return fa4.randn({s.batch, length, heads, s.dim}, {dtype = s.dtype, seed = seed, scale = scale})
  end
  return make(1, s.sq, s.hq, s.scale), make(2, s.skv, s.hkv, 1), make(3, s.skv, s.hkv, 1)
end

local function run_case(case, device)
  local q, k, v = tensors(case.shape)
  local config = {device = device}
  for key, value in pairs(case.config) do config[key] = value end
  local op = fa4.attention(config)
  local a, b, c = q, k, v
  if device:find("^cuda") then a, b, c = q:to{device = device}, k:to{device = device}, v:to{device = device} end
  local plan, message = op:plan(a, b, c)
  if not plan then return nil, message end
  local out, finding = op(a, b, c)
  if not out then return false, finding end
  local result = fa4.validate(out, q, k, v)
  return result.pass, nil, result
end

-- "PASS", the figures and the title; a reason stands below.
local function print_case(word, title, reason, result)
  local figures = (" "):rep(31)
  if result then
    figures = ("%8.2e  %5.3f  %5.3f  %7.1e"):format(result.o_error, result.ratio, result.bound, result.lse_error)
  end
  print(page.wrap(title, ("%s  %s  "):format(word, figures)))
  if reason then print(page.wrap(reason, "      ")) end
end

local function run_suite(name, device, totals)
  print("         error  ratio  bound      LSE  " .. name)
  for _, case in ipairs(suites[name]) do
    local pass, reason, result = run_case(case, device)
    local word = pass and "PASS" or pass == nil and "SKIP" or "FAIL"
    totals[word] = totals[word] + 1
    print_case(word, case.title, reason, result)
  end
  print()
end

local function main()
  local options, message = options_of.read(arg or {}, {suite = "list", device = "value", list = "flag", help = "flag"})
  for _, name in ipairs(options and options.suite or {}) do
    if not suites[name] then options, message = nil, ("no suite %s; there are %s"):format(name, table.concat(order, ", ")) end
  end
  if not options then
    io.stderr:write("validate: ", message, "\n", usage)
    return 2
  elseif options.help or options.list then
    io.stdout:write(options.help and usage or table.concat(order, "\n") .. "\n")
    return 0
  end
  local totals = {PASS = 0, FAIL = 0, SKIP = 0}
  for _, name in ipairs(#options.suite > 0 and options.suite or order) do run_suite(name, options.device or "cpu", totals) end
  print(("%d passed, %d failed%s"):format(totals.PASS, totals.FAIL, totals.SKIP > 0 and (", %d skipped"):format(totals.SKIP) or ""))
  return totals.FAIL == 0 and totals.PASS > 0 and 0 or 1
end

local code = main()
if code ~= 0 then os.exit(code) end
