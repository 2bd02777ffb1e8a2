local config = require "fa4.config"
local fa4 = require "fa4"
local masks = require "spec.support.masks"
local plan = require "fa4.plan"
local random = require "spec.support.random"

-- A plan of a shape without tensors.
local function plan_of(m, p)
  local flat = config.check{device = "cpu"}
  flat.mask = m
  local problem = {batch = p.batch or 1, seqlen_q = p.seqlen_q, seqlen_kv = p.seqlen_kv, heads_q = p.heads_q or 1,
    heads_kv = p.heads_kv or 1, dim = 64, dim_v = 64, dtype = "f16", scale = 1, soft_cap = 0, lse = true}
  return assert(plan.new(flat, problem))
end

local function tensors(p)
  local q = fa4.zeros({p.batch or 1, p.seqlen_q, p.heads_q or 1, 8}, {dtype = "f16"})
  local k = fa4.zeros({p.batch or 1, p.seqlen_kv, p.heads_kv or 1, 8}, {dtype = "f16"})
  return q, k, k
end

-- The first difference between a plan's block classes and enumeration, or nil.
local function difference(made, fill, p)
  for tile = 0, made.tiles_per_head - 1 do
    local first = tile * made.positions
    local last = math.min(first + made.positions, p.seqlen_q) - 1
    local got, want = made:classes(0, 0, tile), masks.classes(fill, first, last, p.seqlen_kv)
    for block = 0, made.blocks_per_row - 1 do
      if got[block] ~= want[block] then
        return ("tile %d, key block %d: got %s, expected %s"):format(tile, block, got[block], want[block])
      end
    end
  end
end

describe("the block classes of a plan", function()
  -- Packing 64 or 128 heads makes tiles of 2 rows or 1, so that many block borders cost few elements.
  local function check(count, seed, draw)
    for n = 1, count do
      local rng = random.new(seed + n)
      local p = draw(rng)
      local m, fill = masks.random(rng, p)
      local made = plan_of(m, p)
      local text = difference(made, fill, p)
      if text then error(("seed %d, Sq %d, Skv %d, %s: %s"):format(seed + n, p.seqlen_q, p.seqlen_kv, tostring(m), text), 0) end
    end
  end

  it("equal brute-force enumeration on 100,000 small (shape, mask) pairs", function()
    check(100000, 1000000, function(rng)
      return {seqlen_q = rng:int(1, 7), seqlen_kv = rng:pick{rng:int(0, 10), rng:int(100, 300), 128, 256}, heads_q = rng:pick{64, 128}}
    end)
  end)

  it("equal brute-force enumeration on 400 pairs with full-sized tiles", function()
    check(400, 2000000, function(rng)
      return {seqlen_q = rng:int(1, 400), seqlen_kv = rng:int(0, 500), heads_q = rng:pick{1, 2, 4}}
    end)
  end)

  it("never enumerate the elements of a built-in mask", function()
    local started = os.clock()
    local made = plan_of(fa4.mask.window{left = 1000, right = 0}, {seqlen_q = 200000, seqlen_kv = 200000})
    assert.is_true(os.clock() - started < 2)
    assert.equal("interval", made.mask_class)
    assert.equal(1563, made.tiles_per_head)
  end)
end)

describe("the visible elements of a plan", function()
  it("equal brute-force enumeration, element by element", function()
    for seed = 1, 300 do
      local rng = random.new(seed)
      local p = {seqlen_q = rng:int(1, 20), seqlen_kv = rng:int(1, 150)}
      local m, fill = masks.random(rng, p, 2)
      local made, row = plan_of(m, p), {}
      for i = 0, p.seqlen_q - 1 do
        fill(i, row)
        for j = 0, p.seqlen_kv - 1 do
          if made:visible(0, 0, i, j) ~= row[j] then
            error(("seed %d, %s: query %d, key %d: expected %s"):format(seed, tostring(m), i, j, tostring(row[j])), 0)
          end
        end
      end
    end
  end)

  it("are none out of range", function()
    local made = plan_of(fa4.mask.full(), {seqlen_q = 2, seqlen_kv = 3})
    assert.is_false(made:visible(0, 0, 0, 3))
    assert.is_false(made:visible(0, 0, 2, 0))
    assert.is_false(made:visible(0, 1, 0, 0))
  end)
end)

