local fa4 = require "fa4"
local masks = require "spec.support.masks"
local random = require "spec.support.random"
local validate = require "fa4.validate"

-- FA4_PROBLEMS sets how many problems each instruction set gets, FA4_SEED where they start.
local COUNT = tonumber(os.getenv("FA4_PROBLEMS") or 500)
local SEED = tonumber(os.getenv("FA4_SEED") or 1)

-- A tensor (b, n, h, d), sometimes a view of a larger or permuted one.
local function tensor(rng, b, n, h, d, dtype, scale)
  local opts = {dtype = dtype, seed = rng:int(0, 2 ^ 30), scale = scale}
  local form = rng:int(0, 4)
  if form == 0 then return fa4.randn({b, h, n, d}, opts):permute(0, 2, 1, 3) end
  if form == 1 then return fa4.randn({b, n + 3, h + 1, d}, opts):narrow(1, 2, n):narrow(2, 1, h) end
  if form == 2 and h > 1 then return fa4.randn({b, n, 1, d}, opts):expand{b, n, h, d} end
  return fa4.randn({b, n, h, d}, opts)
end

local function sizes(rng)
  local group = rng:pick{1, 1, 1, 2, 3, 4, 8, 16}
  local heads_kv = rng:pick{1, 1, 2, 3}
  return {
    batch = rng:pick{1, 1, 1, 2}, heads_q = heads_kv * group, heads_kv = heads_kv,
    seqlen_q = rng:pick{1, rng:int(1, 20), rng:int(1, 150), rng:int(100, 300)},
    seqlen_kv = rng:pick{1, rng:int(1, 20), rng:int(1, 150), rng:int(100, 400), 128, 256},
    dim = 8 * rng:int(1, 16), dtype = rng:pick{"f16", "bf16", "f32"},
  }
end

local function config_of(rng, p)
  local config = {device = "cpu", rescale = {}, exp2 = {}}
  config.mask = masks.random(rng, p)
  if rng:chance(0.15) then
    local a, b, c = rng:int(0, 5), rng:int(0, 5), rng:int(2, 7)
    config.mask = function(i, j, h) return (a * i + b * j + h) % c ~= 0 end
  end
  config.row_max = rng:pick{"each_block", "each_block", "first_block"}
  local low = config.row_max == "first_block" and 7 or 0
  config.rescale.threshold = rng:pick{low, rng:int(low, 15), 8}
  config.kv_order = rng:pick{"reverse", "forward", "sink_first"}
  config.exp2.emulated_pairs = rng:pick{nil, 0, 2, rng:int(0, 8)}
  config.exp2.first_fragment = rng:int(0, 3)
  config.scale = rng:pick{nil, nil, rng:int(-20, 20) / 50}
  config.soft_cap = rng:chance(0.15) and rng:pick{1, 30} or nil
  config.gqa_packing = rng:chance(0.7)
  config.kv_splits = rng:chance(0.1) and rng:int(2, 4) or nil
  config.schedule = rng:pick{nil, fa4.schedule.linear(), fa4.schedule.lpt{l2_bytes = 10000}}
  config.lse = rng:chance(0.9)
  return config
end

local function problem(seed)
  local rng = random.new(seed)
  local p = sizes(rng)
  local config = config_of(rng, p)
  -- A score's own rounding in f32 shows once scores are large: f32 inputs stay tame.
  local sharp = p.dtype == "f32" and (config.scale and 1 or rng:pick{1, 3}) or rng:pick{1, 1, 3, 6}
  local made = {seed = seed, config = config}
  made.q = tensor(rng, p.batch, p.seqlen_q, p.heads_q, p.dim, p.dtype, sharp)
  made.k = tensor(rng, p.batch, p.seqlen_kv, p.heads_kv, p.dim, p.dtype, 1)
  made.v = tensor(rng, p.batch, p.seqlen_kv, p.heads_kv, rng:chance(0.8) and p.dim or 8 * rng:int(1, 16), p.dtype, 1)
  local what = {mask = config.mask, scale = config.scale, soft_cap = config.soft_cap, lse = config.lse}
  made.oracle = validate.prepare(made.q, made.k, made.v, what)
  return made
end

-- What is wrong with one problem on the instruction set that is open; nil when nothing is.
local function check(made, path)
  local ok, out = pcall(fa4.attention(made.config), made.q, made.k, made.v)
  if not ok then return ("seed %d on %s: %s"):format(made.seed, path, tostring(out)) end
  if out.report.path ~= path then return ("seed %d: ran on %s instead of %s"):format(made.seed, out.report.path, path) end
  local result = made.oracle:check(out)
  if result.pass then return nil end
  return ("seed %d on %s:\n%s\n%s"):format(made.seed, path, tostring(result), tostring(out.plan))
end

local PATHS = {"scalar", "avx2", "avx512", "avx512_bf16"}
local BATCH = 25

describe(("%d generated problems from seed %d"):format(COUNT, SEED), function()
  local usable = " " .. fa4.info().cpu.usable .. " "
  local failures, done = {}, {}

  -- Each reference serves every instruction set.
  setup(function()
    io.stderr:write(("generated problems: seeds %d to %d; FA4_SEED and FA4_PROBLEMS choose others\n"):format(SEED, SEED + COUNT - 1))
    for first = SEED, SEED + COUNT - 1, BATCH do
      local batch = {}
      for seed = first, math.min(first + BATCH, SEED + COUNT) - 1 do batch[#batch + 1] = problem(seed) end
      for _, path in ipairs(PATHS) do
        if usable:find(" " .. path .. " ", 1, true) then
          fa4.open{cpu = path}
          for _, made in ipairs(batch) do
            failures[path] = failures[path] or check(made, path)
            done[path] = (done[path] or 0) + 1
          end
        end
      end
    end
  end)

  teardown(function() fa4.open() end)

  for _, path in ipairs(PATHS) do
    if usable:find(" " .. path .. " ", 1, true) then
      it("agree with the reference on " .. path, function()
        assert.equal(COUNT, done[path])
        if failures[path] then error(failures[path], 0) end
      end)
    else
      pending("agree with the reference on " .. path .. ": this processor lacks it")
    end
  end
end)
