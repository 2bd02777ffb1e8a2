--- Options of the scripts beside this file: `--name value`, `--name=value`, `--flag`.
local options = {}

--- Reads a command line.
-- @tparam {string,...} list the arguments
-- @tparam table known by name: "value", "list" (may come again) or "flag"
-- @treturn ?table values by name; nil when something is wrong
-- @treturn ?string what
function options.read(list, known)
  local values, i = {}, 1
  for name, kind in pairs(known) do
    if kind == "list" then values[name] = {} end
  end
  while i <= #list do
    local name, equals, value = list[i]:match("^%-%-([%w-]+)(=?)(.*)$")
    local kind = name and (equals ~= "" or value == "") and known[name]
    if kind == "flag" then
      if equals ~= "" then return nil, ("--%s takes no value"):format(name) end
      values[name] = true
    elseif kind then
      if equals == "" then
        i = i + 1
        value = list[i]
      end
      if value == nil or value == "" or (equals == "" and value:find("^%-%-")) then return nil, ("--%s needs a value"):format(name) end
      if kind == "list" then table.insert(values[name], value) else values[name] = value end
    else
      return nil, ("unknown option %s"):format(list[i])
    end
    i = i + 1
  end
  return values
end

--- Whole numbers from 1 on, separated by commas.
-- @tparam string text such as "64,128"
-- @treturn ?{number,...} nil when something else is there
function options.numbers(text)
  local numbers = {}
  for word in (text .. ","):gmatch("([^,]*),") do
    local number = word:find("^%d+$") and tonumber(word)
    if not number or number < 1 then return nil end
    numbers[#numbers + 1] = number
  end
  return numbers
end

return options