describe("a full window", function()
  it("has the blocks of no mask", function()
    local p = {seqlen_q = 300, seqlen_kv = 500}
    local window, none = plan_of(fa4.mask.window{}, p), plan_of(fa4.mask.full(), p)
    for tile = 0, 2 do assert.same(none:classes(0, 0, tile), window:classes(0, 0, tile)) end
  end)
end)

describe("a document mask", function()
  it("takes lengths as it takes ids", function()
    local p = {seqlen_q = 10, seqlen_kv = 10}
    local a = plan_of(fa4.mask.document{lengths = {3, 0, 5, 2}}, p)
    local b = plan_of(fa4.mask.document{ids = {7, 7, 7, 9, 9, 9, 9, 9, 1, 1}}, p)
    for i = 0, 9 do
      for j = 0, 9 do assert.equal(a:visible(0, 0, i, j), b:visible(0, 0, i, j)) end
    end
    assert.is_true(a:visible(0, 0, 2, 0))
    assert.is_false(a:visible(0, 0, 3, 2))
  end)

  it("takes an i32 tensor", function()
    local made = plan_of(fa4.mask.document{ids = fa4.from_table({0, 0, 1}, {dtype = "i32"})}, {seqlen_q = 3, seqlen_kv = 3})
    assert.is_true(made:visible(0, 0, 1, 0))
    assert.is_false(made:visible(0, 0, 2, 0))
  end)

  it("needs one id per key", function()
    local q, k, v = tensors{seqlen_q = 4, seqlen_kv = 4}
    local op = fa4.attention{device = "cpu", mask = fa4.mask.document{ids = {1, 2, 3}}}
    assert.raises_text(function() op:plan(q, k, v) end, "4 keys", "got 3")
  end)
end)

