local fa4 = require "fa4"
local formula = require "spec.support.formula"
local program = require "spec.support.program"

local INF = math.huge
local DTYPES = {"f16", "bf16", "f32"}
local ORDERS = {"reverse", "forward", "sink_first"}

local function op(config)
  config = config or {}
  config.device = "cpu"
  return fa4.attention(config)
end

-- Two units in the last place of f16, or of f32's result where P is exact in neither.
local function near(got, want, dtype)
  local ulp = math.max(math.abs(want), 1) * (dtype == "bf16" and 2 ^ -8 or 2 ^ -11)
  assert.near_to(got, want, 2 * ulp)
end

local function near_lse(got, want)
  assert.near_to(got, want, 1e-4 * math.max(1, math.abs(want)))
end

-- Runs `fn(config)` under every key order and row_max.
local function each_schedule(fn)
  for _, order in ipairs(ORDERS) do
    for _, row_max in ipairs{"each_block", "first_block"} do fn{kv_order = order, row_max = row_max} end
  end
end

describe("a scale", function()
  it("may be any finite number on the CPU, and is refused with the reason where a GPU's floats end", function()
    local q, k, v = formula.qkv({1, 40, 1, 64}, {1, 300, 1, 64})
    for _, scale in ipairs{1e-320, 1e10, 1e37, -1e38, 1e39, -1e300} do
      local out = op{scale = scale, mask = fa4.mask.causal()}(q, k, v)
      assert.valid(out, q, k, v)
      assert.equal(out.plan.hash, fa4.plan.parse(out.plan:text()).hash)
      if math.abs(scale) > 1e6 then
        local plan, message = fa4.attention{device = "emu", scale = scale}:plan(q, k, v)
        assert.is_nil(plan)
        assert.is_truthy(message:find("scale: emu:sm_100a takes up to 1e6", 1, true), message)
      end
    end
    -- What is infinite in double too is NaN in the reference.
    local out = op{scale = 1.7e308}(q, k, v)
    assert.is_true(out.o:get(0, 0, 0, 0) ~= out.o:get(0, 0, 0, 0))
    local plan, message = fa4.attention{device = "emu", soft_cap = 1e5}:plan(q, k, v)
    assert.is_nil(plan)
    assert.is_truthy(message:find("soft_cap", 1, true))
  end)
end)

describe("known answer 12, a device of another generation", function()
  -- The driver is a fake with one device of a given compute capability; the executable and its choice are real.
  local function with_device(capability, code)
    local fake = program.build .. "/tests/libfakecuda.so"
    local result = program.run({"-e", code}, {env = ("FA4_LIBCUDA=%s FA4_FAKE_CUDA=%s"):format(program.quote(fake), capability)})
    return result.out, result
  end
  local CHOOSE = 'print(select(2, fa4.device "cuda:sm_%s")) print(pcall(fa4.attention, {device = "cuda:sm_%s"}))'
  local AUTO = [[
    local q = fa4.randn({1, 9, 2, 64}, {dtype = "f16"})
    local op = fa4.attention{device = "auto", mask = fa4.mask.causal()}
    print(op:plan(q, q, q).device)
    if op:plan(q, q, q).device == "cpu" then
      local out = op(q, q, q)
      print(out.report.device, fa4.validate(out, q, q, q).pass)
    end]]

  it("is refused when it is chosen, with its name, both capabilities and what can run instead", function()
    for _, case in ipairs{{"9.0", "100a", "10.0", "cuda:sm_90a"}, {"10.0", "90a", "9.0", "cuda:sm_100a"}} do
      local out = with_device(case[1], CHOOSE:format(case[2], case[2]))
      for _, part in ipairs{"Fake GPU", "capability " .. case[1], "needs compute capability " .. case[3], '"' .. case[4] .. '"', '"cpu"',
        '"emu:sm_100a"', '"emu:sm_90a"', "\nfalse"} do
        assert.is_truthy(out:find(part, 1, true), part .. " is missing in\n" .. out)
      end
    end
    local _, result = with_device("9.0", 'fa4.attention{device = "cuda:sm_100a"}')
    assert.equal(3, result.code)
  end)

  it("is passed over by auto, which says what it took", function()
    assert.equal("cuda:0\n", (with_device("9.0", AUTO)))
    assert.equal("cuda:0\n", (with_device("10.0", AUTO)))
    for _, capability in ipairs{"8.0", "12.0"} do assert.equal("cpu\ncpu\ttrue\n", (with_device(capability, AUTO))) end
  end)
end)

