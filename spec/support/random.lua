--- A small seeded generator for specs (minimal standard, exact in doubles), so that a failure's seed gives the same case anywhere.
local random = {}
random.__index = random

--- A generator.
-- @tparam int seed 0..2^31 - 3
function random.new(seed)
  local made = setmetatable({state = seed % 2147483646 + 1}, random)
  for _ = 1, 4 do made:next() end
  return made
end

function random:next()
  self.state = self.state * 16807 % 2147483647
  return self.state
end

--- A whole number in low..high.
function random:int(low, high)
  return low + math.floor(self:next() / 2147483647 * (high - low + 1))
end

--- True with a probability.
function random:chance(p)
  return self:next() / 2147483647 < p
end

--- One entry of a list.
function random:pick(list)
  return list[self:int(1, #list)]
end

return random
