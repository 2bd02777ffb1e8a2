--- How the prompt shows a value: short, within 80 columns, never a million numbers. Objects that know how to print themselves do;
-- one that prints much may have a `__short` form for here.
local page = require "fa4.page"

local show = {}

local WIDTH, ENTRIES, DEPTH = page.width, 40, 4

local function is_name(key)
  return type(key) == "string" and key:find("^[%a_][%w_]*$") ~= nil
end

local function scalar(value)
  if type(value) == "string" then
    if #value > 400 then
      value = value:sub(1, 400) .. "..."
    end
    return (("%q"):format(value):gsub("\\\n", "\\n"):gsub("\r", "\\r"))
  end
  if type(value) == "function" then
    return "function"
  end
  return tostring(value)
end

local function has_tostring(value)
  local meta = getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__tostring") ~= nil
end

local function sorted_keys(value)
  local keys = {}
  for key in pairs(value) do
    if not (type(key) == "number" and key >= 1 and key <= #value and key % 1 == 0) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "string" or type(a) == "number") then
      return a < b
    end
    return type(a) < type(b)
  end)
  return keys
end

-- Lines that are too long for the terminal continue on the next one.
local function fitting(text)
  return (text:gsub("[^\n]+", function(line)
    local indent = line:match("^%s*")
    return page.length(line) > WIDTH and page.wrap(line, indent, #indent + 4) or nil
  end))
end

local render

local function entries_of(value, depth, seen)
  local parts, total = {}, 0
  local function add(text)
    total = total + 1
    if total <= ENTRIES then
      parts[#parts + 1] = text()
    end
  end
  for i = 1, #value do
    add(function() return render(value[i], depth + 1, seen) end)
  end
  for _, key in ipairs(sorted_keys(value)) do
    add(function()
      local name = is_name(key) and key or "[" .. scalar(key) .. "]"
      return name .. " = " .. render(value[key], depth + 1, seen)
    end)
  end
  if total > ENTRIES then
    parts[#parts + 1] = ("... %d more"):format(total - ENTRIES)
  end
  return parts
end

-- Short entries share lines, long ones stand alone.
local function fill_lines(parts, indent)
  local lines, line = {}, indent
  for i, part in ipairs(parts) do
    local piece = part .. (i < #parts and "," or "")
    if line ~= indent and #line + 1 + #piece > WIDTH then
      lines[#lines + 1] = line
      line = indent
    end
    line = line == indent and line .. piece or line .. " " .. piece
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

function render(value, depth, seen)
  if type(value) ~= "table" then
    return scalar(value)
  elseif has_tostring(value) then
    local short = depth == 0 and rawget(getmetatable(value), "__short")
    local text = short and short(value) or tostring(value)
    return depth == 0 and fitting(text) or (text:match("^[^\n]*")) .. (text:find("\n") and " ..." or "")
  elseif seen[value] then
    return "{ see above }"
  elseif next(value) == nil then
    return "{}"
  elseif depth >= DEPTH then
    return "{ ... }"
  end
  seen[value] = true
  local parts = entries_of(value, depth, seen)
  seen[value] = nil
  local line = "{ " .. table.concat(parts, ", ") .. " }"
  if #line + 2 * depth <= WIDTH and not line:find("\n") then
    return line
  end
  return "{\n" .. fill_lines(parts, ("  "):rep(depth + 1)) .. "\n" .. ("  "):rep(depth) .. "}"
end

--- The text of one value.
-- @tparam any value anything
-- @treturn string one or more lines
function show.value(value)
  if type(value) == "string" and value:find("\n") then
    return value
  end
  return render(value, 0, {})
end

--- The text of several values: on one line when they are short.
-- @tparam int count how many, nil included
-- @tparam any ... the values
-- @treturn string one or more lines
function show.values(count, ...)
  local texts, long = {}, false
  for i = 1, count do
    texts[i] = show.value((select(i, ...)))
    long = long or texts[i]:find("\n") ~= nil
  end
  local line = table.concat(texts, "  ")
  if long or #line > WIDTH then
    return table.concat(texts, "\n")
  end
  return line
end

return show