describe("a function mask", function()
  it("is the built-in mask of the same rule, bit for bit of the plan's blocks", function()
    local p = {seqlen_q = 200, seqlen_kv = 300}
    local ours = plan_of(fa4.mask.lua{function(i, j) return j <= i + 100 end}, p)
    local theirs = plan_of(fa4.mask.causal(), p)
    for tile = 0, 1 do assert.same(theirs:classes(0, 0, tile), ours:classes(0, 0, tile)) end
    for i = 0, 199, 7 do
      for j = 0, 299 do assert.equal(theirs:visible(0, 0, i, j), ours:visible(0, 0, i, j)) end
    end
  end)

  it("depends on what its parameters name", function()
    local p = {seqlen_q = 3, seqlen_kv = 5, batch = 2, heads_q = 4, heads_kv = 2}
    local made = plan_of(fa4.mask.lua{function(i, j, h, b) return (i + 2 * j + 3 * h + 5 * b) % 4 ~= 0 end}, p)
    for b = 0, 1 do
      for h = 0, 3 do
        for i = 0, 2 do
          for j = 0, 4 do assert.equal((i + 2 * j + 3 * h + 5 * b) % 4 ~= 0, made:visible(b, h, i, j)) end
        end
      end
    end
  end)

  it("may be told what it depends on", function()
    local given = {}
    plan_of(fa4.mask.lua{function(_, _, h, b)
      given[#given + 1] = tostring(h) .. " " .. tostring(b)
      return true
    end, per_head = false, per_batch = true}, {seqlen_q = 1, seqlen_kv = 1, batch = 2, heads_q = 3, heads_kv = 3})
    assert.same({"nil 0", "nil 1"}, given)
  end)

  it("joins other masks in a combination", function()
    local p = {seqlen_q = 6, seqlen_kv = 6}
    local made = plan_of(fa4.mask.all_of(fa4.mask.causal(), function(_, j) return j % 2 == 0 end), p)
    for i = 0, 5 do
      for j = 0, 5 do assert.equal(j <= i and j % 2 == 0, made:visible(0, 0, i, j)) end
    end
  end)

  it("is evaluated once per plan, and the plan is kept by shape", function()
    local calls = 0
    local op = fa4.attention{device = "cpu", mask = function() calls = calls + 1 return true end}
    local q, k, v = tensors{seqlen_q = 4, seqlen_kv = 5}
    op:plan(q, k, v)
    op:plan(q, k, v)
    assert.equal(20, calls)
  end)

  it("stores equal bit tiles once", function()
    local made = plan_of(fa4.mask.lua{function(i, j) return (i + j) % 2 == 0 end}, {seqlen_q = 512, seqlen_kv = 512})
    assert.equal(1, made.bit_tile_count)
    for tile = 0, 3 do assert.equal(4, #made:blocks(0, 0, tile)) end
  end)
end)

describe("an error inside a function mask", function()
  local function plan_with(fn)
    local op = fa4.attention{device = "cpu", mask = fn}
    local q, k, v = tensors{seqlen_q = 6, seqlen_kv = 6}
    return function() return op:plan(q, k, v) end
  end

  it("keeps its text and the script's line, and names the coordinates", function()
    assert.raises_text(plan_with(function(i, j)
      if i == 3 and j == 2 then error("my own words") end
      return true
    end), "mask_spec.lua:", "my own words", "query 3, key 2", "count from 0")
  end)

  it("names head and batch where the function depends on them", function()
    assert.raises_text(plan_with(function(_, _, h, b) return h + b > 99 and true or nil end), "nil", "head 0", "batch 0")
  end)

  it("names the type of a result that is no boolean", function()
    for text, value in pairs{["a string"] = "yes", ["nan (a number)"] = 0 / 0, ["a table"] = {}, ["1 (a number)"] = 1} do
      assert.raises_text(plan_with(function() return value end), text, "expected true or false", "query 0, key 0")
    end
    assert.raises_text(plan_with(function() return nil end), "returned nil", "expected true or false")
  end)

  it("may be a stack overflow, which pcall catches", function()
    local function endless(i, j) return endless(i, j) and true end
    assert.raises_text(plan_with(endless), "stack overflow")
    local q, k, v = tensors{seqlen_q = 2, seqlen_kv = 2}
    assert.is_truthy(fa4.attention{device = "cpu"}:plan(q, k, v))
  end)

  it("passes an error object on as it is", function()
    local object = {kind = "mine"}
    local ok, failure = pcall(plan_with(function() error(object) end))
    assert.is_false(ok)
    assert.equal(object, failure)
  end)

  it("is an interruption when somebody asked for one", function()
    local native = require "fa4.ffi"
    local ok, failure = pcall(plan_with(function(i, j)
      if i == 0 and j == 0 then native.interrupt()[0] = 1 end
      return true
    end))
    assert.is_false(ok)
    assert.equal("interrupted", failure.kind)
    assert.equal(0, native.interrupt()[0])
  end)
end)

describe("a mask constructor", function()
  it("names the nearest field", function()
    assert.raises_text(function() fa4.mask.window{lef = 1} end, "mask.window", "lef", "did you mean left")
  end)

  it("refuses what is no whole number", function()
    assert.raises_text(function() fa4.mask.window{left = 2.7} end, "left", "whole number", "2.7")
    assert.raises_text(function() fa4.mask.window{left = 0 / 0} end, "left", "nan")
    assert.raises_text(function() fa4.mask.prefix{length = -1} end, "length", "-1")
    assert.raises_text(function() fa4.mask.prefix{} end, "length", "nil")
    assert.raises_text(function() fa4.mask.document{lengths = {1, 0.5}} end, "lengths", "entry 1", "0.5")
    assert.raises_text(function() fa4.mask.document{ids = {1}, lengths = {1}} end, "both")
    assert.raises_text(function() fa4.mask.document{} end, "neither")
    assert.raises_text(function() fa4.mask.all_of() end, "at least one")
    assert.raises_text(function() fa4.mask.any_of(3) end, "argument 1", "got 3")
    assert.raises_text(function() fa4.attention{device = "cpu", mask = "causal"} end, "fa4.mask.causal()")
  end)

  it("prints as it is written", function()
    assert.equal("fa4.mask.window{left = 3, right = -1}", tostring(fa4.mask.window{left = 3}))
    assert.equal("fa4.mask.all_of(fa4.mask.causal(), fa4.mask.prefix{length = 4})",
      tostring(fa4.mask.all_of(fa4.mask.causal(), fa4.mask.prefix{length = 4})))
  end)

  it("limits the parts of a combination", function()
    local many = {}
    for n = 1, 40 do many[n] = fa4.mask.causal() end
    local op = fa4.attention{device = "cpu", mask = fa4.mask.all_of(unpack(many))}
    local q, k, v = tensors{seqlen_q = 2, seqlen_kv = 2}
    assert.raises_text(function() op:plan(q, k, v) end, "at most 32 parts", "41")
  end)
end)
