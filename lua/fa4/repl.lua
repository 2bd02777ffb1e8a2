--- The prompt: reads a chunk, runs it, prints what it gives. Reading lines, history's file and signals are the executable's
-- (module fa4.host); completion and help are in fa4.complete; how values look is in fa4.show.
local color = require "fa4.color"
local complete = require "fa4.complete"
local host = require "fa4.host"
local show = require "fa4.show"

local repl = {}

local PROMPT, CONTINUATION = "fa4> ", "...> "

-- ---- reading a chunk ----

-- A local of one chunk is gone in the next, which nobody expects at a prompt: a chunk's leading `local` makes globals instead.
local function without_local(text)
  local names = text:match("^%s*local%s+([%a_][%w_]*[%s,%w_]*)$")
  if names and not names:find("^function%s") then
    return (names:gsub("%s+$", "")) .. " = nil"
  end
  return (text:gsub("^(%s*)local%s+", "%1", 1))
end

local function incomplete(message)
  return message:find("near '<eof>'$") ~= nil
end

--- Compiles what was typed.
-- @tparam string text one or more lines
-- @treturn ?function the chunk, to be called with a function that takes an expression's values; nil when it does not compile
-- @treturn ?string the message
-- @treturn ?boolean true when more lines may complete it
function repl.compile(text)
  local expression = text:match("^%s*=(.*)$") or text:match("^%s*return%s+(.*)$")
  local list = expression or text
  local f, message = load("return " .. list, "=prompt", "t")
  if f then
    -- Not `return`: a tail call would lose the line that errors name. The chunk is given what takes the values. A comment at the end
    -- needs a line break, which would shift that line.
    local last = list:find("%-%-") and "\n)" or ")"
    return (load("(...)(" .. list:gsub("[%s;]*$", "") .. last, "=prompt", "t") or f)
  end
  local open = incomplete(message)
  if not expression then
    f, message = load(without_local(text), "=prompt", "t")
    if f then
      return f
    end
    open = open or incomplete(message)
  end
  return nil, message, open
end

-- Reads lines until they compile, are wrong, or Ctrl-C or the end of input comes. Returns the chunk and its text; nil and a message;
-- false to forget the input; or nothing at the end of input.
local function read_chunk()
  local text
  while true do
    local line = host.readline(text and CONTINUATION or PROMPT)
    if line == false then
      return false
    end
    if line == nil then
      if not text then
        return
      end
      local _, message = repl.compile(text)
      return nil, message
    end
    line = line:gsub("\r?\n$", "")
    if line:find("%S") and not line:find("%z") then
      repl.remember(line)
    end
    if not text and not line:find("%S") then
      return false
    end
    if not text and line:find("^%s*%?") then
      local name = line:gsub("%-%-.*$", ""):match("^%s*%?%s*(.-)[%s;]*$")
      return function() return complete.help(name) end, "?;"
    end
    text = text and text .. "\n" .. line or line
    local chunk, message, open = repl.compile(text)
    if chunk then
      return chunk, text
    elseif not open then
      return nil, message
    end
  end
end

local last_line

--- Enters a line into the history, unless it repeats the one before.
-- @tparam string line without its newline
function repl.remember(line)
  if line ~= last_line and host.is_terminal(0) then
    host.remember(line)
  end
  last_line = line
end

-- ---- running it ----

-- What an error shows: its message, and of the traceback the frames that the person wrote.
local function describe(failure)
  if failure.interrupted then
    return "interrupted"
  end
  local lines = { failure.message }
  for frame in (failure.traceback or ""):gmatch("[^\n]+") do
    local ours = frame:find("^%s*%[C%]") or frame:find("^%s*%[builtin") or frame:find("^%s*fa4/[%w_]+%.lua:")
    if frame:find("^%s") and not ours and not frame:find("^%s*prompt:") and #lines < 12 then
      lines[#lines + 1] = frame
    end
  end
  return table.concat(lines, "\n")
end

local function run_and_print(chunk, silent)
  chunk(function(...)
    local count = select("#", ...)
    if count == 0 then
      return
    end
    _G._ = (...)
    if not silent then
      io.stdout:write(show.values(count, ...), "\n")
    end
  end)
  io.stdout:flush()
end

local function complain(message)
  local first, rest = message:match("^([^\n]*)(.*)$")
  io.stdout:flush()
  io.stderr:write(color.paint(2, "red", first), rest, "\n")
end

-- One turn of the prompt: true to go on; and whether it failed.
local function turn()
  local chunk, text = read_chunk()
  if chunk == false then
    return true
  elseif not chunk then
    if text then
      complain(text)
      return true, true
    end
    return false
  end
  if (text == "exit" or text == "quit") and _G[text] == nil then
    return false
  end
  local failure = host.protect(run_and_print, chunk, text:find(";%s*$") ~= nil)
  if failure then
    complain(describe(failure))
  end
  return true, failure ~= nil
end

-- ---- starting ----

local function history_path()
  local state, home = os.getenv("XDG_STATE_HOME"), os.getenv("HOME")
  if state and state:sub(1, 1) == "/" then
    return state .. "/fa4/history"
  elseif home and home ~= "" then
    return home .. "/.local/state/fa4/history"
  end
end

local function open_history()
  local path = history_path()
  if not path then
    return
  end
  local fine, message = host.open_history(path)
  if not fine then
    io.stderr:write("fa4: history is not kept: ", message, "\n")
  end
end

local function banner()
  local found, info = pcall(require, "fa4.info")
  local devices = found and info.devices_line()
  print(("fa4 %s, FlashAttention-4. %s"):format(host.version, devices or "Devices: cpu"))
  print("Type an expression; ? helps, ?name explains, Tab completes, Ctrl-D leaves.")
end

--- The prompt until the end of input.
-- @treturn int exit status: 1 when input did not come from a terminal and something failed
function repl.main()
  -- Compiled code does not see Ctrl-C, wherever it was compiled; off and flushed, everything is interpreted and stops.
  jit.off()
  jit.flush()
  local terminal = host.is_terminal(0)
  local loaded, library = pcall(require, "fa4")
  if loaded then
    _G.fa4 = library
  else
    complain("fa4: the library did not load: " .. tostring(library))
  end
  host.set_completer(complete.at)
  if terminal then
    open_history()
    banner()
  end
  host.prompt(true)
  local going, any_failed = true, false
  while going do
    local failed
    going, failed = turn()
    any_failed = any_failed or failed
  end
  host.prompt(false)
  if terminal then
    io.stdout:write("\n")
  end
  return any_failed and not terminal and 1 or 0
end

return repl
