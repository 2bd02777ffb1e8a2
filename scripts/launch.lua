--- What a small call costs on a GPU beyond the device's own time, from Lua and through the C interface (called by LuaJIT's FFI).
--   fa4 scripts/launch.lua [--device cuda] [--calls N] [--help]
local fa4 = require "fa4"
local native = require "fa4.ffi"

local usage = [[
usage: fa4 scripts/launch.lua [--device cuda] [--calls N] [--help]

Times N calls (default 2000) after a tenth of them as warm-up:
  waited   the call returns its report; cost = wall time less the device's time
           (by events; they hold the launch itself, about 4 us of a small call)
  queued   report = false: the call returns once its work is queued, here while
           nothing runs; the wait is not counted
given: outputs are passed in. made: each call makes its own.
]]

local HERE = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local options_of = dofile(HERE .. "options.lua")
local C = native.C

-- Mean wall time of n calls, and the mean of what they return.
local function mean(n, call)
  local wall, inner = 0, 0
  for i = 1, n + math.ceil(n / 10) do
    local start = C.fa4_clock_us()
    local value, stop = call()
    if i > n / 10 then wall, inner = wall + (stop or C.fa4_clock_us()) - start, inner + value end
  end
  return wall / n, inner / n
end

local function tensors_of(device, shape)
  local t = {}
  for i = 1, 3 do t[i] = fa4.randn(shape, {dtype = "f16", seed = i}):to{device = device} end
  return t[1], t[2], t[3]
end

local function show(what, wall, device)
  if device > 0 then print(("  %-22s %6.2f us a call, device %6.2f us, cost %6.2f us"):format(what, wall, device, wall - device))
  else print(("  %-22s %6.2f us a call"):format(what, wall)) end
end

local function from_c(device, out, q, k, v, n)
  local t, report = native.new("fa4_tensors"), native.new("fa4_report")
  t.q, t.k, t.v, t.o, t.lse = q.view, k.view, v.view, out.o.view, out.lse.view
  local context, handle = native.context(), out.plan.handle
  show("C, waited", mean(n, function()
    native.check(C.fa4_run(context, handle, t, report, nil, native.err))
    return report.time_us
  end))
  show("C, queued", mean(n, function()
    native.check(C.fa4_run(context, handle, t, nil, nil, native.err))
    local stop = C.fa4_clock_us()
    native.check(C.fa4_device_wait(context, device, native.err))
    return 0, stop
  end))
  native.keep(out, q, k, v)
end

local function case(device, shape, n)
  local q, k, v = tensors_of(device, shape)
  local waited, queued = fa4.attention{device = device}, fa4.attention{device = device, report = false}
  local out = waited(q, k, v)
  local given = {o = out.o, lse = out.lse}
  print(("%d queries and keys, %d heads, dim %d, f16"):format(shape[2], shape[3], shape[4]))
  for _, outputs in ipairs{given, false} do
    local name = outputs and "given" or "made"
    show("Lua, waited, " .. name, mean(n, function() return waited(q, k, v, outputs or nil).report.time_us end))
    show("Lua, queued, " .. name, mean(n, function()
      queued(q, k, v, outputs or nil)
      local stop = C.fa4_clock_us()
      native.check(C.fa4_device_wait(native.context(), device, native.err))
      return 0, stop
    end))
  end
  from_c(device, out, q, k, v, n)
end

local function main()
  local options, wrong = options_of.read(arg, {device = "value", calls = "value", help = "flag"})
  local calls = options and tonumber(options.calls or 2000)
  if options and options.help then
    io.write(usage)
    return 0
  elseif not options or not calls or calls < 1 then
    io.stderr:write(wrong or "--calls takes a number from 1 on", "\n", usage)
    return 2
  end
  for _, shape in ipairs{{1, 128, 1, 128}, {1, 256, 16, 128}} do case(options.device or "cuda", shape, calls) end
  return 0
end

local code = main()
if code ~= 0 then os.exit(code) end
