--- The known answers about attention itself, on the CPU and through the sm_100a kernel on the emulator.
local fa4 = require "fa4"
local formula = require "spec.support.formula"

local INF = math.huge
local ORDERS = {"reverse", "forward", "sink_first"}

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

local function answers(device, DTYPES)
  local function op(config)
    config = config or {}
    config.device = device
    return fa4.attention(config)
  end

  describe("known answer 1 on " .. device .. ", rows with no key", function()
    it("gives O = 0 and LSE = -inf to them", function()
      for _, dtype in ipairs(DTYPES) do
        each_schedule(function(config)
          config.mask = fa4.mask.causal()
          local zeros = {dtype = dtype}
          local out = op(config)(fa4.zeros({1, 5, 1, 128}, zeros), fa4.zeros({1, 2, 1, 128}, zeros), formula.rows({1, 3}, 128, dtype))
          for i, want in ipairs{0, 0, 0, 1, 2} do
            for d = 0, 127 do assert.equal(want, out.o:get(0, i - 1, 0, d)) end
          end
          for i = 0, 2 do assert.equal(-INF, out.lse:get(0, 0, i)) end
          assert.near_to(out.lse:get(0, 0, 3), 0, 1e-6)
          near_lse(out.lse:get(0, 0, 4), 0.6931472)
        end)
      end
    end)
  end)

  describe("known answer 2 on " .. device .. ", a hidden first block before very negative scores", function()
    it("is no NaN", function()
      for _, dtype in ipairs(DTYPES) do
        each_schedule(function(config)
          config.mask = fa4.mask.causal()
          local function full(n, value) return fa4.full({1, n, 1, 128}, value, {dtype = dtype}) end
          local out = op(config)(full(128, 8), full(200, -4), full(200, 7))
          for i = 0, 127 do near(out.o:get(0, i, 0, i), 7, dtype) end
          near_lse(out.lse:get(0, 0, 0), -357.7482125)
          near_lse(out.lse:get(0, 0, 55), -357.1866417)
          near_lse(out.lse:get(0, 0, 127), -356.7403546)
        end)
      end
    end)
  end)

  describe("known answer 3 on " .. device .. ", no keys", function()
    it("gives O = 0 and LSE = -inf", function()
      for _, mask in ipairs{fa4.mask.full(), fa4.mask.causal()} do
        local q = fa4.randn({2, 4, 4, 128}, {dtype = "f16", seed = 1})
        local none = fa4.zeros({2, 0, 1, 128}, {dtype = "f16"})
        local out = op{mask = mask}(q, none, none)
        assert.close(out.o, fa4.zeros({2, 4, 4, 128}))
        assert.close(out.lse, fa4.full({2, 4, 4}, -INF))
      end
    end)

    it("gives an empty result for no queries or no batch", function()
      local none = fa4.zeros({2, 0, 4, 64}, {dtype = "f16"})
      local k = fa4.zeros({2, 3, 4, 64}, {dtype = "f16"})
      local out = op()(none, k, k)
      assert.same({2, 0, 4, 64}, out.o.shape)
      assert.same({2, 4, 0}, out.lse.shape)
      assert.equal(0, out.report.tiles)
      assert.equal(-INF, out.report.exponent_max)
      local empty = fa4.zeros({0, 3, 4, 64}, {dtype = "f16"})
      assert.same({0, 3, 4, 64}, op()(empty, empty, empty).o.shape)
    end)
  end)

  describe("known answer 4 on " .. device .. ", a window wider than the data", function()
    it("is no window", function()
      local q, k = fa4.zeros({1, 4, 1, 128}, {dtype = "f16"}), fa4.zeros({1, 2, 1, 128}, {dtype = "f16"})
      local v = formula.rows({1, 3}, 128)
      local wide = op{mask = fa4.mask.window{left = 2147483647, right = 2147483647}}(q, k, v)
      local none = op()(q, k, v)
      assert.close(wide.o, fa4.full({1, 4, 1, 128}, 2))
      near_lse(wide.lse:get(0, 0, 3), 0.6931472)
      assert.same_bits(wide.o, none.o)
      assert.same_bits(wide.lse, none.lse)
    end)
  end)

  describe("known answer 5 on " .. device .. ", soft cap with a mask", function()
    it("masks after the cap", function()
      local zeros = fa4.zeros({1, 2, 1, 128}, {dtype = "f16"})
      local out = op{mask = fa4.mask.causal(), soft_cap = 1}(zeros, zeros, formula.rows({10, 20}, 128))
      assert.equal(10, out.o:get(0, 0, 0, 5))
      assert.equal(15, out.o:get(0, 1, 0, 5))
    end)

    it("agrees with the reference at caps 1, 30 and 50", function()
      local q, k, v = formula.qkv({1, 70, 2, 64}, {1, 200, 2, 64})
      for _, cap in ipairs{1, 30, 50} do
        for _, dtype in ipairs(DTYPES) do
          local a, b, c = q:to{dtype = dtype}, k:to{dtype = dtype}, v:to{dtype = dtype}
          assert.valid(op{soft_cap = cap, mask = fa4.mask.causal(), scale = 1}(a, b, c), a, b, c)
        end
      end
    end)
  end)

  describe("known answer 6 on " .. device .. ", scale 0", function()
    it("is the mean of the visible rows", function()
      local q, k = formula.qkv({1, 3, 1, 128}, {1, 3, 1, 128})
      local out = op{mask = fa4.mask.causal(), scale = 0}(q, k, formula.rows({1, 4, 7}, 128))
      for i, want in ipairs{1, 2.5, 4} do near(out.o:get(0, i - 1, 0, 9), want) end
      for i, want in ipairs{0, 0.6931472, 1.0986123} do near_lse(out.lse:get(0, 0, i - 1), want) end
    end)

    it("and negative scales agree with the reference", function()
      local q, k, v = formula.qkv({1, 40, 1, 64}, {1, 300, 1, 64})
      for _, scale in ipairs{0, -0.05, -1} do
        each_schedule(function(config)
          config.scale = scale
          assert.valid(op(config)(q, k, v), q, k, v)
        end)
      end
    end)
  end)

  describe("known answer 7 on " .. device .. ", only some rows of a group change their reference", function()
    local function run(swapped, config)
      local q = fa4.zeros({1, 32, 1, 128}, {dtype = "f16"}):set(0, 0, 0, 0, 1):set(0, 1, 0, 0, -1)
      local k = fa4.zeros({1, 256, 1, 128}, {dtype = "f16"})
      local v = fa4.zeros({1, 256, 1, 128}, {dtype = "f16"})
      local strong, weak = swapped and 128 or 0, swapped and 0 or 128
      k:narrow(1, strong, 128):narrow(3, 0, 1):fill(30)
      v:narrow(1, strong, 128):fill(1)
      v:narrow(1, weak, 128):fill(2)
      config.scale = 0.6931471805599453
      return op(config)(q, k, v)
    end

    it("moves those and no others", function()
      for _, swapped in ipairs{false, true} do
        each_schedule(function(config)
          local out = run(swapped, config)
          near(out.o:get(0, 0, 0, 0), 1)
          near(out.o:get(0, 1, 0, 0), 2)
          for i = 2, 31 do near(out.o:get(0, i, 0, 0), 1.5) end
          near_lse(out.lse:get(0, 0, 0), 25.6464457)
          near_lse(out.lse:get(0, 0, 1), 4.8520303)
          near_lse(out.lse:get(0, 0, 2), 5.5451774)
        end)
      end
    end)

    it("counts them", function()
      -- Reverse order meets the strong half last: row 0 rises by 30 log2 units, row 1 falls, the others stay.
      local last = run(false, {}).report
      assert.equal(32, last.row_steps)
      assert.equal(1, last.rescaled_rows)
      assert.equal(1, last.warp_steps)
      assert.equal(1, last.rescaled_warps)
      -- Met first, it is row 1 that rises, from -30 to 0.
      assert.equal(1, run(true, {}).report.rescaled_rows)
      assert.equal(0, run(false, {row_max = "first_block", kv_order = "forward"}).report.spared_rows)
    end)
  end)

  describe("known answer 8 on " .. device .. ", the unit of LSE", function()
    it("is the natural log", function()
      local q = fa4.zeros({1, 1, 1, 128}, {dtype = "f16"})
      near_lse(op()(q, fa4.zeros({1, 2, 1, 128}, {dtype = "f16"}), formula.rows({1, 2}, 128)).lse:get(0, 0, 0), 0.6931472)
      local ones = fa4.full({1, 1, 1, 128}, 1, {dtype = "f16"})
      local v = fa4.randn({1, 1, 1, 128}, {dtype = "f16", seed = 8})
      local out = op()(ones, ones, v)
      near_lse(out.lse:get(0, 0, 0), 11.3137085)
      assert.same_bits(out.o, v)
    end)
  end)

  describe("known answer 9 on " .. device .. ", products beyond the range of f16", function()
    it("are exact enough", function()
      local q = formula.rows({60}, 128)
      each_schedule(function(config)
        local out = op(config)(q, formula.rows({60, 59}, 128), formula.rows({2, 5}, 128))
        near(out.o:get(0, 0, 0, 77), 2)
        assert.near_to(out.lse:get(0, 0, 0), 40729.35, 0.01)
      end)
    end)
  end)

  describe("known answer 10 on " .. device .. ", strided tensors", function()
    -- A tensor stored as (batch, head, seq, dim), seen as (batch, seq, head, dim).
    local function strided(t)
      return t:permute(0, 2, 1, 3):contiguous():permute(0, 2, 1, 3)
    end

    it("give the bits of contiguous ones", function()
      local q, k, v = formula.qkv({1, 4, 2, 128}, {1, 4, 2, 128})
      local want = op()(q, k, v)
      near(want.o:get(0, 0, 0, 0), 0.13136370)
      near(want.o:get(0, 3, 1, 5), 0.40985094)
      near_lse(want.lse:get(0, 1, 3), 2.60043852)
      for _, case in ipairs{{q, k, strided(v)}, {strided(q), k, v}, {q, strided(k), v}, {strided(q), strided(k), strided(v)}} do
        local o = strided(fa4.zeros({1, 4, 2, 128}, {dtype = "f16"}))
        local got = op()(case[1], case[2], case[3], {o = o})
        assert.equal(o, got.o)
        assert.same_bits(o, want.o)
        assert.same_bits(got.lse, want.lse)
      end
    end)

    it("may have stride 0 and negative strides among the inputs", function()
      local q = fa4.randn({2, 40, 2, 64}, {dtype = "f16", seed = 1})
      local k = fa4.randn({1, 50, 1, 64}, {dtype = "f16", seed = 2}):expand{2, 50, 2, 64}
      local v = fa4.randn({1, 50, 1, 64}, {dtype = "f16", seed = 3}):expand{2, 50, 2, 64}
      local got, want = op()(q, k, v), op()(q, k:clone(), v:clone())
      assert.same_bits(got.o, want.o)
      assert.valid(got, q, k, v)
    end)

    it("leave their neighbours alone", function()
      local q, k, v = formula.qkv({1, 5, 2, 64}, {1, 5, 2, 64})
      local room = fa4.full({1, 7, 4, 80}, 99, {dtype = "f16"})
      local o = room:narrow(1, 1, 5):narrow(2, 1, 2):narrow(3, 8, 64)
      op()(q, k, v, {o = o})
      local sum, data = 0, room:to{dtype = "f64"}.data
      for i = 0, 7 * 4 * 80 - 1 do
        if data[i] == 99 then sum = sum + 1 end
      end
      assert.equal(7 * 4 * 80 - 5 * 2 * 64, sum)
    end)
  end)

  describe("known answer 11 on " .. device .. ", six query heads on two key heads", function()
    it("share keys in groups of three", function()
      local zeros = fa4.zeros({1, 5, 6, 128}, {dtype = "f16"})
      local k = fa4.zeros({1, 9, 2, 128}, {dtype = "f16"})
      local v = fa4.zeros({1, 9, 2, 128}, {dtype = "f16"})
      v:narrow(2, 0, 1):fill(1)
      v:narrow(2, 1, 1):fill(2)
      local out = op{mask = fa4.mask.causal()}(zeros, k, v)
      for h, want in ipairs{1, 1, 1, 2, 2, 2} do assert.equal(want, out.o:get(0, 4, h - 1, 3)) end
    end)

    it("give the values of the formula data", function()
      for _, packing in ipairs{true, false} do
        local q, k, v = formula.qkv({1, 5, 6, 128}, {1, 9, 2, 128})
        local out = op{mask = fa4.mask.causal(), gqa_packing = packing}(q, k, v)
        for h, want in pairs{[0] = {0.47959830, 3.24894060}, [2] = {0.21452661, 2.60590389}, [3] = {0.17738150, 2.71200985},
          [5] = {0.13406130, 2.75495629}} do
          near(out.o:get(0, 4, h, 0), want[1])
          near_lse(out.lse:get(0, h, 4), want[2])
        end
        assert.valid(out, q, k, v)
      end
    end)

    it("are five or six, not five on two", function()
      local q, k = fa4.zeros({1, 5, 5, 128}, {dtype = "f16"}), fa4.zeros({1, 9, 2, 128}, {dtype = "f16"})
      assert.raises_text(function() op()(q, k, k) end, "known_answers_spec.lua", "5 query heads", "2 key heads")
    end)
  end)
end

answers("cpu", {"f16", "bf16", "f32"})

local emulated, missing = fa4.device("emu:sm_100a")
if emulated then
  answers("emu:sm_100a", {"f16", "bf16"})
else
  describe("known answers on the emulator", function()
    it("are the same", function() pending(missing) end)
  end)
end
