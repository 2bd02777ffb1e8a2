--- How the library raises. A wrong argument blames the line of the script that made the call, however deep in the library it was
-- found: frames of this folder are skipped. Leaves what is wrong to the callers.
local errors = {}

local here = debug.getinfo(1, "S").source:gsub("errors%.lua$", "")

local function is_library(source)
  return source:sub(1, #here) == here and source:find("^[%w_]+%.lua$", #here + 1) ~= nil
end

-- The level of the first frame outside the library, counted for a call of error() in the caller; nil when there is none.
local function outside()
  local level = 3
  while true do
    local info = debug.getinfo(level, "S")
    if not info then return nil end
    if info.what ~= "C" and not is_library(info.source) then return level - 1 end
    level = level + 1
  end
end

--- Raises a message that blames the caller of the library.
-- @tparam string message what is wrong: argument, value, what is allowed
-- @tparam any ... values for `message` as a format, if any
function errors.raise(message, ...)
  if select("#", ...) > 0 then message = message:format(...) end
  error(message, outside() or 0)
end

local object = {}
object.__index = object
function object:__tostring()
  return self.where .. self.message
end

--- Raises an error object: `.kind` says what sort of failure it is, `tostring` gives position and message.
-- @tparam string kind "device", "interrupted", or "environment": a variable has a wrong value, which is no script's fault
-- @tparam string message the text
function errors.raise_object(kind, message)
  local level, where = outside(), ""
  if level and kind ~= "environment" then
    local info = debug.getinfo(level, "Sl")
    where = ("%s:%d: "):format(info.short_src, info.currentline)
  end
  error(setmetatable({kind = kind, message = message, where = where}, object), 0)
end

-- Edits (insert, delete, replace, swap of neighbours) that turn a into b.
local function distance(a, b)
  local before, row = nil, {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local new = {[0] = i}
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      new[j] = math.min(row[j] + 1, new[j - 1] + 1, row[j - 1] + cost)
      if before and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        new[j] = math.min(new[j], before[j - 2] + 1)
      end
    end
    before, row = row, new
  end
  return row[#b]
end

--- The name in a list that a misspelt one is nearest to.
-- @tparam string name what was written
-- @tparam {string,...} names what exists
-- @treturn ?string the nearest name; nil when none is near
function errors.nearest(name, names)
  local best, best_distance = nil, math.max(2, math.floor(#name / 2))
  for _, candidate in ipairs(names) do
    local d = distance(name:lower(), candidate:lower())
    if d < best_distance or (d == best_distance and best and candidate < best) then
      best, best_distance = candidate, d
    end
  end
  return best
end

--- Text for "unknown NAME" with the nearest name, or the list when nothing is near.
-- @tparam string what such as "unknown field"
-- @tparam string name what was written
-- @tparam {string,...} names what exists
-- @treturn string `name: what, did you mean nearest?`
function errors.unknown(what, name, names)
  local near = errors.nearest(name, names)
  if near then return ("%s: %s, did you mean %s?"):format(name, what, near) end
  return ("%s: %s; there are %s"):format(name, what, table.concat(names, ", "))
end

--- A value as an error message shows it: short, with its type where that is the point.
-- @tparam any value anything
-- @treturn string one line
function errors.show(value)
  local kind = type(value)
  if kind == "string" then
    if #value > 40 then value = value:sub(1, 37) .. "..." end
    return ("%q"):format(value)
  elseif kind == "number" then
    if value ~= value then return "nan" end
    if value == math.floor(value) and math.abs(value) < 2 ^ 53 then return ("%.0f"):format(value) end
    return ("%.17g"):format(value):gsub("^(%-?%d+%.%d-)0+$", "%1")
  elseif kind == "boolean" or kind == "nil" then
    return tostring(value)
  end
  return "a " .. kind
end

--- True for a whole number that a double holds exactly.
-- @tparam any value anything
-- @treturn boolean
function errors.is_whole(value)
  return type(value) == "number" and value == math.floor(value) and math.abs(value) <= 2 ^ 53
end

--- The whole numbers from low to high as an error message shows them.
-- @tparam number low least allowed
-- @tparam number high most allowed; 2^53 or more is no limit, less than low means that there are none
-- @treturn string
function errors.whole_range(low, high)
  if high < low then return "nothing, since there are none" end
  if high == low then return ("%.0f"):format(low) end
  if low <= -2 ^ 53 and high >= 2 ^ 53 then return "a whole number" end
  if high >= 2 ^ 53 then return ("a whole number >= %.0f"):format(low) end
  return ("a whole number in %.0f..%.0f"):format(low, high)
end

--- Raises unless value is a whole number within [low, high].
-- @tparam string name the argument, as messages call it
-- @tparam any value what came
-- @tparam number low least allowed
-- @tparam number high most allowed
-- @treturn number value
function errors.whole(name, value, low, high)
  if not errors.is_whole(value) or value < low or value > high then
    local beyond = type(value) == "number" and math.abs(value) > 2 ^ 53 and " up to 2^53 in size" or ""
    errors.raise("%s: expected %s%s, got %s", name, errors.whole_range(low, high), beyond, errors.show(value))
  end
  return value
end

return errors
