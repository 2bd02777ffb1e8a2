local fa4 = require "fa4"
local program = require "spec.support.program"

local function tensors(dtype, batch, sq, skv, hq, hkv, dim)
  local q = fa4.zeros({batch, sq, hq, dim}, {dtype = dtype})
  local k = fa4.zeros({batch, skv, hkv, dim}, {dtype = dtype})
  return q, k, k
end

local function plan_of(config, ...)
  config.device = "cpu"
  local q, k, v = tensors(...)
  return assert(fa4.attention(config):plan(q, k, v))
end

local CONFIGS = {
  {}, {mask = fa4.mask.causal()}, {mask = fa4.mask.window{left = 100, right = 3}, kv_order = "forward"},
  {mask = fa4.mask.prefix{length = 17}, rescale = {threshold = 0}, kv_order = "sink_first"},
  {mask = fa4.mask.document{lengths = {100, 150, 50}}, soft_cap = 30, lse = false},
  {mask = fa4.mask.any_of(fa4.mask.causal(), fa4.mask.document{lengths = {150, 150}}), scale = -0.3},
  {mask = fa4.mask.none_of(fa4.mask.window{left = 3, right = 3})},
  {mask = function(i, j, h) return (i * j + h) % 3 ~= 0 end, row_max = "first_block", rescale = {threshold = 9.5}},
  {schedule = fa4.schedule.lpt{l2_bytes = 100000}, exp2 = {emulated_pairs = 5, first_fragment = 2}, p_split = 32},
  {schedule = function(tasks)
    tasks[1], tasks[#tasks] = tasks[#tasks], tasks[1]
    return tasks
  end, threads = 2},
  {schedule = fa4.schedule.list(function(tasks) return {{}, tasks} end), workers = 2, gqa_packing = false},
}

describe("a plan", function()
  it("prints a form that makes the same plan again", function()
    for n, config in ipairs(CONFIGS) do
      local plan = plan_of(config, "f16", 2, 250, 300, 4, 2, 64)
      local text = tostring(plan)
      local again = assert(fa4.plan.parse(text))
      assert.equal(plan.hash, again.hash, "config " .. n)
      assert.is_true(plan == again, "config " .. n)
      assert.equal(text:match("return .*"), tostring(again):match("return .*"))
      for line in text:gmatch("[^\n]+") do assert.is_true(#line < 80, line) end
    end
  end)

  it("names its mask, though it was made from a printed form", function()
    local causal, near = fa4.mask.causal(), fa4.mask.window{left = 3, right = 0}
    for want, mask in pairs{
      ["fa4.mask.full()"] = fa4.mask.full(), ["fa4.mask.prefix{length = 17}"] = fa4.mask.prefix{length = 17},
      ["fa4.mask.all_of(fa4.mask.causal(), fa4.mask.none_of(fa4.mask.window{left = 3, right = 0}))"] =
        fa4.mask.all_of(causal, fa4.mask.none_of(near)),
      ["a function"] = function(i, j) return i ~= j end,
    } do
      local plan = plan_of({mask = mask}, "f16", 1, 100, 100, 2, 2, 64)
      local text = tostring(fa4.plan.parse(tostring(plan))):gsub("\n%-%-   ", " ")
      assert.is_truthy(text:find("mask " .. want .. " (class", 1, true), text)
    end
  end)

  it("prints for people: tiles, tasks, block map, request", function()
    local text = tostring(plan_of({mask = fa4.mask.causal()}, "bf16", 1, 384, 384, 4, 2, 64))
    assert.is_truthy(text:find("tile   2  ####%+%+") or text:find("tile   2  ##%+") or text:find("tile   2  #%+"), text)
    assert.is_truthy(text:find("tasks:", 1, true))
    assert.is_truthy(text:find("bf16", 1, true))
    assert.is_truthy(text:find('["rescale.threshold"] = 8', 1, true))
  end)

  it("prints the kernel's roles, registers, memories and barriers on the emulator", function()
    local name, message = fa4.device("emu:sm_100a")
    if not name then return pending(message) end
    local q = fa4.zeros({1, 300, 2, 128}, {dtype = "f16"})
    local plan = assert(fa4.attention{device = "emu:sm_100a"}:plan(q, q, q))
    local text = tostring(plan)
    for _, row in ipairs{"\n-- 8..11    correction   64\n", "\n-- kv               65536    98304\n", "\n-- P1               192      64\n",
      "\n-- p_o_rescale      2      230496  256     softmax, correction  mma, correction\n", "kernel\n--   fwd_sm100_f16_d128_full"} do
      assert.is_truthy(text:find(row, 1, true), row)
    end
    assert.is_true(program.widest(text) <= 80)
    assert.equal(plan.hash, fa4.plan.parse(text).hash)
  end)

  it("has the hash of its content", function()
    local hashes = {}
    for n, config in ipairs(CONFIGS) do
      local hash = plan_of(config, "f16", 2, 250, 300, 4, 2, 64).hash
      assert.equal(hash, plan_of(config, "f16", 2, 250, 300, 4, 2, 64).hash)
      assert.is_nil(hashes[hash], "config " .. n)
      hashes[hash] = true
      assert.is_truthy(hash:find("^%x+$") and #hash == 16)
    end
  end)

  it("tells what differs from another", function()
    local a = plan_of({rescale = {threshold = 8}}, "f16", 1, 100, 100, 2, 2, 64)
    local b = plan_of({rescale = {threshold = 0}, kv_order = "forward"}, "f16", 1, 100, 100, 2, 2, 64)
    assert.same({"rescale.threshold: 8 and 0", 'kv_order: "reverse" and "forward"'}, a:differences(b))
    assert.same({}, a:differences(a))
    assert.is_false(a == b)
    local c = plan_of({mask = fa4.mask.causal(), rescale = {threshold = 8}, exp2 = {first_fragment = 1}, p_split = 96,
      schedule = fa4.schedule.linear()}, "f16", 1, 100, 100, 2, 2, 64)
    assert.same({"mask: differs"}, a:differences(c))
  end)

  it("visits key blocks in the order that kv_order says", function()
    local function order(name)
      local blocks = {}
      for i, block in ipairs(plan_of({kv_order = name}, "f16", 1, 10, 600, 1, 1, 64):blocks(0, 0, 0)) do blocks[i] = block.key_block end
      return blocks
    end
    assert.same({4, 3, 2, 1, 0}, order("reverse"))
    assert.same({0, 1, 2, 3, 4}, order("forward"))
    assert.same({0, 4, 3, 2, 1}, order("sink_first"))
  end)

  it("packs the heads of a group into its rows", function()
    local plan = plan_of({}, "f16", 1, 300, 100, 32, 8, 64)
    assert.is_true(plan.packed)
    assert.equal(32, plan.positions)
    assert.equal(8, plan.heads)
    assert.same({0, 12}, {plan:row(3, 0, 0)})
    assert.same({1, 13}, {plan:row(3, 0, 5)})
    assert.same({31, 15}, {plan:row(3, 0, 127)})
    local unpacked = plan_of({gqa_packing = false}, "f16", 1, 300, 100, 32, 8, 64)
    assert.is_false(unpacked.packed)
    assert.equal(128, unpacked.positions)
    assert.equal(32, unpacked.heads)
  end)

  it("does not pack a group that does not divide the tile", function()
    local plan = plan_of({}, "f16", 1, 300, 100, 9, 3, 64)
    assert.is_false(plan.packed)
    assert.equal(9, plan.heads)
  end)

  it("has no tiles without queries and no blocks without keys", function()
    assert.equal(0, plan_of({}, "f16", 1, 0, 100, 1, 1, 64).task_count)
    assert.equal(0, plan_of({}, "f16", 0, 100, 100, 1, 1, 64).task_count)
    assert.equal(0, #plan_of({}, "f16", 1, 100, 0, 1, 1, 64):blocks(0, 0, 0))
  end)

  it("chooses what a specialist would", function()
    local full, causal = plan_of({}, "f16", 1, 300, 300, 1, 1, 64), plan_of({mask = fa4.mask.causal()}, "f16", 1, 300, 300, 1, 1, 64)
    assert.equal(2, full.config["exp2.emulated_pairs"])
    assert.equal(1, full.config["exp2.first_fragment"])
    assert.equal(0, causal.config["exp2.first_fragment"])
    assert.equal(96, full.config.p_split)
    assert.equal(64, causal.config.p_split)
    assert.equal(8, full.config["rescale.threshold"])
    assert.equal(0, plan_of({}, "f32", 1, 300, 300, 1, 1, 64).config["exp2.emulated_pairs"])
    assert.equal(14, plan_of({row_max = "first_block"}, "f16", 1, 300, 300, 1, 1, 64).config["rescale.threshold"])
  end)

  it("is refused for budgets beyond the hardware", function()
    assert.raises_text(function() plan_of({registers = {softmax = 256, correction = 64, other = 48}}, "f16", 1, 8, 8, 1, 1, 128) end,
      "registers", "65536")
    assert.raises_text(function() plan_of({pipeline = {q_stages = 8}}, "f16", 1, 8, 8, 1, 1, 128) end, "shared memory")
  end)
end)

describe("reading a plan's text", function()
  it("refuses programs, byte code and other texts", function()
    for _, text in ipairs{
      "return os.exit(3)", "return {problem = {}, config = {}} while true do end", "while true do end", "return 3", "hello",
      "return {problem = (function() end)(), config = {}}", string.dump(function() end), "",
    } do
      assert.raises_text(function() fa4.plan.parse(text) end, "plan.parse")
    end
    assert.raises_text(function() fa4.plan.parse(3) end, "plan.parse", "3")
  end)

  it("refuses wrong values by name", function()
    local text = plan_of({}, "f16", 1, 10, 10, 2, 1, 64):text()
    assert.raises_text(function() fa4.plan.parse((text:gsub("seqlen_q = 10", "seqlen_q = -3"))) end, "seqlen_q", "-3")
    assert.raises_text(function() fa4.plan.parse((text:gsub('dtype = "f16"', 'dtype = "f8"'))) end, "dtype", "f8")
    assert.raises_text(function() fa4.plan.parse((text:gsub("heads_kv = 1", "heads_kv = 3"))) end, "heads")
    assert.raises_text(function() fa4.plan.parse((text:gsub("p_split = 96", "p_splut = 96"))) end, "p_splut", "p_split")
  end)

  it("takes long lists of bits and tasks, which the prompt leaves out and says so", function()
    local plan = plan_of({mask = function(i, j) return (i * i + j) % 7 > 2 end,
      schedule = function(tasks) return tasks end}, "f16", 2, 2000, 2000, 16, 16, 64)
    assert.is_true(fa4.plan.parse(tostring(plan)) == plan)
    local short = require("fa4.show").value(plan)
    assert.is_true(#short < 4000)
    assert.raises_text(function() fa4.plan.parse(short) end, "order", "print(plan)")
  end)

  it("refuses bits that are no list of strings", function()
    local text = tostring(plan_of({mask = function(i, j) return i > j end}, "f16", 1, 10, 10, 2, 1, 64))
    assert.raises_text(function() fa4.plan.parse((text:gsub("mask_data = {.-}", "mask_data = 3"))) end, "mask_data", "3")
    assert.raises_text(function() fa4.plan.parse((text:gsub("mask_data = {.-}", "mask_data = {{}}"))) end, "mask_data", "a table")
  end)
end)