describe("known answer 13, an error in a mask", function()
  it("leaves the output as it was, and the next call is right", function()
    local q, k, v = formula.qkv({1, 6, 1, 64}, {1, 6, 1, 64})
    local o = fa4.full({1, 6, 1, 64}, 42, {dtype = "f16"})
    local bad = op{mask = function(i, j)
      if i == 3 and j == 2 then error("as planned") end
      return true
    end}
    assert.raises_text(function() bad(q, k, v, {o = o}) end, "as planned", "query 3, key 2")
    assert.close(o, fa4.full({1, 6, 1, 64}, 42))
    assert.valid(op()(q, k, v), q, k, v)
  end)
end)

describe("known answer 14, arguments collected while a call runs", function()
  local function check(out)
    near(out.o:get(0, 63, 1, 0), -0.10652312)
    near_lse(out.lse:get(0, 1, 63), 5.02735352)
    local sum, data = 0, out.o:to{dtype = "f64"}.data
    for i = 0, 64 * 2 * 128 - 1 do sum = sum + data[i] end
    assert.near_to(sum, -6.328984, 0.05)
  end

  local function litter()
    collectgarbage()
    collectgarbage()
    fa4.full({16, 1024, 1024}, 0 / 0, {dtype = "f32"})
  end

  it("gives the right result when a mask collects and allocates", function()
    check(op{mask = function(i, j)
      if j == 0 and i % 32 == 0 then litter() end
      return j <= i
    end}(formula.qkv({1, 64, 2, 128}, {1, 64, 2, 128})))
  end)

  it("keeps the result after the call", function()
    local out = op{mask = fa4.mask.causal()}(formula.qkv({1, 64, 2, 128}, {1, 64, 2, 128}))
    litter()
    check(out)
  end)
end)

