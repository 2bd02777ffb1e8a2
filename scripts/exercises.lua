--- The eight exercises of the FlashAttention-4 chapter, answered by computing them with the library.
--   fa4 scripts/exercises.lua [1 .. 8]
local fa4 = require "fa4"
local page = require "fa4.page"

local usage = [[
usage: fa4 scripts/exercises.lua [1 .. 8]

Answers the chapter's eight exercises, or one of them, by computing them.
]]

local function list(values, format)
  local texts = {}
  for i, value in ipairs(values) do texts[i] = (format or "%s"):format(value) end
  return table.concat(texts, ", ")
end

-- Prints a sentence, wrapped where it is long.
local function say(format, ...)
  print(page.wrap(format:format(...), "  "))
end

-- A plan of one problem; f16 tensors of zeros are enough.
local function plan_of(config, sq, skv, hq, hkv)
  local q = fa4.zeros({1, sq, hq, 128}, {dtype = "f16"})
  local k = fa4.zeros({1, skv, hkv, 128}, {dtype = "f16"})
  config.device = "cpu"
  return fa4.attention(config):plan(q, k, k)
end

local function print_barriers(plan, wanted)
  for _, barrier in ipairs(fa4.tables.barriers(plan)) do
    if wanted[barrier.name] then
      print(page.wrap(("%d copies; arrivals %s, %d in all; waiting %s"):format(barrier.copies, table.concat(barrier.arrives, " and "),
        barrier.count, table.concat(barrier.waits, ", ")), ("  %-16s"):format(barrier.name)))
    end
  end
end

local exercises = {}

exercises[1] = function()
  local before = {row_max = 2, row_sum = 3, o = {4, 6}}
  for _, scores in ipairs{{5, 4}, {11, 10}} do
    local step = fa4.tables.softmax_step(before, scores, {{1, 0}, {0, 1}}, {scale_log2 = 1, threshold = 8})
    print(("S = {%s}: candidate_max %g, delta %g, new_ref %g, acc_scale %.10g"):format(list(scores), step.candidate_max, step.delta,
      step.new_ref, step.acc_scale))
    print(("  P = {%s}, row_sum %.10g, O = {%s}"):format(list(step.p, "%.10g"), step.row_sum, list(step.o, "%.10g")))
    say(step.rescaled and "the maximum ran ahead by more than 8: the old sum and O move to the new reference"
      or "the maximum ran ahead by at most 8: P stays below 2^8 and the old state keeps its scale")
  end
end

exercises[2] = function()
  for _, path in ipairs(fa4.tables.data_paths()) do
    print(("%-16s %s"):format(path.name, path.role))
    print(("  %s -> %s"):format(path.from, path.to))
    say("%s; %s; %s", path.primitive, path.hardware, path.in_gemm and "in a GEMM kernel too" or "new")
  end
end

