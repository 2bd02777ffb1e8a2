local fa4 = require "fa4"
local formula = require "spec.support.formula"

local INF = math.huge
local NAN = 0 / 0

local function run(config, dtype)
  local q, k, v = formula.qkv({1, 40, 2, 64}, {1, 150, 2, 64}, dtype)
  config = config or {}
  config.device = "cpu"
  return fa4.attention(config)(q, k, v), q, k, v
end

describe("validation", function()
  it("passes a right answer and gives its figures", function()
    for _, dtype in ipairs{"f16", "bf16", "f32"} do
      local result = fa4.validate(run({mask = fa4.mask.causal()}, dtype))
      assert.is_true(result.pass, tostring(result))
      assert.is_true(result.o_error > 0 and result.bound <= 1 and result.lse_error <= 1e-4)
      if dtype == "f32" then
        assert.equal(0, result.ratio)
      else
        assert.is_true(result.naive_error > 0 and result.floor > 0)
        assert.near_to(result.ratio, result.o_error / (result.naive_error + result.floor), 1e-12)
      end
    end
  end)

  it("fails for one wrong element, and names it", function()
    local out, q, k, v = run()
    local right = out.o:get(0, 17, 1, 33)
    out.o:set(0, 17, 1, 33, right + 0.5)
    local result = fa4.validate(out, q, k, v)
    assert.is_false(result.pass)
    assert.equal("o", result.worst.tensor)
    assert.same({0, 17, 1, 33}, {result.worst.batch, result.worst.position, result.worst.head, result.worst.dim})
    assert.near_to(result.worst.got, right + 0.5, 0.001)
    assert.is_truthy(tostring(result):find("FAIL", 1, true))
    assert.is_truthy(tostring(result):find("position 17, head 1, dim 33", 1, true))
  end)

  it("fails for one wrong LSE, and names it", function()
    local out, q, k, v = run()
    out.lse:set(0, 1, 5, out.lse:get(0, 1, 5) + 0.01)
    local result = fa4.validate(out, q, k, v)
    assert.is_false(result.pass)
    assert.same({"lse", 0, 1, 5}, {result.worst.tensor, result.worst.batch, result.worst.head, result.worst.position})
  end)

  it("never passes NaN, in O or LSE, nor a finite number for an infinite one", function()
    for _, value in ipairs{NAN, INF, -INF} do
      local out, q, k, v = run()
      out.o:set(0, 3, 0, 1, value)
      assert.is_false(fa4.validate(out, q, k, v).pass)
      out, q, k, v = run()
      out.lse:set(0, 0, 7, value)
      assert.is_false(fa4.validate(out, q, k, v).pass)
    end
    local zeros = fa4.zeros({1, 5, 1, 64}, {dtype = "f16"})
    local k = fa4.zeros({1, 2, 1, 64}, {dtype = "f16"})
    local out = fa4.attention{device = "cpu", mask = fa4.mask.causal()}(zeros, k, k)
    assert.is_true(fa4.validate(out, zeros, k, k).pass)
    out.lse:set(0, 0, 0, -1e30)
    assert.is_false(fa4.validate(out, zeros, k, k).pass)
  end)

  it("does not pass NaN inputs, even where the reference is NaN", function()
    local q, k, v = formula.qkv({1, 4, 1, 64}, {1, 4, 1, 64})
    q:set(0, 2, 0, 0, NAN)
    local out = fa4.attention{device = "cpu"}(q, k, v)
    assert.is_false(fa4.validate(out, q, k, v).pass)
  end)

  it("notices another mask, scale or cap", function()
    local out, q, k, v = run{mask = fa4.mask.causal()}
    assert.is_true(fa4.validate(out, q, k, v).pass)
    assert.is_true(fa4.validate(out, q, k, v, {mask = fa4.mask.causal()}).pass)
    assert.is_true(fa4.validate(out, q, k, v, out.plan).pass)
    for _, problem in ipairs{{}, {mask = fa4.mask.causal(), scale = 0.13}, {mask = fa4.mask.causal(), soft_cap = 5},
      {mask = fa4.mask.window{right = 1}}, {mask = fa4.mask.window{right = -1, left = 109}}} do
      assert.is_false(fa4.validate(out, q, k, v, problem).pass)
    end
  end)

  it("refuses an absent LSE, unless the problem does not ask for it", function()
    local out, q, k, v = run()
    out.lse = nil
    assert.raises_text(function() fa4.validate(out, q, k, v) end, "validate_spec.lua:", "out.lse", "expected a tensor")
    assert.is_true(fa4.validate(out, q, k, v, {lse = false}).pass)
    out, q, k, v = run{lse = false}
    assert.is_true(fa4.validate(out, q, k, v).pass)
  end)

  it("takes its floor in the dtype of O", function()
    local out, q, k, v = run()
    local narrow = fa4.validate(out, q, k, v)
    local o = fa4.empty(out.o.shape, {dtype = "f32"})
    local wide = fa4.validate(fa4.attention{device = "cpu"}(q, k, v, {o = o}), q, k, v)
    assert.is_true(wide.pass)
    -- 11 bits against 24, of the same numbers.
    assert.near_to(wide.floor / narrow.floor, 2 ^ -13, 2 ^ -14)
    assert.equal(narrow.naive_error, wide.naive_error)
  end)

  it("holds an O that is f32 to its bound alone", function()
    -- One key: O is V. The naive computation loses nothing, so that a weight of 1 + 2^-20 is many times its error, and far within the bound.
    local q, k = fa4.randn({1, 4, 1, 16}, {dtype = "f16", seed = 1}), fa4.randn({1, 1, 1, 16}, {dtype = "f16", seed = 2})
    local v, o = fa4.full({1, 1, 1, 16}, 1.5, {dtype = "f16"}), fa4.empty({1, 4, 1, 16}, {dtype = "f32"})
    local out = fa4.attention{device = "cpu"}(q, k, v, {o = o})
    o:fill(1.5 * (1 + 2 ^ -20))
    local result = fa4.validate(out, q, k, v)
    assert.is_true(result.ratio > 1 and result.bound < 1e-2)
    assert.is_true(result.pass)
    o:fill(1.5 * (1 + 2 ^ -9))
    assert.is_false(fa4.validate(out, q, k, v).pass)
    o:fill(0 / 0)
    assert.is_false(fa4.validate(out, q, k, v).pass)
    o:fill(1.5 * (1 + 2 ^ -20))
    local narrow = {o = o:to{dtype = "f16"}, lse = out.lse, plan = out.plan}
    assert.is_true(fa4.validate(narrow, q, k, v).pass)
  end)

  it("prints within 80 columns, whatever the figures", function()
    local q = fa4.full({1, 2000, 12, 64}, 1e4, {dtype = "f16"})
    local out = fa4.attention{device = "cpu"}(q, q, q)
    out.o:set(0, 1999, 11, 63, -12345.678)
    local text = tostring(fa4.validate(out, q, q, q))
    assert.is_truthy(text:find("worst: o[batch 0, position 1999, head 11, dim 63]", 1, true), text)
    for line in text:gmatch("[^\n]+") do assert.is_true(#line <= 80, line) end
  end)

  it("names the shape that it got", function()
    local out, q, k, v = run()
    assert.raises_text(function() fa4.validate({o = fa4.zeros{1, 2}, lse = out.lse, plan = out.plan}, q, k, v) end, "o: expected shape (1, ", "got (1, 2)")
    assert.raises_text(function() fa4.validate({o = out.o, lse = fa4.zeros{7}, plan = out.plan}, q, k, v) end,
      "lse: expected shape (1, ", "got (7)")
  end)

  it("says what is wrong with its arguments", function()
    local out, q, k, v = run()
    assert.raises_text(function() fa4.validate(3, q, k, v) end, "validate_spec.lua:", "out", "3")
    assert.raises_text(function() fa4.validate(out, q, k) end, "v: expected a tensor, got nil")
    assert.raises_text(function() fa4.validate({o = fa4.zeros{1, 2}}, q, k, v) end, "o")
    assert.raises_text(function() fa4.validate(out, q, k, v, 3) end, "problem", "3")
    assert.raises_text(function() fa4.validate(out, q, k, v, {maks = 1}) end, "did you mean mask")
  end)
end)

describe("the reference", function()
  it("is softmax, worked out by hand", function()
    -- Scores 0 and ln 3 give weights 1/4 and 3/4.
    local q = fa4.from_table{{{{1}}}}
    local k = fa4.from_table{{{{0}}, {{math.log(3)}}}}:to{dtype = "f32"}
    local v = fa4.from_table{{{{8}}, {{16}}}}
    local function padded(t)
      local wide = fa4.zeros{t.shape[1], t.shape[2], 1, 8}
      wide:narrow(3, 0, 1):copy(t)
      return wide
    end
    local want = fa4.reference(padded(q), padded(k), padded(v), {scale = 1})
    assert.near_to(want.o:get(0, 0, 0, 0), 14, 1e-6)
    assert.near_to(want.lse:get(0, 0, 0), math.log(4), 1e-7)
    assert.equal("f64", want.o.dtype)
  end)

  it("agrees with plain loops in Lua", function()
    local q, k, v = formula.qkv({2, 7, 4, 8}, {2, 9, 2, 8}, "f32")
    local want = fa4.reference(q, k, v, {mask = fa4.mask.causal(), soft_cap = 3, scale = 0.4})
    for b = 0, 1 do
      for h = 0, 3 do
        for i = 0, 6 do
          local sum, value = 0, 0
          for j = 0, i + 2 do
            local score = 0
            for d = 0, 7 do score = score + q:get(b, i, h, d) * k:get(b, j, math.floor(h / 2), d) end
            local weight = math.exp(3 * math.tanh(0.4 * score / 3))
            sum, value = sum + weight, value + weight * v:get(b, j, math.floor(h / 2), 5)
          end
          assert.near_to(want.o:get(b, i, h, 5), value / sum, 1e-12)
          assert.near_to(want.lse:get(b, h, i), math.log(sum), 1e-12)
        end
      end
    end
  end)
end)

describe("comparing tensors (known answer 16)", function()
  local function compare(got, want, opts)
    return fa4.compare(fa4.from_table({got}, {dtype = "f64"}), fa4.from_table({want}, {dtype = "f64"}), opts)
  end

  it("fails for NaN on either side, unless equal NaN is asked for", function()
    assert.is_false(compare(NAN, 1).pass)
    assert.is_false(compare(1, NAN).pass)
    assert.is_false(compare(NAN, NAN).pass)
    assert.is_true(compare(NAN, NAN, {equal_nan = true}).pass)
    assert.is_false(compare(NAN, 1, {equal_nan = true}).pass)
    local difference = compare(NAN, 1).difference
    assert.is_true(difference ~= difference)
  end)

  it("passes equal infinities and no others", function()
    assert.is_true(compare(INF, INF).pass)
    assert.is_false(compare(INF, -INF).pass)
    assert.is_false(compare(INF, 1e308, {rtol = 1}).pass)
  end)

  it("fails for an empty tensor against one element", function()
    local result = fa4.compare(fa4.zeros{0}, fa4.zeros{1})
    assert.is_false(result.pass)
    assert.is_truthy(tostring(result):find("(0)", 1, true))
  end)

  it("reports the first wrong element and the largest difference", function()
    local got, want = fa4.zeros{3, 4}, fa4.zeros{3, 4}
    got:set(1, 2, 0.25):set(2, 3, -2)
    local result = fa4.compare(got, want, {atol = 0.1})
    assert.same({1, 2}, result.worst.index)
    assert.equal(2, result.wrong)
    assert.equal(2, result.difference)
    assert.is_true(fa4.compare(got, want, {atol = 2}).pass)
  end)

  it("makes the assertion of these specs fail", function()
    assert.is_false((pcall(function() assert.close(fa4.zeros{2}, fa4.full({2}, 1)) end)))
    assert.is_false((pcall(function() assert.near_to(NAN, NAN, 1) end)))
    assert.is_false((pcall(function() assert.same_bits(fa4.zeros{2}, fa4.full({2}, 1)) end)))
    assert.is_false((pcall(function() assert.raises_text(function() end, "x") end)))
  end)
end)
