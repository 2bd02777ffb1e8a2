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
    local name, value = list[i]:match("^%-%-([%w-]+)=?(.*)$")
    local kind = name and known[name]
    if kind == "flag" then
      values[name] = true
    elseif kind then
      if value == "" then
        i = i + 1
        value = list[i]
      end
      if value == nil then return nil, ("--%s needs a value"):format(name) end
      if kind == "list" then table.insert(values[name], value) else values[name] = value end
    else
      return nil, ("unknown option %s"):format(list[i])
    end
    i = i + 1
  end
  return values
end

--- Numbers separated by commas.
-- @tparam string text such as "64,128"
-- @treturn ?{number,...} nil when one is no number
function options.numbers(text)
  local numbers = {}
  for word in text:gmatch("[^,]+") do
    local number = tonumber(word)
    if not number then return nil end
    numbers[#numbers + 1] = number
  end
  return numbers
end

return options