exercises[3] = function()
  local plan = plan_of({}, 256, 256, 1, 1)
  for _, region in ipairs(fa4.tables.tensor_memory(plan)) do
    print(("%-3s columns %3d to %3d%s"):format(region.name, region.first, region.last,
      #region.overlaps > 0 and ", overlaps " .. list(region.overlaps) or ""))
  end
  print("P[i] lies over the upper half of S[i]. What keeps them apart:")
  print_barriers(plan, {s_ready = true, p_o_rescale = true, p_ready_2 = true, o_ready = true})
  say("S is whole in registers before P is written; the next Q K^T of a stage is issued after the P V that reads its P")
end

exercises[4] = function()
  for _, mask in ipairs{fa4.mask.full(), fa4.mask.causal()} do
    local plan = plan_of({mask = mask}, 256, 256, 1, 1)
    local split = plan.config.p_split
    print(("%s: P in two parts of %d + %d columns"):format(tostring(mask), split, 128 - split))
    print_barriers(plan, {s_ready = true, p_o_rescale = true, p_ready_2 = true, o_ready = true})
  end
  say("256 arrivals of p_o_rescale: 128 softmax threads have stored the first part of P, 128 correction threads have rescaled O or "
    .. "found that they need not; P V of the first part then runs while the second is still being made")
end

exercises[5] = function()
  local groups, total, uniform = fa4.tables.registers(plan_of({}, 256, 256, 1, 1))
  for _, group in ipairs(groups) do
    print(("warpgroup %d (%s): %d threads x %d = %d"):format(group.warpgroup, list(group.roles), group.threads, group.registers,
      group.total))
  end
  print(("together %d, an SM has %d; all threads with the largest share: %d"):format(total, fa4.tables.limits.registers, uniform))
  say("a softmax thread keeps a row of 128 f32 scores; the issuing warps keep next to nothing and give theirs away")
end

exercises[6] = function()
  local q = fa4.randn({1, 512, 2, 128}, {dtype = "f16", seed = 1, scale = 4})
  local k, v = fa4.randn({1, 512, 2, 128}, {dtype = "f16", seed = 2}), fa4.randn({1, 512, 2, 128}, {dtype = "f16", seed = 3})
  for _, pairs_of_8 in ipairs{0, 2, 4} do
    local out = fa4.attention{device = "cpu", exp2 = {emulated_pairs = pairs_of_8, first_fragment = 1}}(q, k, v)
    local report, checked = out.report, fa4.validate(out, q, k, v)
    print(("%d of 8 pairs: %d exponentials by MUFU, %d by FMA"):format(pairs_of_8, report.exp2_hardware, report.exp2_polynomial))
    say("rescaled rows %d, error ratio %.3f", report.rescaled_rows, checked.ratio)
  end
  say("base 2 saves a multiplication, not the exponential: MUFU stays the narrow unit. A cubic on the FMA units takes part of it "
    .. "beside; reference, row sum, O and the rule for rescaling are the same")
end

exercises[7] = function()
  local mask = fa4.mask.causal()
  local plan = plan_of({mask = mask}, 6, 8, 1, 1)
  for _, i in ipairs{0, 5} do
    local last
    for j = 0, 7 do
      if plan:visible(0, 0, i, j) then last = j end
    end
    local classes = {}
    for block = 0, 1 do
      local seen = 0
      for j = 4 * block, 4 * block + 3 do seen = seen + (plan:visible(0, 0, i, j) and 1 or 0) end
      classes[block + 1] = ("block %d %s"):format(block, seen == 4 and "full" or seen == 0 and "skipped" or "partial")
    end
    print(("query %d sees keys up to %d; blocks of 4 keys: %s"):format(i, last, list(classes)))
  end
  local long = plan_of({mask = mask, schedule = fa4.schedule.linear()}, 1024, 1024, 4, 4)
  local lpt = plan_of({mask = mask, schedule = fa4.schedule.lpt{l2_bytes = 2 ^ 30}}, 1024, 1024, 4, 4)
  say("later tiles see more keys; 1024 x 1024, 4 heads on 7 workers take %d block units in order, %d longest first",
    (fa4.schedule.makespan(long, {workers = 7})), (fa4.schedule.makespan(lpt, {workers = 7})))
end

exercises[8] = function()
  local plan = plan_of({}, 256, 256, 32, 8)
  print(("group %d, %d query positions a tile"):format(plan.group, plan.positions))
  for _, row in ipairs{0, 5, 127} do
    local position, head = plan:row(3, 0, row)
    print(("key head 3, packed row %3d: position %d, query head %d"):format(row, position, head))
  end
  say("all 128 rows read key head 3: one K and V tile serves them")
end

local function main(arguments)
  local wanted = tonumber(arguments[1])
  if arguments[1] == "--help" then
    io.stdout:write(usage)
    return 0
  elseif #arguments > 1 or (arguments[1] and not exercises[wanted]) then
    io.stderr:write(usage)
    return 2
  end
  for i = wanted or 1, wanted or #exercises do
    print(("Exercise %d"):format(i))
    exercises[i]()
    print()
  end
  return 0
end

local code = main(arg or {})
if code ~= 0 then os.exit(code) end
