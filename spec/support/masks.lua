--- Brute force for masks: each mask of a spec comes with a function that enumerates a row's visible keys one by one, written from the
-- definitions and sharing nothing with the library.
local fa4 = require "fa4"

local masks = {}

-- A maker returns the mask and fill(i, row), which sets row[j] for j = 0 .. Skv - 1 to true or false.
local makers = {}

function makers.full(_, p)
  local keys = p.seqlen_kv
  return fa4.mask.full(), function(_, row)
    for j = 0, keys - 1 do row[j] = true end
  end
end

function makers.causal(_, p)
  local keys, shift = p.seqlen_kv, p.seqlen_kv - p.seqlen_q
  return fa4.mask.causal(), function(i, row)
    for j = 0, keys - 1 do row[j] = j <= i + shift end
  end
end

function makers.window(rng, p)
  local keys, shift = p.seqlen_kv, p.seqlen_kv - p.seqlen_q
  local sides = {}
  for _, side in ipairs{"left", "right"} do
    sides[side] = rng:pick{-1, 0, 1, rng:int(0, 10), rng:int(0, 300), 2147483647}
  end
  local left, right = sides.left, sides.right
  return fa4.mask.window{left = left, right = right}, function(i, row)
    for j = 0, keys - 1 do
      row[j] = (left < 0 or j >= i + shift - left) and (right < 0 or j <= i + shift + right)
    end
  end
end

function makers.prefix(rng, p)
  local keys, shift = p.seqlen_kv, p.seqlen_kv - p.seqlen_q
  local length = rng:int(0, keys)
  return fa4.mask.prefix{length = length}, function(i, row)
    for j = 0, keys - 1 do row[j] = j < length or j <= i + shift end
  end
end

function makers.document(rng, p)
  local keys, shift = p.seqlen_kv, p.seqlen_kv - p.seqlen_q
  local ids, id = {}, 0
  local scattered = rng:chance(0.2)
  local change = rng:pick{0.005, 0.02, 0.2}
  for j = 1, keys do
    if rng:chance(change) then id = scattered and rng:int(0, 3) or id + 1 end
    ids[j] = id
  end
  return fa4.mask.document{ids = ids}, function(i, row)
    local own = ids[i + shift + 1]
    for j = 0, keys - 1 do row[j] = own ~= nil and ids[j + 1] == own end
  end
end

local SIMPLE = {"full", "causal", "window", "window", "prefix", "document"}

local function combine(kind, fills, keys)
  local other = {}
  return function(i, row)
    fills[1](i, row)
    for n = 2, #fills do
      fills[n](i, other)
      for j = 0, keys - 1 do
        if kind == "all_of" then row[j] = row[j] and other[j] else row[j] = row[j] or other[j] end
      end
    end
    if kind == "none_of" then
      for j = 0, keys - 1 do row[j] = not row[j] end
    end
  end
end

--- A random mask for a problem.
-- @tparam random rng
-- @tparam table p `seqlen_q`, `seqlen_kv`
-- @tparam[opt=1] int depth combinations nest this deep at most
-- @treturn mask
-- @treturn function fill(i, row)
function masks.random(rng, p, depth)
  if (depth or 1) > 0 and rng:chance(0.4) then
    local kind = rng:pick{"all_of", "any_of", "none_of"}
    local parts, fills = {}, {}
    for n = 1, rng:int(1, 3) do parts[n], fills[n] = masks.random(rng, p, (depth or 1) - 1) end
    return fa4.mask[kind](unpack(parts)), combine(kind, fills, p.seqlen_kv)
  end
  return makers[rng:pick(SIMPLE)](rng, p)
end

--- The class of every key block of a query tile, by enumeration: "skip", "full" or "partial". Keys beyond the last count as hidden.
-- @tparam function fill as above
-- @tparam int first first query position of the tile
-- @tparam int last last one
-- @tparam int keys number of keys
-- @treturn {string,...} by key block from 0
function masks.classes(fill, first, last, keys)
  local blocks = math.ceil(keys / 128)
  local counts, row = {}, {}
  for block = 0, blocks - 1 do counts[block] = 0 end
  for i = first, last do
    fill(i, row)
    for block = 0, blocks - 1 do
      local n = 0
      for j = block * 128, math.min(block * 128 + 127, keys - 1) do
        if row[j] then n = n + 1 end
      end
      counts[block] = counts[block] + n
    end
  end
  local all = (last - first + 1) * 128
  for block = 0, blocks - 1 do
    counts[block] = counts[block] == 0 and "skip" or counts[block] == all and "full" or "partial"
  end
  return counts
end

return masks