describe("a given output", function()
  local q, k, v

  before_each(function() q, k, v = formula.qkv({1, 40, 2, 64}, {1, 50, 2, 64}) end)

  it("may be f32 for 16-bit inputs, and is then not rounded", function()
    local wide = op()(q, k, v, {o = fa4.empty({1, 40, 2, 64}, {dtype = "f32"})})
    local narrow = op()(q, k, v)
    assert.same_bits(wide.o:to{dtype = "f16"}, narrow.o)
    assert.equal("f32", wide.o.dtype)
  end)

  it("may be LSE too", function()
    local lse = fa4.empty({1, 2, 40}, {dtype = "f32"})
    assert.equal(lse, op()(q, k, v, {lse = lse}).lse)
    assert.same_bits(lse, op()(q, k, v).lse)
  end)

  it("is refused when it does not fit, before anything is written", function()
    local function with(outputs, ...)
      local words = {...}
      assert.raises_text(function() op()(q, k, v, outputs) end, "attention_spec.lua", unpack(words))
    end
    with({o = fa4.zeros({1, 40, 2, 32}, {dtype = "f16"})}, "o: expected shape (1, 40, 2, 64)", "(1, 40, 2, 32)")
    with({o = fa4.zeros({40, 2, 64}, {dtype = "f16"})}, "o: expected shape")
    with({o = fa4.zeros({1, 40, 2, 64}, {dtype = "bf16"})}, "o: expected f16 or f32, got bf16")
    with({o = fa4.zeros({1, 40, 1, 64}, {dtype = "f16"}):expand{1, 40, 2, 64}}, "stride 0")
    with({o = q}, "o: it overlaps q")
    with({o = 3}, "o: expected a tensor, got 3")
    with({lse = fa4.zeros({1, 40, 2}, {dtype = "f32"})}, "lse: expected shape (1, 2, 40)")
    with({lse = fa4.zeros({1, 2, 40}, {dtype = "f16"})}, "lse: expected f32")
    with({out = q}, "out", "unknown output")
    with(q, "expected a table", "a tensor")
    assert.raises_text(function() op{lse = false}(q, k, v, {lse = fa4.zeros{1, 2, 40}}) end, "lse = false")
  end)

  it("may not overlap another output", function()
    local room = fa4.zeros({1, 40, 2, 64}, {dtype = "f32"})
    local a, b, c = q:to{dtype = "f32"}, k:to{dtype = "f32"}, v:to{dtype = "f32"}
    assert.raises_text(function() op()(a, b, c, {o = room, lse = room:reshape{64, 2, 40}:narrow(0, 0, 1)}) end, "lse: it overlaps o")
  end)

  it("may lie between the inputs in one buffer, or overlap itself nowhere", function()
    local room = fa4.randn({1, 40, 8, 64}, {dtype = "f16", seed = 4})
    local a, b, c, o = room:narrow(2, 0, 2), room:narrow(2, 2, 2), room:narrow(2, 4, 2), room:narrow(2, 6, 2)
    assert.valid(op()(a, b, c, {o = o}), a, b, c)
    local folded = fa4.zeros({1, 41, 1, 64}, {dtype = "f16"})
    local native = require "fa4.ffi"
    local twice = require("fa4.tensor").adopt(folded.storage, native.new("fa4_tensor", folded.view))
    twice.shape, twice.strides = {1, 40, 2, 64}, {0, 64, 64, 1}
    for axis = 0, 3 do twice.view.shape[axis], twice.view.strides[axis] = twice.shape[axis + 1], twice.strides[axis + 1] end
    assert.raises_text(function() op()(q, k, v, {o = twice}) end, "o: its elements overlap")
  end)

  it("may be absent where LSE is off", function()
    assert.is_nil(op{lse = false}(q, k, v).lse)
  end)

  it("is the same without a report, and with the very tensors of the call before", function()
    local silent = op{report = false}
    local first, given = op()(q, k, v), {o = fa4.zeros({1, 40, 2, 64}, {dtype = q.dtype})}
    for _ = 1, 3 do
      given.o:fill(0)
      local out = silent(q, k, v, given)
      assert.is_nil(out.report)
      assert.equal(first.o:get(0, 39, 1, 63), out.o:get(0, 39, 1, 63))
    end
    given.o:free()
    assert.raises_text(function() silent(q, k, v, given) end, "o: the tensor was freed")
  end)
end)

describe("what a schedule may not change", function()
  local q, k, v

  setup(function()
    q = fa4.randn({1, 300, 4, 64}, {dtype = "f16", seed = 11, scale = 3})
    k = fa4.randn({1, 420, 2, 64}, {dtype = "f16", seed = 12, scale = 3})
    v = fa4.randn({1, 420, 2, 64}, {dtype = "f16", seed = 13})
  end)

  it("is the answer, within tolerance", function()
    for _, threshold in ipairs{0, 3.5, 8, 15} do
      each_schedule(function(config)
        if config.row_max == "each_block" or threshold >= 7 then
          config.rescale = {threshold = threshold}
          config.mask = fa4.mask.causal()
          assert.valid(op(config)(q, k, v), q, k, v)
        end
      end)
    end
    for pairs_of_8 = 0, 8, 2 do
      assert.valid(op{exp2 = {emulated_pairs = pairs_of_8, first_fragment = 0}}(q, k, v), q, k, v)
    end
    assert.valid(op{kv_splits = 3}(q, k, v), q, k, v)
  end)

  it("is a single bit, where it is the order of tiles, the workers or the threads", function()
    local want = op{schedule = fa4.schedule.linear(), threads = 1}(q, k, v)
    local function reversed(tasks)
      local list = {}
      for i = #tasks, 1, -1 do list[#list + 1] = tasks[i] end
      return list
    end
    for _, config in ipairs{{threads = 2}, {schedule = fa4.schedule.lpt(), threads = 2}, {schedule = reversed},
      {schedule = fa4.schedule.list(function(tasks) return {{}, tasks} end), workers = 2}} do
      local got = op(config)(q, k, v)
      assert.same_bits(got.o, want.o)
      assert.same_bits(got.lse, want.lse)
      assert.equal(want.report.rescaled_rows, got.report.rescaled_rows)
    end
  end)

  it("is the answer of unpacked heads", function()
    local packed, unpacked = op()(q, k, v), op{gqa_packing = false}(q, k, v)
    assert.is_true(packed.plan.packed)
    assert.close(packed.o, unpacked.o, {atol = 2 ^ -9})
  end)
end)

