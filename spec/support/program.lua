--- Runs the executable (or any program) as a child with a time limit and gives back what it wrote and its exit status.
local program = {}

program.build = os.getenv("FA4_BUILD") or "build"
program.fa4 = program.build .. "/fa4"

--- A word that the shell takes literally.
function program.quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

function program.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

function program.write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
end

--- A spec is no stopwatch: what should take a second, say, fails only when it takes this many. The mark itself is measured on a quiet
-- machine, by scripts/bench.lua or by hand.
program.patience = 10

--- The longest line of a text.
-- @tparam string text UTF-8
-- @treturn int characters
-- @treturn string the line
function program.widest(text)
  local most, longest = 0, ""
  for line in text:gmatch("[^\n]+") do
    local _, count = line:gsub("[^\128-\191]", "")
    if count > most then most, longest = count, line end
  end
  return most, longest
end

--- Runs a shell command.
-- @tparam string command
-- @tparam[opt] table options `input` (standard input, default empty), `seconds` (default 60)
-- @treturn table `code`, `out`, `err`; code 124 when the time was over
function program.shell(command, options)
  options = options or {}
  local base = os.tmpname()
  program.write(base .. ".in", options.input or "")
  program.write(base .. ".sh", command)
  local status = os.execute(("timeout -k 5 %g sh %s.sh <%s.in >%s.out 2>%s.err"):format(options.seconds or 60, base, base, base, base))
  local result = { out = program.read(base .. ".out"), err = program.read(base .. ".err") }
  result.code = status % 256 == 0 and status / 256 or 128 + status % 256
  for _, suffix in ipairs({ "", ".in", ".sh", ".out", ".err" }) do
    os.remove(base .. suffix)
  end
  return result
end

--- Runs the executable with arguments; options as for shell, and `env`, shell assignments before the command.
-- @tparam {string,...} arguments
-- @tparam[opt] table options
-- @treturn table as shell
function program.run(arguments, options)
  local words = { options and options.env or "", program.quote(program.fa4) }
  for _, argument in ipairs(arguments) do
    words[#words + 1] = program.quote(argument)
  end
  return program.shell("exec env " .. table.concat(words, " "), options)
end

--- A script in a file of its own, for the length of a call.
-- @tparam string text the script
-- @tparam function use gets the path
function program.with_script(text, use)
  local path = os.tmpname()
  program.write(path, text)
  local fine, message = pcall(use, path)
  os.remove(path)
  if not fine then
    error(message, 0)
  end
end

return program
