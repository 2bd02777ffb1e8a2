--- `fa4 test [arguments]`: busted inside the executable. busted itself is taken from the system.
local test = {}

--- Runs busted with the arguments given (default: every spec under spec/).
-- @tparam table arguments busted's own arguments
-- @treturn int exit status
function test.main(arguments)
  local found, runner = pcall(require, "busted.runner")
  if not found then
    io.stderr:write("fa4: busted is not there; install it: apt-get install lua-busted\n")
    return 1
  end
  _G.arg = { [0] = "fa4 test", unpack(arguments) }
  -- busted ends a failed run with error(nil) after its own report.
  local fine, message = pcall(runner, { standalone = false })
  if not fine and message ~= nil then
    error(message, 0)
  end
  return fine and 0 or 1
end

return test
