--- What is here: version, processor, devices, memory; and a stopwatch.
local cache = require "fa4.cache"
local errors = require "fa4.errors"
local native = require "fa4.ffi"
local page = require "fa4.page"
local report = require "fa4.report"

local info = {}
local C = native.C
local raise, show = errors.raise, errors.show

--- The library's version.
-- @treturn string "major.minor.patch"
function info.version()
  return native.string(C.fa4_version())
end

--- Live tensor memory.
-- @treturn table `host_bytes`, `device_bytes`, `storages`, `host_bytes_max`
function info.memory()
  return native.memory()
end

--- Opens the library again with other workers or a forced instruction set. Tensors and operators stay usable.
-- @tparam[opt] table opts `threads` (0 = chosen for you), `cpu` ("scalar", "avx2", "avx512", "avx512_bf16")
-- @raise on an unknown option, or an instruction set that is unknown or absent
function info.open(opts)
  if opts ~= nil and type(opts) ~= "table" then raise("open: expected a table {threads =, cpu =}, got %s", show(opts)) end
  for key in pairs(opts or {}) do
    if key ~= "threads" and key ~= "cpu" then
      raise("open: %s", errors.unknown("unknown option", tostring(key), {"threads", "cpu"}))
    end
  end
  local threads, cpu = opts and opts.threads, opts and opts.cpu
  if threads ~= nil then errors.whole("open: threads", threads, 0, 1024) end
  if cpu ~= nil and (type(cpu) ~= "string" or cpu:find("\0", 1, true)) then raise("open: cpu: expected a string, got %s", show(cpu)) end
  native.open{threads = threads, cpu = cpu}
end

local DEVICES = {"cpu", "cuda", "emu:sm_100a", "emu:sm_90a"}
-- What one would have of a device that is absent.
local ENABLES = {
  cuda = "the kernels on a Hopper or Blackwell GPU", ["emu:sm_100a"] = "the Blackwell kernel, executed here instruction by instruction",
  ["emu:sm_90a"] = "the Hopper kernel, executed here instruction by instruction",
}
local COMPILER_ENABLES = "every variant of the kernels, for a GPU or the emulator"

local meta = {}

--- What was found: processor, instruction sets, threads, devices and why one is absent.
-- @treturn table `version`, `cpu` (`model`, `path`, `usable`, `threads`, `cpus`), `devices` (by name: `usable`, `message`), `kernels` (see
-- `fa4.cache`), `memory`
function info.get()
  local cpu = native.new("fa4_cpu_info")
  C.fa4_context_cpu(native.context(), cpu)
  local made = {
    version = info.version(), memory = native.memory(), devices = {}, kernels = cache.get(),
    cpu = {
      model = native.string(cpu.model), path = native.string(cpu.path), usable = native.string(cpu.usable),
      threads = cpu.threads, cpus = cpu.cpus,
    },
  }
  for _, name in ipairs(DEVICES) do
    local status = C.fa4_device_check(native.context(), name, native.err)
    made.devices[name] = {usable = status == 0, message = status ~= 0 and native.message() or nil}
  end
  return setmetatable(made, meta)
end

-- A name and words beside it.
local function entry(name, words)
  return page.wrap(words, ("%-13s"):format(name))
end

-- Where the GPU's kernels come from.
local function kernel_lines(k)
  local kept = k.folder and ("%d kept in %s"):format(k.entries, k.folder) or "none kept on disk"
  local lines = {entry("kernels", ("%d in the library, %s"):format(k.catalogue, kept))}
  lines[2] = entry("compiler", k.compiler
    or ("none, so only those kernels: %s. It would give: %s"):format(k.compiler_missing, COMPILER_ENABLES))
  if k.warning then lines[3] = entry("cache", k.warning) end
  return lines
end