describe("an operator", function()
  it("runs a plan that was parsed", function()
    local q, k, v = formula.qkv({1, 40, 2, 64}, {1, 50, 2, 64})
    local out = op{mask = fa4.mask.causal(), rescale = {threshold = 2}}(q, k, v)
    local again = fa4.plan.parse(out.plan:text()):run(q, k, v)
    assert.same_bits(again.o, out.o)
    assert.equal(out.report.plan_hash, again.report.plan_hash)
  end)

  it("takes tensors of several shapes, one after another", function()
    local attention = op()
    for n = 1, 40 do
      local q, k, v = formula.qkv({1, n, 1, 8}, {1, n, 1, 8})
      assert.same({1, n, 1, 8}, attention(q, k, v).o.shape)
    end
  end)

  it("runs where auto says, the report names it, and results come back to the host", function()
    local q, k, v = formula.qkv({1, 40, 2, 64}, {1, 50, 2, 64})
    local out = fa4.attention{mask = fa4.mask.causal()}(q, k, v)
    assert.is_truthy(out.report.device:find(fa4.device("cuda") and "^cuda" or "^cpu"), out.report.device)
    assert.equal("cpu", out.o.device)
    assert.valid(out, q, k, v)
  end)

  it("has dim_v of its own", function()
    local q, k = formula.qkv({1, 30, 1, 64}, {1, 40, 1, 64})
    local v = formula.tensor(3, {1, 40, 1, 96}, 1)
    assert.valid(op()(q, k, v), q, k, v)
  end)

  it("frees what it allocated", function()
    collectgarbage()
    collectgarbage()
    local before = fa4.memory().storages
    for _ = 1, 5 do op()(formula.qkv({1, 10, 1, 64}, {1, 10, 1, 64})) end
    collectgarbage()
    collectgarbage()
    assert.equal(before, fa4.memory().storages)
  end)

  it("lets NaN and infinities do what they do in the reference", function()
    for _, value in ipairs{0 / 0, INF, -INF} do
      for _, where in ipairs{"q", "k"} do
        for _, dtype in ipairs(DTYPES) do
          local t = {}
          t.q, t.k, t.v = formula.qkv({1, 5, 1, 64}, {1, 140, 1, 64}, dtype)
          t[where]:set(0, 2, 0, 1, value)
          local out = op{mask = fa4.mask.window{left = 136, right = 0}}(t.q, t.k, t.v)
          local want = fa4.reference(t.q, t.k, t.v, {mask = fa4.mask.window{left = 136, right = 0}})
          for i = 0, 4 do
            local a, b = out.o:get(0, i, 0, 3), want.o:get(0, i, 0, 3)
            assert.equal(b ~= b, a ~= a, ("%s of %s in %s, row %d: got %g, expected %g"):format(value, dtype, where, i, a, b))
          end
        end
      end
    end
  end)
end)
