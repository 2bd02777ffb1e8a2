--- JSON out: a small writer with keys in a given order. NaN and infinities become null, since JSON has no word for them.
local json = {}

--- A value that is written as null, for a key that must be there.
json.null = setmetatable({}, {__tostring = function() return "null" end})

local ESCAPES = {['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function quoted(text)
  return '"' .. text:gsub('[%c"\\\127]', function(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local function number(value)
  if value ~= value or value == math.huge or value == -math.huge then return "null" end
  if value == math.floor(value) and math.abs(value) < 2 ^ 53 then return ("%.0f"):format(value) end
  for digits = 15, 17 do
    local text = ("%." .. digits .. "g"):format(value)
    if tonumber(text) == value then return text end
  end
end
json.number = number

-- Keys of an object: those of `order` first, the rest sorted.
local function keys_of(object, order)
  local keys, listed = {}, {}
  for _, key in ipairs(order or {}) do
    if object[key] ~= nil then keys[#keys + 1] = key end
    listed[key] = true
  end
  local rest = {}
  for key in pairs(object) do
    if not listed[key] then
      if type(key) ~= "string" then error("json: expected strings as keys, got a " .. type(key), 0) end
      rest[#rest + 1] = key
    end
  end
  table.sort(rest)
  for _, key in ipairs(rest) do keys[#keys + 1] = key end
  return keys
end

local function write(value, order, indent, depth)
  local kind = type(value)
  if kind == "nil" or value == json.null then return "null" end
  if kind == "boolean" then return tostring(value) end
  if kind == "number" then return number(value) end
  if kind == "string" then return quoted(value) end
  if kind ~= "table" then error("json: a " .. kind .. " has no JSON form", 0) end
  if depth > 32 then error("json: nested deeper than 32", 0) end
  local parts = {}
  if #value > 0 or next(value) == nil then
    for i = 1, #value do parts[i] = write(value[i], order, nil, depth + 1) end
    if indent and #parts > 0 then return "[\n" .. indent .. table.concat(parts, ",\n" .. indent) .. "\n]" end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  for i, key in ipairs(keys_of(value, order)) do
    parts[i] = quoted(key) .. ": " .. write(value[key], order, nil, depth + 1)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

--- A value as JSON. A table with entries 1..n, or an empty one, is a list; another is an object.
-- @tparam any value numbers, strings, booleans, tables of these; NaN and infinities become null
-- @tparam[opt] {string,...} order keys that come first in every object, in this order; the others follow sorted
-- @treturn string a list at the top has one entry a line
-- @raise on a function, cdata or a cycle
function json.write(value, order)
  return write(value, order, "  ", 0) .. "\n"
end

return json
