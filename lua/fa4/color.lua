--- Whether and how text is coloured: NO_COLOR turns it off, FORCE_COLOR or CLICOLOR_FORCE on (--color sets these), else colour is for
-- terminals that are not dumb.
local color = {}

local CODES = { red = 31, green = 32, yellow = 33, bold = 1 }

local function set(name)
  local value = os.getenv(name)
  return value ~= nil and value ~= ""
end

--- Should what goes to a stream be coloured?
-- @tparam int stream 1 standard output, 2 standard error
-- @treturn boolean
function color.wanted(stream)
  if set("NO_COLOR") then
    return false
  elseif set("FORCE_COLOR") or set("CLICOLOR_FORCE") then
    return true
  end
  local found, host = pcall(require, "fa4.host")
  return found and os.getenv("TERM") ~= "dumb" and host.is_terminal(stream)
end

--- Text in a colour, where the stream takes it.
-- @tparam int stream 1 standard output, 2 standard error
-- @tparam string name "red", "green", "yellow" or "bold"
-- @tparam string text without line breaks, best
-- @treturn string
function color.paint(stream, name, text)
  if not color.wanted(stream) then
    return text
  end
  return ("\27[%dm%s\27[0m"):format(CODES[name], text)
end

return color
