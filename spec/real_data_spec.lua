local fa4 = require "fa4"

-- The expected counts and values are those of the data's own description, computed in float64 apart from this project.
local PATH = "scripts/data/real_qkv.safetensors"
local THRESHOLDS = {0, 4, 8, 12, 15}
local COUNTS = { -- per head: {rows, warps} per threshold, then rows in forward order at thresholds 0 and 8
  [0] = {{673, 35}, {13, 10}, {0, 0}, {0, 0}, {0, 0}, 243, 0},
  {{528, 35}, {14, 11}, {0, 0}, {0, 0}, {0, 0}, 382, 0},
  {{919, 51}, {379, 30}, {2, 2}, {0, 0}, {0, 0}, 78, 1},
  {{742, 43}, {197, 28}, {13, 9}, {0, 0}, {0, 0}, 230, 0},
  {{1012, 64}, {322, 31}, {14, 9}, {0, 0}, {0, 0}, 82, 0},
  {{326, 34}, {14, 12}, {0, 0}, {0, 0}, {0, 0}, 589, 0},
  {{1610, 106}, {926, 88}, {450, 58}, {132, 35}, {35, 20}, 82, 1},
  {{2075, 111}, {1363, 107}, {986, 100}, {744, 70}, {522, 41}, 6, 1},
  {{1833, 110}, {1226, 101}, {1000, 72}, {919, 47}, {894, 36}, 0, 0},
}

describe("the real data", function()
  local q, k, v, metadata

  setup(function()
    local tensors
    tensors, metadata = fa4.load(PATH)
    q, k, v = tensors.q, tensors.k, tensors.v
  end)

  local function run(config, ...)
    config.device, config.mask = "cpu", fa4.mask.causal()
    return fa4.attention(config)(q, k, v, ...)
  end

  it("are what their header says", function()
    assert.same({1, 1024, 9, 64}, q.shape)
    assert.same({1, 1024, 3, 64}, k.shape)
    assert.equal("f16", v.dtype)
    assert.is_truthy(metadata.model:find("SmolLM2", 1, true))
  end)

  it("rescale as many rows and warps per head as counted in float64, at every threshold", function()
    for i, threshold in ipairs(THRESHOLDS) do
      local report, rows, warps = run{rescale = {threshold = threshold}}.report, 0, 0
      for h = 0, 8 do
        local counts, want = report.per_head[h], COUNTS[h][i]
        assert.same({threshold, h, want[1], want[2]}, {threshold, h, counts.rescaled_rows, counts.rescaled_warps})
        assert.equal(3584, counts.row_steps)
        assert.equal(112, counts.warp_steps)
        rows, warps = rows + want[1], warps + want[2]
      end
      assert.equal(rows, report.rescaled_rows)
      assert.equal(warps, report.rescaled_warps)
    end
  end)

  it("hardly rescale when the sink comes first", function()
    for i, threshold in ipairs{0, 8} do
      local report = run{rescale = {threshold = threshold}, kv_order = "forward"}.report
      for h = 0, 8 do assert.same({h, COUNTS[h][5 + i]}, {h, report.per_head[h].rescaled_rows}) end
    end
    assert.equal(3, run{kv_order = "forward"}.report.rescaled_rows)
  end)

  it("have the sums and log-sums of the float64 reference", function()
    local want = fa4.reference(q, k, v, {mask = fa4.mask.causal()})
    local out = run({}, {o = fa4.empty({1, 1024, 9, 64}, {dtype = "f32"})})
    local figures = {
      [0] = {-2842.994942891, -0.042201765, -0.003801351, 3.210499173},
      [6] = {270.439109289, 0.180622174, -0.325604250, 5.567110528},
      [8] = {-411.731526822, 0.180665814, -0.321445044, 6.911400193},
    }
    for h, figure in pairs(figures) do
      local sum, head = 0, want.o:narrow(2, h, 1):contiguous()
      local data = head.data
      for i = 0, 1024 * 64 - 1 do sum = sum + data[i] end
      assert.near_to(sum, figure[1], 1e-6)
      assert.near_to(want.o:get(0, 1023, h, 0), figure[2], 1e-9)
      assert.near_to(want.lse:get(0, h, 0), figure[3], 1e-9)
      assert.near_to(want.lse:get(0, h, 1023), figure[4], 1e-9)
      assert.near_to(out.o:get(0, 1023, h, 0), figure[2], 2 ^ -11 * (math.abs(figure[2]) + 1))
      assert.near_to(out.lse:get(0, h, 0), figure[3], 1e-4)
      assert.near_to(out.lse:get(0, h, 1023), figure[4], 1e-4)
    end
  end)

  it("show the error that rounding P makes, and that waiting to rescale makes a little more", function()
    local function rms(threshold, dtype)
      local a, b, c = q:to{dtype = dtype}, k:to{dtype = dtype}, v:to{dtype = dtype}
      local config = {device = "cpu", mask = fa4.mask.causal(), rescale = {threshold = threshold}, exp2 = {emulated_pairs = 0}}
      local out = fa4.attention(config)(a, b, c, {o = fa4.empty({1, 1024, 9, 64}, {dtype = "f32"})})
      return fa4.validate(out, a, b, c).o_rms_error
    end
    -- P in f16 and all else in double gives 6.9e-5 and 9.6e-5; f32 scores and sums add a little to the first.
    local at_0, at_8, at_15 = rms(0, "f16"), rms(8, "f16"), rms(15, "f16")
    assert.near_to(at_0, 7.3e-5, 0.02 * 7.3e-5)
    assert.near_to(at_8, 9.6e-5, 0.02 * 9.6e-5)
    assert.near_to(at_15, 1.04e-4, 0.02 * 1.04e-4)
    assert.is_true(at_0 < at_8)
  end)

  it("show eight times that error in bf16", function()
    -- 7.5e-4 at threshold 8 for f16 inputs with P alone in bf16; here the inputs are rounded too, and the reference sees that.
    local a, b, c = q:to{dtype = "bf16"}, k:to{dtype = "bf16"}, v:to{dtype = "bf16"}
    local out = fa4.attention{device = "cpu", mask = fa4.mask.causal()}(a, b, c, {o = fa4.empty({1, 1024, 9, 64}, {dtype = "f32"})})
    assert.near_to(fa4.validate(out, a, b, c).o_rms_error, 7.5e-4, 0.1 * 7.5e-4)
  end)

  it("pass validation under every order and both ways of taking the maximum", function()
    local oracle = require("fa4.validate").prepare(q, k, v, {mask = fa4.mask.causal()})
    for _, order in ipairs{"reverse", "forward", "sink_first"} do
      for _, row_max in ipairs{"each_block", "first_block"} do
        local checked = oracle:check(run{kv_order = order, row_max = row_max})
        assert.is_true(checked.pass, tostring(checked))
      end
    end
  end)

  it("visit the blocks of the lower triangle", function()
    local report = run{}.report
    assert.equal(72, report.tiles)
    assert.equal(9 * 36, report.blocks_visited)
    assert.equal(9 * 28, report.blocks_skipped)
    assert.equal(9 * 8, report.blocks_partial)
  end)
end)
