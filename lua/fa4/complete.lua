--- What the prompt knows about names: Tab completion of globals, fields, methods and config keys, and the text behind `?name`.
local complete = {}

-- ---- which names there are ----

local KEYWORDS = { "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not",
  "or", "repeat", "return", "then", "true", "until", "while" }

-- The value that a dotted path names, from the globals on; nil when a step is missing or raises.
local function resolve(path)
  local value = _G
  for name in path:gmatch("[^%.:]+") do
    local fine, step = pcall(function() return value[name] end)
    if not fine or step == nil then
      return nil
    end
    value = step
  end
  return value
end

-- Collects string keys of a table and of what its metatable's __index leads to.
local function collect(value, prefix, only_functions, into)
  for _ = 1, 8 do
    if type(value) ~= "table" then
      break
    end
    for key, entry in pairs(value) do
      if type(key) == "string" and key:sub(1, #prefix) == prefix and key:find("^[%a_][%w_]*$")
        and (prefix ~= "" or key:sub(1, 1) ~= "_") and (not only_functions or type(entry) == "function") then
        into[key] = true
      end
    end
    local meta = getmetatable(value)
    if type(meta) ~= "table" then
      break
    end
    -- A class whose __index is a function may list its methods and fields beside it.
    for _, list in ipairs({ rawget(meta, "methods"), not only_functions and rawget(meta, "fields") or nil }) do
      collect(list, prefix, false, into)
    end
    value = rawget(meta, "__index")
  end
end

-- ---- config keys ----

local function load_config()
  local found, config = pcall(require, "fa4.config")
  return found and type(config) == "table" and config or nil
end

-- The names before each `{` that is open at the end of the text: { "fa4.attention", "rescale" }.
local function open_braces(text)
  local stack = {}
  local plain = text:gsub('"[^"]*"', '""'):gsub("'[^']*'", "''")
  for before, mark in plain:gmatch("([^{}]*)([{}])") do
    if mark == "{" then
      local field = before:match("([%a_][%w_]*)%s*=%s*$")
      stack[#stack + 1] = field or before:match("([%a_][%w_%.:]*)%s*%(?%s*$") or ""
    else
      stack[#stack] = nil
    end
  end
  return stack
end

-- Where in a config the end of the text is: "" inside fa4.attention{...} and inside the config of a sweep, "rescale" a group deeper.
local function config_path(text)
  local stack = open_braces(text)
  if stack[1] and stack[1]:find("sweep$") and table.remove(stack, 1) and stack[1] ~= "config" then
    return nil
  end
  return stack[1] and table.concat(stack, ".", 2)
end

local function config_keys(text, prefix, into)
  local config, path = load_config(), config_path(text)
  if not config or not config.keys or not path or not text:find("[{,]%s*$") then
    return false
  end
  local keys = config.keys(path)
  for _, key in ipairs(keys or {}) do
    if key:sub(1, #prefix) == prefix then
      into[key] = true
    end
  end
  return keys ~= nil
end

-- Strings that a field takes and the schema does not list.
local CHOICES = { dtype = { "f16", "bf16", "f32", "f64", "i32" },
  device = { "auto", "cpu", "cuda", "emu", "emu:sm_100a", "emu:sm_90a" } }

-- Inside `name = "...`: the strings that the field takes, and what is typed of one; nil elsewhere.
local function open_choice(text)
  local before, name, typed = text:match("^(.-)([%a_][%w_]*)%s*=%s*[\"']([%w_:]*)$")
  if not name then
    return nil
  end
  local path, config = config_path(before) or "", load_config()
  local field = config and config.field and config.field(path == "" and name or path .. "." .. name)
  local choices = field and field.choices or CHOICES[name]
  if not choices then
    return nil
  end
  local found = {}
  for _, choice in ipairs(choices) do
    if choice:sub(1, #typed) == typed then
      found[choice] = true
    end
  end
  return found, typed
end

-- ---- Tab ----

local function common_prefix(names)
  local first, last = names[1], names[#names]
  local n = 0
  while n < #first and first:byte(n + 1) == last:byte(n + 1) do
    n = n + 1
  end
  return first:sub(1, n)
end

local function columns(names)
  local width = 0
  for _, name in ipairs(names) do
    width = math.max(width, #name + 2)
  end
  local per_line = math.max(1, math.floor(79 / width))
  local lines = {}
  for i = 1, #names, per_line do
    local cells = {}
    for j = i, math.min(i + per_line - 1, #names) do
      cells[#cells + 1] = names[j] .. (" "):rep(width - #names[j])
    end
    lines[#lines + 1] = (table.concat(cells):gsub("%s+$", ""))
  end
  return table.concat(lines, "\n")
end

-- The names that may stand at the end of the text: a set, what is typed of one, and what follows a single one.
local function names_at(text)
  local word = text:match("[%a_][%w_%.:]*$") or ""
  if word == "" and not text:find("[{,(=]%s*$") and not text:find("[\"']$") then
    return nil
  end
  local choices, typed = open_choice(text)
  if choices then
    return choices, typed, '"'
  end
  local found = {}
  local path, separator, prefix = word:match("^(.*)([%.:])([%w_]*)$")
  if path then
    collect(resolve(path), prefix, separator == ":", found)
    return found, prefix, ""
  end
  if config_keys(text:sub(1, #text - #word), word, found) and next(found) then
    return found, word, " = "
  end
  collect(_G, word, false, found)
  for _, keyword in ipairs(word ~= "" and KEYWORDS or {}) do
    if keyword:sub(1, #word) == word then
      found[keyword] = true
    end
  end
  return found, word, ""
end

--- Completes the text before the cursor.
-- @tparam string text the line up to the cursor
-- @treturn string what to insert, maybe empty
-- @treturn ?string the choices, when there are several and nothing to insert
function complete.at(text)
  local found, typed, suffix = names_at(text)
  if not found then
    return "  "
  end
  local names = {}
  for name in pairs(found) do
    names[#names + 1] = name
  end
  table.sort(names)
  if #names == 0 then
    return ""
  elseif #names == 1 then
    return names[1]:sub(#typed + 1) .. suffix
  end
  local more = common_prefix(names):sub(#typed + 1)
  if more ~= "" then
    return more
  end
  return "", columns(names)
end

-- ---- ?name ----

local GENERAL = [[
  expression      prints its value (a trailing ; silences it); _ is the last one
  ?name           explains a function or config field: ?attention, ?scale
  Tab             completes globals, fields, methods and config keys
  Ctrl-C          stops what runs and gives the prompt back; Ctrl-D leaves
  fa4.config      every field of a config, with range and default
  fa4.time(f)     median and spread of a call's time

  out = fa4.attention{mask = fa4.mask.causal()}(q, k, v); print(out.report)]]

-- Names people leave out: ?attention means ?fa4.attention.
local function candidates(name)
  return { name, (name:gsub("^fa4%.", "")), "fa4." .. name }
end

--- Prints the documentation of a function, a module or a config field.
-- @tparam string name what stood behind the question mark; empty for general help
function complete.help(name)
  if name == "" then
    print(GENERAL)
    return
  end
  name = name:gsub("%(.*$", ""):gsub(":", ".")
  local found, doc = pcall(require, "fa4.doc")
  for _, candidate in ipairs(candidates(name)) do
    local text = found and doc.lookup and doc.lookup(candidate)
    if text then
      print(text)
      return
    end
  end
  for _, candidate in ipairs(candidates(name)) do
    local value = resolve(candidate)
    if value ~= nil then
      print(("%s: a %s without documentation of its own"):format(candidate, type(value)))
      return
    end
  end
  print(("%s: nothing of that name; Tab lists names, ? helps"):format(name))
end

return complete