function meta.__tostring(i)
  local lines = {
    "fa4 " .. i.version,
    entry("cpu", i.cpu.model),
    entry("", ("instruction set %s (usable: %s)"):format(i.cpu.path, i.cpu.usable)),
    entry("", ("%d threads, %d CPUs allowed"):format(i.cpu.threads, i.cpu.cpus)),
  }
  -- The paths are listed best first.
  if i.cpu.usable:find("^avx512 avx512_bf16") then
    local why = "avx512_bf16 is not the default: bf16 pairs run at half the f32 rate on Intel's CPUs, as measured on one"
    table.insert(lines, 4, entry("", why))
  end
  for _, name in ipairs(DEVICES) do
    local device = i.devices[name]
    local missing = ("not usable: %s. It would give: %s"):format(device.message or "", ENABLES[name] or "attention at all")
    lines[#lines + 1] = entry(name, device.usable and "usable" or missing)
  end
  for _, line in ipairs(kernel_lines(i.kernels)) do lines[#lines + 1] = line end
  lines[#lines + 1] = ("memory       %s bytes in %d tensors"):format(report.grouped(i.memory.host_bytes), i.memory.storages)
  return table.concat(lines, "\n")
end

--- The devices in one line, for the prompt's banner.
-- @treturn string such as "Devices: cpu avx512, emu sm_100a sm_90a"
function info.devices_line()
  local i = info.get()
  local parts, emulated = {"cpu " .. i.cpu.path}, {}
  for _, name in ipairs(DEVICES) do
    local machine = name:match("^emu:(.*)$")
    if i.devices[name].usable then
      if machine then emulated[#emulated + 1] = machine elseif name ~= "cpu" then parts[#parts + 1] = name end
    end
  end
  if #emulated > 0 then parts[#parts + 1] = "emu " .. table.concat(emulated, " ") end
  return "Devices: " .. table.concat(parts, ", ")
end

--- The command `fa4 info`.
-- @tparam {string,...} arguments none are taken
-- @treturn int exit status
function info.main(arguments)
  if #arguments > 0 then
    io.stderr:write("usage: fa4 info\n")
    return 2
  end
  print(info.get())
  return 0
end

--- The multiply-add rates of the CPU, measured now on the instruction set in use.
-- @tparam[opt=1] int threads CPU threads that work
-- @treturn number GFLOP/s of f32 fused multiply-adds (one counts 2)
-- @treturn number GFLOP/s of products of bf16 pairs; 0 unless the path is avx512_bf16
-- @raise on a wrong argument
function info.cpu_peak(threads)
  threads = errors.whole("cpu_peak: threads", threads == nil and 1 or threads, 1, 1024)
  local f32, bf16 = native.new("double[1]"), native.new("double[1]")
  native.check(C.fa4_cpu_peak(native.context(), threads, f32, bf16, native.err))
  return f32[0], bf16[0]
end

local timing = {}

function timing.__tostring(t)
  return ("median %s, %s to %s of %d runs"):format(report.time_text(t.median_us), report.time_text(t.least_us),
    report.time_text(t.most_us), t.runs)
end

--- Times a function: once to warm up, then until there are `runs` runs.
-- @tparam function fn called without arguments
-- @tparam[opt] table opts `runs` (7)
-- @treturn table `median_us`, `least_us`, `most_us`, `spread` ((most - least) / median), `runs`
-- @raise when fn raises
function info.time(fn, opts)
  if type(fn) ~= "function" then raise("time: expected a function, got %s", show(fn)) end
  local runs = opts and opts.runs
  runs = runs == nil and 7 or errors.whole("time: runs", runs, 1, 1e6)
  fn()
  local times = {}
  for i = 1, runs do
    local start = C.fa4_clock_us()
    fn()
    times[i] = C.fa4_clock_us() - start
  end
  table.sort(times)
  local middle = math.floor((runs + 1) / 2)
  local median = runs % 2 == 1 and times[middle] or (times[middle] + times[middle + 1]) / 2
  return setmetatable({
    median_us = median, least_us = times[1], most_us = times[runs], spread = median > 0 and (times[runs] - times[1]) / median or 0,
    runs = runs,
  }, timing)
end

return info
