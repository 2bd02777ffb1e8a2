--- The one file that touches the FFI: loads the declarations made from fa4.h, finds the library, keeps the context, and turns a
-- status into a Lua error. Everything above it works with Lua values and the handles made here.
local ffi = require "ffi"
local errors = require "fa4.errors"
local log = require "fa4.log"

local native = {}

-- Declared once per process: specs and scripts may load this module again.
if not pcall(ffi.sizeof, "fa4_plan_header") then ffi.cdef(require "fa4.cdef") end

local function folder_of(path)
  return path:match("^(.*)/[^/]*$") or "."
end

-- Where the shared library may be: beside a build tree's generated declarations, under an install prefix, where FA4_LIBRARY
-- says, and at last wherever the loader looks.
local function candidates()
  local list = {}
  local cdef = package.searchpath and package.searchpath("fa4.cdef", package.path)
  if cdef then list[#list + 1] = folder_of(cdef) .. "/../../libfa4.so" end
  local source = debug.getinfo(1, "S").source:match("^@(.*)$")
  if source then
    local prefix = folder_of(source) .. "/../../../../"
    local triplet = ({x64 = "x86_64-linux-gnu", arm64 = "aarch64-linux-gnu"})[jit.arch]
    if triplet then list[#list + 1] = prefix .. "lib/" .. triplet .. "/libfa4.so" end
    list[#list + 1] = prefix .. "lib/libfa4.so"
    list[#list + 1] = prefix .. "lib64/libfa4.so"
    list[#list + 1] = folder_of(source) .. "/../../build/libfa4.so"
  end
  list[#list + 1] = os.getenv("FA4_LIBRARY")
  list[#list + 1] = "libfa4.so.0"
  list[#list + 1] = "fa4"
  return list
end

local function load_library()
  if pcall(function() return ffi.C.fa4_version end) then return ffi.C end
  local tried = {}
  for _, path in ipairs(candidates()) do
    local file = path:find("/", 1, true) and io.open(path, "rb")
    if file or not path:find("/", 1, true) or path == os.getenv("FA4_LIBRARY") then
      if file then file:close() end
      local ok, result = pcall(ffi.load, path)
      if ok then return result end
      tried[#tried + 1] = tostring(result)
    end
  end
  error("fa4: libfa4.so was not found; set FA4_LIBRARY to its path\n  " .. table.concat(tried, "\n  "), 0)
end

local C = load_library()
native.C = C

-- One error record for all calls: its text is read before the next call is made.
local failure = ffi.new("fa4_error")
native.err = failure

native.new = ffi.new
native.typeof = ffi.typeof
native.cast = ffi.cast
native.gc = ffi.gc
native.copy = ffi.copy
native.fill = ffi.fill
native.sizeof = ffi.sizeof
native.string = ffi.string

--- The text of the last failure.
-- @treturn string one or more lines
function native.message()
  return ffi.string(failure.text)
end

local context, interrupt

-- Inside the executable, Ctrl-C sets the context's flag.
local has_host, host = pcall(require, "fa4.host")

--- Opens a context in place of the current one. Tensors live on: their storages keep their own context.
-- @tparam[opt] table options `threads` (0 = chosen for you) and `cpu` (an instruction set, or nil)
function native.open(options)
  local made = ffi.new("fa4_context *[1]")
  local wanted = ffi.new("fa4_context_options")
  wanted.threads = options and options.threads or 0
  local cpu = options and options.cpu
  wanted.cpu = cpu
  local status = C.fa4_context_open(wanted, made, failure)
  log.shows("error") -- Says so when FA4_LOG is wrong.
  native.check(status)
  context = ffi.gc(made[0], C.fa4_context_close)
  interrupt = C.fa4_context_interrupt(context)
  if has_host then host.watch(interrupt) end
end

--- The context, opened at first use.
-- @treturn cdata fa4_context *
function native.context()
  if not context then native.open() end
  return context
end

--- The flag that long calls poll; a signal handler sets it to 1.
-- @treturn cdata volatile int32_t *
function native.interrupt()
  native.context()
  return interrupt
end

--- Raises when somebody asked the running work to stop, and takes the request back.
function native.poll()
  if interrupt and interrupt[0] ~= 0 then
    interrupt[0] = 0
    errors.raise_object("interrupted", "interrupted")
  end
end

--- Raises unless the status is 0: the caller of the library is blamed with the text of the error.
-- @tparam number status fa4_status of a call that was given `native.err`
function native.check(status)
  status = tonumber(status)
  if status == 0 then return end
  if status == tonumber(C.FA4_INTERRUPTED) then
    native.interrupt()[0] = 0
    errors.raise_object("interrupted", "interrupted")
  elseif status == tonumber(C.FA4_NO_DEVICE) then
    errors.raise_object("device", native.message())
  end
  local message = native.message()
  if message:find("^FA4_[%u_]+: ") then errors.raise_object("environment", message) end
  errors.raise("%s", message)
end

--- As `check`, for a call about a file: the text names it.
-- @tparam number status fa4_status of a call that was given `native.err`
-- @tparam string path the file
function native.check_file(status, path)
  if status ~= 0 and status ~= C.FA4_INTERRUPTED then
    local message = native.message()
    errors.raise("load: %s", message:find(path, 1, true) and message or path .. ": " .. message)
  end
  native.check(status)
end

-- The collector sees handles of a few bytes, not the memory behind them: tell it when that has grown.
local COLLECT_STEP_BYTES = 256 * 2 ^ 20
local collect_at = COLLECT_STEP_BYTES
local memory = ffi.new("fa4_memory")

--- Live tensor bytes of this context.
-- @treturn table `host_bytes`, `device_bytes`, `storages`, `host_bytes_max`
function native.memory()
  C.fa4_context_memory(native.context(), memory)
  return {
    host_bytes = tonumber(memory.host_bytes), device_bytes = tonumber(memory.device_bytes),
    storages = tonumber(memory.storages), host_bytes_max = tonumber(memory.host_bytes_max),
  }
end

local storage_out = ffi.new("fa4_storage *[1]")

local function live_bytes()
  C.fa4_context_memory(native.context(), memory)
  return tonumber(memory.host_bytes + memory.device_bytes)
end

--- Memory for a tensor, released when nothing refers to the handle any more.
-- @tparam number bytes at least 0
-- @tparam[opt="cpu"] string device "cpu", "cuda" or "cuda:N"
-- @treturn cdata fa4_storage *
function native.storage(bytes, device)
  if live_bytes() + bytes > collect_at then
    collectgarbage()
    collect_at = live_bytes() + COLLECT_STEP_BYTES
  end
  local status = C.fa4_storage_create(native.context(), bytes, device, storage_out, failure)
  if status == C.FA4_NO_MEMORY then
    collectgarbage()
    status = C.fa4_storage_create(native.context(), bytes, device, storage_out, failure)
  end
  if status ~= 0 then native.check(status) end
  return ffi.gc(storage_out[0], C.fa4_storage_release)
end

--- A storage that somebody else made and counted for us.
-- @tparam cdata handle fa4_storage * with one reference that is ours
-- @treturn cdata the same, released when nothing refers to it any more
function native.adopt_storage(handle)
  return ffi.gc(handle, C.fa4_storage_release)
end

--- A plan for a request, or the reason why there is none.
-- @tparam cdata request fa4_request
-- @treturn ?cdata fa4_plan *, destroyed when nothing refers to it any more; nil when unsupported
-- @treturn ?string the reason
function native.plan(request)
  local made = ffi.new("fa4_plan *[1]")
  local status = C.fa4_plan_create(native.context(), request, made, failure)
  if status == C.FA4_UNSUPPORTED then return nil, native.message() end
  native.check(status)
  return ffi.gc(made[0], C.fa4_plan_destroy)
end

--- The same plan with its tasks in another order.
-- @tparam cdata plan fa4_plan *
-- @tparam cdata order int64_t[n]
-- @tparam ?cdata workers int32_t[n]
-- @treturn cdata fa4_plan *
function native.reorder(plan, order, workers)
  local made = ffi.new("fa4_plan *[1]")
  native.check(C.fa4_plan_reorder(plan, order, workers, made, failure))
  return ffi.gc(made[0], C.fa4_plan_destroy)
end

--- The reference of a request, destroyed when nothing refers to it any more.
-- @tparam cdata request fa4_request
-- @tparam cdata tensors fa4_tensors with q, k and v
-- @treturn cdata fa4_validator *
function native.validator(request, tensors)
  local made = ffi.new("fa4_validator *[1]")
  native.check(C.fa4_validator_create(native.context(), request, tensors, made, failure))
  return ffi.gc(made[0], C.fa4_validator_destroy)
end

--- A file, closed when nothing refers to it any more.
-- @tparam string path where it is
-- @tparam boolean map map it privately instead of reading it
-- @treturn cdata fa4_file *
function native.file(path, map)
  local made = ffi.new("fa4_file *[1]")
  native.check_file(C.fa4_file_open(native.context(), path, map and 1 or 0, made, failure), path)
  return ffi.gc(made[0], C.fa4_file_close)
end

--- Does nothing: a value passed here is alive until here, which matters when only C has been using it.
-- @param ... anything
function native.keep(...) end -- luacheck: ignore 212

--- True for a null pointer.
-- @tparam cdata pointer any pointer
-- @treturn boolean
function native.is_null(pointer)
  return pointer == nil
end

return native
