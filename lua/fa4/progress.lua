--- A progress bar on stderr: only on a terminal, only once the work has taken a while, cleared at the end.
local progress = {}

local SHOW_AFTER_S = 1
local WIDTH = 40

local on_terminal

-- Asked at the first bar that is due, so that short work pays nothing: of the executable, or in plain LuaJIT of the shell.
local function is_terminal()
  if on_terminal == nil then
    local has_host, host = pcall(require, "fa4.host")
    if has_host then
      on_terminal = host.is_terminal(2)
    else
      local status = os.execute("test -t 2")
      on_terminal = status == 0 or status == true
    end
    on_terminal = on_terminal and os.getenv("TERM") ~= "dumb"
  end
  return on_terminal
end

--- A bar for one piece of work.
-- @tparam string title what is being done
-- @treturn function call it with the share done in [0, 1], and with nil at the end
function progress.bar(title)
  local started, drawn_at, drawn = os.time(), nil, false
  return function(share)
    if share == nil then
      if drawn then io.stderr:write("\r\27[K") end
      drawn = false
      return
    end
    local now = os.clock()
    if drawn_at and now - drawn_at < 0.1 then return end
    if os.time() - started <= SHOW_AFTER_S or not is_terminal() then return end
    local filled = math.floor(share * WIDTH + 0.5)
    io.stderr:write(("\r%s [%s%s] %3.0f %%"):format(title, ("#"):rep(filled), ("."):rep(WIDTH - filled), share * 100))
    io.stderr:flush()
    drawn_at, drawn = now, true
  end
end

return progress
