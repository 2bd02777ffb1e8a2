--- Messages for the person at the terminal, on standard error. FA4_LOG=error|warn|info|debug says how much (default warn). One prefix,
-- no times: a log can be compared.
local log = {}

local LEVELS = { error = 1, warn = 2, info = 3, debug = 4 }
local wanted

local function level()
  if not wanted then
    local name = os.getenv("FA4_LOG")
    wanted = LEVELS[name or "warn"] or LEVELS.warn
    if name and name ~= "" and not LEVELS[name] then
      io.stderr:write(("fa4: warn: FA4_LOG: expected error, warn, info or debug, got %q\n"):format(name))
    end
  end
  return wanted
end

--- True when messages of that level are shown, for messages that cost something to make.
-- @tparam string name "error", "warn", "info" or "debug"
-- @treturn boolean
function log.shows(name)
  return LEVELS[name] <= level()
end

local function write(name, format, ...)
  if log.shows(name) then
    local message = select("#", ...) > 0 and format:format(...) or format
    io.stderr:write("fa4: ", name, ": ", message, "\n")
  end
end

--- Something failed and the work stops.
-- @tparam string format as string.format
-- @tparam any ... its arguments
function log.error(format, ...)
  write("error", format, ...)
end

--- Something is not as asked for, and the work goes on.
-- @tparam string format as string.format
-- @tparam any ... its arguments
function log.warn(format, ...)
  write("warn", format, ...)
end

--- What is done, one line a step.
-- @tparam string format as string.format
-- @tparam any ... its arguments
function log.info(format, ...)
  write("info", format, ...)
end

--- What helps to find a fault.
-- @tparam string format as string.format
-- @tparam any ... its arguments
function log.debug(format, ...)
  write("debug", format, ...)
end

return log
