--- The disk cache of kernels compiled at run time: what is in it, and emptying it. `fa4 cache ls|clear` on the command line.
local log = require "fa4.log"
local native = require "fa4.ffi"
local report = require "fa4.report"

local cache = {}
local C = native.C

--- Where the cache is and how full; which compiler there is.
-- @treturn table `folder` (nil when off), `warning` (nil when all is well), `compiler` (nil when none), `compiler_missing` (why),
-- `catalogue` (kernels inside the library), `entries`, `bytes`, `bytes_max`
function cache.get()
  local info = native.new("fa4_cache_info")
  native.check(C.fa4_cache_get(info, native.err))
  local folder, warning, compiler = native.string(info.folder), native.string(info.warning), native.string(info.compiler)
  return {
    folder = folder ~= "" and folder or nil, warning = warning ~= "" and warning or nil,
    compiler = info.has_compiler == 1 and compiler or nil, compiler_missing = info.has_compiler == 0 and compiler or nil,
    catalogue = info.catalogue, entries = tonumber(info.entries), bytes = tonumber(info.bytes), bytes_max = tonumber(info.bytes_max),
  }
end

local warned

--- Tells, once in a process, why compiled kernels are not kept. For the library's own modules, after a kernel has run.
function cache.warn_once()
  if warned then return end
  warned = true
  local text = native.new("char[2560]")
  if C.fa4_cache_warning(text, 2560, native.err) == 0 and text[0] ~= 0 then log.warn("%s", native.string(text)) end
end

--- The cached kernels, the one used last first.
-- @treturn {table,...} `kernel`, `compiler`, `bytes`, `used_s` (seconds since 1970), `file`
function cache.list()
  local count = native.new("int64_t[1]")
  native.check(C.fa4_cache_list(nil, 0, count, native.err))
  local room = tonumber(count[0])
  local items = native.new("fa4_cache_item[?]", math.max(1, room))
  native.check(C.fa4_cache_list(items, room, count, native.err))
  local made = {}
  for i = 0, math.min(room, tonumber(count[0])) - 1 do -- another process may have added some
    local item = items[i]
    made[i + 1] = {
      kernel = native.string(item.kernel), compiler = native.string(item.compiler), bytes = tonumber(item.bytes),
      used_s = tonumber(item.used_s), file = native.string(item.file),
    }
  end
  return made
end

--- Removes every cached kernel.
-- @treturn int kernels removed
-- @treturn int bytes freed
function cache.clear()
  local entries, bytes = native.new("int64_t[1]"), native.new("int64_t[1]")
  native.check(C.fa4_cache_clear(entries, bytes, native.err))
  return tonumber(entries[0]), tonumber(bytes[0])
end

local function kernels(count)
  return count == 1 and "1 kernel" or count .. " kernels"
end

local function print_list()
  local info = cache.get()
  if info.warning then log.warn("%s", info.warning) end
  for _, item in ipairs(cache.list()) do
    io.write(("%s  %12s bytes  %-10s  %s\n"):format(os.date("%Y-%m-%d %H:%M", item.used_s), report.grouped(item.bytes), item.compiler,
      item.kernel))
  end
  if info.folder then
    io.write(("%s, %s of %s bytes, in %s\n"):format(kernels(info.entries), report.grouped(info.bytes), report.grouped(info.bytes_max),
      info.folder))
  elseif not info.warning then
    io.write("the kernel cache is off (FA4_CACHE=0)\n")
  end
end

local function print_clear()
  local entries, bytes = cache.clear()
  io.write(("%s removed, %s bytes\n"):format(kernels(entries), report.grouped(bytes)))
end

--- `fa4 cache ls|clear`.
-- @tparam {string,...} arguments after the word "cache"
-- @treturn int exit status
function cache.main(arguments)
  if #arguments == 1 and arguments[1] == "ls" then
    print_list()
  elseif #arguments == 1 and arguments[1] == "clear" then
    print_clear()
  else
    io.stderr:write("usage: fa4 cache ls|clear\n")
    return 2
  end
  return 0
end

return cache
