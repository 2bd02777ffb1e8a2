local fa4 = require "fa4"
local random = require "spec.support.random"
local masks = require "spec.support.masks"
local report = require "fa4.report"

local function tensors(p, dtype)
  local q = fa4.randn({p.batch, p.seqlen_q, p.heads_q, p.dim}, {dtype = dtype or "f16", seed = 1, scale = p.sharpness})
  local k = fa4.randn({p.batch, p.seqlen_kv, p.heads_kv, p.dim}, {dtype = dtype or "f16", seed = 2})
  local v = fa4.randn({p.batch, p.seqlen_kv, p.heads_kv, p.dim}, {dtype = dtype or "f16", seed = 3})
  return q, k, v
end

-- What a report must count, added up tile by tile from the plan's block lists.
local function expected(plan, p)
  local sums = {tiles = 0, blocks_visited = 0, blocks_skipped = 0, blocks_partial = 0, row_steps = 0, warp_steps = 0, exp2_hardware = 0,
    exp2_polynomial = 0}
  local config = plan.config
  local fragments = math.max(0, 3 - config["exp2.first_fragment"])
  local polynomial = fragments * 32 * config["exp2.emulated_pairs"] / 8
  for batch = 0, p.batch - 1 do
    for head = 0, plan.heads - 1 do
      for tile = 0, plan.tiles_per_head - 1 do
        local blocks = plan:blocks(batch, head, tile)
        local rows = math.min(plan.positions, p.seqlen_q - tile * plan.positions) * (plan.packed and plan.group or 1)
        sums.tiles = sums.tiles + 1
        sums.blocks_visited = sums.blocks_visited + #blocks
        sums.blocks_skipped = sums.blocks_skipped + plan.blocks_per_row - #blocks
        sums.row_steps = sums.row_steps + rows * math.max(0, #blocks - 1)
        sums.warp_steps = sums.warp_steps + math.ceil(rows / 32) * math.max(0, #blocks - 1)
        for _, block in ipairs(blocks) do
          local cubic = block.class == "full" and rows * polynomial or 0
          if block.class == "partial" then sums.blocks_partial = sums.blocks_partial + 1 end
          sums.exp2_polynomial = sums.exp2_polynomial + cubic
          sums.exp2_hardware = sums.exp2_hardware + rows * 128 - cubic
        end
      end
    end
  end
  return sums
end

describe("a report", function()
  it("counts what the plan says, whatever the mask, packing and exp2 split", function()
    for seed = 1, 60 do
      local rng = random.new(seed)
      local p = {batch = rng:int(1, 2), heads_kv = rng:int(1, 2), seqlen_q = rng:int(1, 300), seqlen_kv = rng:int(1, 500), dim = 8,
        sharpness = 3}
      p.heads_q = p.heads_kv * rng:pick{1, 2, 3}
      local mask = masks.random(rng, p)
      local q, k, v = tensors(p)
      local out = fa4.attention{device = "cpu", mask = mask, exp2 = {emulated_pairs = rng:int(0, 8), first_fragment = rng:int(0, 3)},
        kv_order = rng:pick{"reverse", "forward", "sink_first"}}(q, k, v)
      for name, want in pairs(expected(out.plan, p)) do
        if out.report[name] ~= want then
          error(("seed %d, %s: %s is %.17g, expected %.17g"):format(seed, tostring(mask), name, out.report[name], want), 0)
        end
      end
    end
  end)

  it("has totals that are the sums over heads, and maxima that are their maxima", function()
    local q, k, v = tensors{batch = 2, seqlen_q = 200, seqlen_kv = 700, heads_q = 6, heads_kv = 3, dim = 32, sharpness = 5}
    for _, packing in ipairs{true, false} do
      local r = fa4.attention{device = "cpu", gqa_packing = packing}(q, k, v).report
      assert.equal(packing and 3 or 6, r.heads)
      local sums, exponent, p = {}, -math.huge, 0
      for h = 0, r.heads - 1 do
        for _, name in ipairs(report.counts) do sums[name] = (sums[name] or 0) + r.per_head[h][name] end
        exponent, p = math.max(exponent, r.per_head[h].exponent_max), math.max(p, r.per_head[h].p_max)
      end
      for _, name in ipairs(report.counts) do assert.same({name, sums[name]}, {name, r[name]}) end
      assert.equal(exponent, r.exponent_max)
      assert.equal(p, r.p_max)
      assert.is_nil(r.per_head[r.heads])
    end
  end)

  it("rescales at threshold 0 as often as records happen", function()
    -- The n-th block holds a new record with probability 1/n: (H(32) - 1) / 31 of the steps for 32 blocks. Rows of a head share their
    -- keys, so 24 heads count as a few hundred independent walks rather than thousands.
    local harmonic = 0
    for n = 1, 32 do harmonic = harmonic + 1 / n end
    local q, k, v = tensors{batch = 1, seqlen_q = 128, seqlen_kv = 4096, heads_q = 24, heads_kv = 24, dim = 64, sharpness = 1}
    local r = fa4.attention{device = "cpu", rescale = {threshold = 0}}(q, k, v).report
    assert.near_to(r.rescaled_rows / r.row_steps, (harmonic - 1) / 31, 0.006)
    assert.equal(0, r.spared_rows)
    local spared = fa4.attention{device = "cpu", rescale = {threshold = 15}}(q, k, v).report
    assert.equal(0, spared.rescaled_rows)
    assert.is_true(spared.spared_rows > 0)
  end)

  it("keeps the exponent below the threshold and P below 2^threshold", function()
    local q, k, v = tensors{batch = 1, seqlen_q = 200, seqlen_kv = 1000, heads_q = 2, heads_kv = 2, dim = 64, sharpness = 10}
    for _, threshold in ipairs{0, 3, 8, 15} do
      local r = fa4.attention{device = "cpu", rescale = {threshold = threshold}}(q, k, v).report
      assert.is_true(r.exponent_max <= threshold)
      assert.is_true(r.p_max <= 2 ^ threshold * 1.0002)
      assert.is_true(r.rescaled_rows > 0)
    end
  end)

  it("counts 4 * dim FLOPs a visible pair, half of the square when causal as everybody does", function()
    local q, k, v = tensors{batch = 1, seqlen_q = 100, seqlen_kv = 100, heads_q = 3, heads_kv = 3, dim = 64, sharpness = 1}
    local function flops(mask) return fa4.attention{device = "cpu", mask = mask}(q, k, v).report.flops end
    assert.equal(3 * 10000 * 4 * 64, flops(fa4.mask.full()))
    assert.equal(3 * 5000 * 4 * 64, flops(fa4.mask.causal()))
    -- Rows see 1, 2, 3, 3, ... keys.
    assert.equal(3 * (1 + 2 + 98 * 3) * 4 * 64, flops(fa4.mask.window{left = 2, right = 0}))
    assert.equal(3 * 5000 * 4 * 64, flops(fa4.mask.lua{function(i, j) return (i + j) % 2 == 0 end}))
  end)

  it("names device, path, plan and time, and prints within 80 columns", function()
    local q, k, v = tensors{batch = 1, seqlen_q = 100, seqlen_kv = 300, heads_q = 1, heads_kv = 1, dim = 64, sharpness = 1}
    local out = fa4.attention{device = "cpu"}(q, k, v)
    local r = out.report
    assert.equal("cpu", r.device)
    assert.equal(fa4.info().cpu.path, r.path)
    assert.equal(out.plan.hash, r.plan_hash)
    assert.is_true(r.time_us > 0 and r.threads >= 1)
    assert.near_to(r.tflops, r.flops / r.time_us * 1e-6, 1e-9)
    for line in tostring(r):gmatch("[^\n]+") do assert.is_true(#line <= 80, line) end
    assert.equal("12 345 678", report.grouped(12345678))
  end)
end)
