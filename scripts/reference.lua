--- The reference page, from the one schema and the comments above the functions: every config field, then every public function.
--   fa4 scripts/reference.lua [--help] > reference.md
local fa4 = require "fa4"
local doc = require "fa4.doc"

local usage = [[
usage: fa4 scripts/reference.lua [--help]

Prints the reference page: every field of a config with its range, default and
meaning, and every public function and method, as Markdown.
]]

local function code_block(text)
  return "```\n" .. text .. "\n```"
end

-- Public functions and modules by name, in the order of names.
local function names()
  local list = {}
  for name in pairs(getmetatable(fa4).methods) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local function print_functions()
  for _, name in ipairs(names()) do
    local text = doc.lookup(name)
    if text then print(("### fa4.%s\n\n%s\n"):format(name, code_block(text))) end
  end
end

local function print_members()
  for _, key in ipairs(doc.members()) do print(("### %s\n\n%s\n"):format(key, code_block(doc.lookup(key)))) end
end

local function main(arguments)
  if arguments[1] == "--help" then
    io.stdout:write(usage)
    return 0
  elseif #arguments > 0 then
    io.stderr:write(usage)
    return 2
  end
  print(("# fa4 %s\n\n## Config fields\n"):format(fa4.version()))
  for _, field in ipairs(fa4.config.fields) do print(("### %s\n\n%s\n"):format(field.name, code_block(fa4.config.describe(field.name)))) end
  print("## Functions\n")
  print_functions()
  print("## Members of modules and objects\n")
  print_members()
  return 0
end

local code = main(arg or {})
if code ~= 0 then os.exit(code) end
