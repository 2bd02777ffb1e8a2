--- Runs before every spec. busted memoises ffi.typeof and ffi.metatype by their first argument alone, which gives parametrised types
-- wrong sizes; the originals are put back. The memoised cdef stays: it lets modules be loaded again. The whole library is loaded here:
-- busted forgets modules that a spec file loads, and two copies of one module do not know each other's objects.
local ffi = require "ffi"

local function original(fn)
  for i = 1, 20 do
    local name, value = debug.getupvalue(fn, i)
    if not name then return nil end
    if name == "original" then return value end
  end
end

for _, name in ipairs{"typeof", "metatype"} do
  local real = original(ffi[name])
  if real then ffi[name] = real end
end

local fa4 = require "fa4"
for _, export in pairs(getmetatable(fa4).methods) do pcall(require, "fa4." .. export[1]) end
require "spec.support.assertions"

return true
