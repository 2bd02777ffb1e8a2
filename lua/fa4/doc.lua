--- Documentation for `?name`: the comments above the library's own functions and the sentences of the config schema, so that there
-- is one source of both.
local config = require "fa4.config"
local page = require "fa4.page"

local doc = {}

local MODULES = {"init", "attention", "tensor", "files", "mask", "schedule", "plan", "report", "tables", "validate", "sweep", "plot",
  "svg", "json", "info", "doc", "config", "kernel", "emu", "cache"}

local function source_of(module)
  local has_host, host = pcall(require, "fa4.host")
  if has_host then return host.source(module == "init" and "fa4" or "fa4." .. module) end
  local path = package.searchpath(module == "init" and "fa4" or "fa4." .. module, package.path)
  local file = path and io.open(path, "rb")
  if not file then return nil end
  local text = file:read("*a")
  file:close()
  return text
end

-- What a tag line says to a reader: "@tparam[opt=0] int n the seed" -> "  n (int, default 0): the seed".
local function tag_text(line)
  local option, kind, rest = line:match("^@tparam(%b[])%s+(%S+)%s+(.*)$")
  if not option then kind, rest = line:match("^@tparam%s+(%S+)%s+(.*)$") end
  if kind then
    local name, text = rest:match("^([%w_%.]+,?[%w_, ]-)%s+(.*)$")
    for more in (rest .. " "):gmatch("^([%w_]+, [%w_, ]-[%w_]) ") do
      if rest:find("^%w+, ") then name, text = more, rest:sub(#more + 2) end
    end
    if not name then name, text = rest, "" end
    local default = option and option:match("opt=(.-)%]")
    local note = option and (default and ", default " .. default or ", optional") or ""
    return ("  %s (%s%s)%s"):format(name, kind:gsub("^%?", ""), note, text ~= "" and ": " .. text or "")
  end
  kind, rest = line:match("^@treturn%s+(%S+)%s*(.*)$")
  if kind then return ("  returns %s%s"):format(kind:gsub("^%?", "maybe "), rest ~= "" and ": " .. rest or "") end
  rest = line:match("^@return%s+(.*)$")
  if rest then return "  returns " .. rest end
  rest = line:match("^@raise%s+(.*)$")
  if rest then return "  raises " .. rest end
  rest = line:match("^@param%s+(.*)$")
  if rest then return "  " .. rest end
end

local function finish(comment)
  local parts = {}
  for _, line in ipairs(comment) do
    if line:find("^@") or #parts == 0 then
      parts[#parts + 1] = line
    else
      parts[#parts] = parts[#parts] .. " " .. line
    end
  end
  local lines = {}
  for _, part in ipairs(parts) do
    lines[#lines + 1] = part:find("^@") and page.wrap(tag_text(part), "  ", 4) or page.wrap(part)
  end
  return table.concat(lines, "\n")
end

local function read_module(module, index)
  local text = source_of(module)
  if not text then return end
  local comment
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do
    local first, more = line:match("^%-%-%-%s?(.*)$"), line:match("^%-%-%s?(.*)$")
    local owner, name, parameters = line:match("^function%s+([%w_]+)[%.:]([%w_]+)%s*(%b())")
    if first then
      comment = {first}
    elseif more and comment then
      comment[#comment + 1] = more
    elseif owner and comment then
      local key = (owner == "methods" or owner == "meta") and module .. ":" .. name or module .. "." .. name
      local method = owner == "methods" or owner == "meta"
      index[key] = {module = module, name = name, parameters = parameters, comment = comment, method = method}
      comment = nil
    else
      if comment and not index[module] then index[module] = {module = module, comment = comment} end
      comment = nil
    end
  end
end

local index

local function load_index()
  if index then return index end
  index = {}
  for _, module in ipairs(MODULES) do read_module(module, index) end
  return index
end

-- A public name (fa4.attention) -> the key of the function behind it.
local function behind(name)
  local exports = getmetatable(require "fa4").methods
  local export = exports[name]
  if not export then return nil end
  return export[2] and export[1] .. "." .. export[2] or export[1]
end

local function title(name, entry)
  if not entry.parameters then return "module " .. (entry.module == "init" and "fa4" or "fa4." .. entry.module) end
  if entry.method then
    local object = ({attention = "op", tensor = "t", plan = "plan", sweep = "result"})[entry.module] or entry.module
    if entry.name == "__call" then return object .. entry.parameters:gsub("self, ", "") end
    return object .. ":" .. entry.name .. entry.parameters
  end
  return "fa4." .. name .. entry.parameters
end

-- Keys under which a name may be known, best first.
local function keys_of(name)
  local list = {name}
  if behind(name) then table.insert(list, 1, behind(name)) end
  local head, tail = name:match("^([%w_]+)[%.:]([%w_]+)$")
  if head then
    list[#list + 1] = head .. ":" .. tail
    local object = ({t = "tensor", op = "attention", operator = "attention", result = "sweep"})[head]
    if object then list[#list + 1] = object .. ":" .. tail end
  else
    for _, module in ipairs(MODULES) do list[#list + 1] = module .. ":" .. name end
  end
  return list
end

--- The documentation of a function, method, module or config field.
-- @tparam string name such as "fa4.attention", "tensor:permute", "mask.window", "rescale.threshold"
-- @treturn ?string several lines of at most 80 columns; nil when there is nothing of that name
function doc.lookup(name)
  if type(name) ~= "string" then return nil end
  name = name:gsub("^fa4%.", "")
  if name == "fa4" then name = "init" end
  local known = load_index()
  local field = config.describe(name)
  for _, key in ipairs(keys_of(name)) do
    local entry = known[key]
    if entry then
      local text = title(name, entry) .. "\n" .. finish(entry.comment)
      return field and text .. "\n" .. field or text
    end
  end
  return field
end

--- The names of all documented functions and methods that are not for the library's own modules alone, for the reference page.
-- @treturn {string,...} such as "mask.window", "tensor:permute", sorted
function doc.members()
  local list = {}
  for key, entry in pairs(load_index()) do
    local ours = table.concat(entry.comment, " "):find("the library's own modules", 1, true)
    if entry.parameters and not ours then list[#list + 1] = key end
  end
  table.sort(list)
  return list
end

return doc
