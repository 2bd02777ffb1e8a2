--- Axes of plots: round ticks that cover the data, and how a number on an axis reads. Shared by the terminal plot and the SVG picture.
local axis = {}

-- The round number (1, 2 or 5 times a power of ten) nearest above `raw`.
local function round_step(raw)
  local power = 10 ^ math.floor(math.log10(raw))
  for _, factor in ipairs{1, 2, 5, 10} do
    if factor * power >= raw * (1 - 1e-9) then return factor * power end
  end
end

--- Ticks at round numbers that cover [low, high].
-- @tparam number low least value
-- @tparam number high largest value
-- @tparam int count about how many steps
-- @treturn {number,...} ticks; the first is <= low, the last >= high
function axis.ticks(low, high, count)
  if high <= low then
    local margin = low == 0 and 1 or math.abs(low) * 0.1
    low, high = low - margin, high + margin
  end
  local step = round_step((high - low) / count)
  local list = {}
  local first = math.floor(low / step + 1e-9)
  for i = 0, 100 do
    list[#list + 1] = (first + i) * step
    if list[#list] >= high - step * 1e-9 then break end
  end
  return list
end

--- The least and largest finite number of several lists.
-- @tparam {{number,...},...} lists
-- @treturn ?number least; nil without a finite number
-- @treturn ?number largest
function axis.range(lists)
  local low, high
  for _, list in ipairs(lists) do
    for i = 1, #list do
      local value = list[i]
      if value == value and math.abs(value) < math.huge then
        low = low and math.min(low, value) or value
        high = high and math.max(high, value) or value
      end
    end
  end
  return low, high
end

--- A tick's text.
-- @tparam number value
-- @treturn string
function axis.label(value)
  if math.abs(value) < 1e-300 then return "0" end
  if math.abs(value) >= 1e5 or math.abs(value) < 1e-3 then
    return (("%.2e"):format(value):gsub("%.?0*e", "e"):gsub("e([+-])0*(%d)", "e%1%2"):gsub("e%+", "e"))
  end
  return ("%.6g"):format(value)
end

return axis
