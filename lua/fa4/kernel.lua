--- The GPU kernel behind a plan, as text to read.
local errors = require "fa4.errors"
local native = require "fa4.ffi"
local plan = require "fa4.plan"
local emu = require "fa4.emu"
local tensor = require "fa4.tensor"

local kernel = {}
local C = native.C
local raise, show = errors.raise, errors.show

local KINDS = {cuda = true, ptx = true, sass = true, tables = true}

--- The kernel that a plan runs. PTX comes from the library's catalogue, from the cache, or is compiled now.
-- @tparam plan p a plan for "cuda" or "emu"
-- @tparam[opt="cuda"] string kind "cuda" (the source files, after the options), "ptx", "sass" (needs nvdisasm), or "tables"
-- (roles, memories, barriers)
-- @treturn ?string the text; nil when it cannot be had
-- @treturn ?string what is missing
-- @raise on a wrong argument
function kernel.source(p, kind)
  kind = kind or "cuda"
  if not plan.is(p) then raise("source: expected a plan, got %s", show(p)) end
  if not KINDS[kind] then raise("source: kind: expected \"cuda\", \"ptx\", \"sass\" or \"tables\", got %s", show(kind)) end
  local text, length = native.new("char *[1]"), native.new("int64_t[1]")
  local status = C.fa4_kernel_source(native.context(), p.handle, kind, text, length, native.err)
  native.keep(p)
  if status ~= 0 then return nil, native.message() end
  local made = native.string(text[0], tonumber(length[0]))
  C.fa4_text_free(text[0])
  return made
end

-- The module of a plan's kernel and what to launch it with; nil and a message when the kernel cannot be had.
local function prepare(p, t, what)
  if not plan.is(p) then raise("%s: expected a plan, got %s", what, show(p)) end
  local ptx, message = kernel.source(p, "ptx")
  if not ptx then return nil, message end
  local tensors, shape = native.new("fa4_tensors"), native.new("fa4_kernel_shape")
  local memory = {}
  for _, name in ipairs({"q", "k", "v", "o", "lse"}) do
    if t[name] ~= nil then
      if not tensor.is(t[name]) then raise("%s: %s: expected a tensor, got %s", what, name, show(t[name])) end
      tensors[name] = t[name].view
      memory[#memory + 1] = t[name]
    end
  end
  native.check(native.C.fa4_kernel_arguments(p.handle, tensors, nil, nil, shape, native.err))
  local upload = tensor.zeros({math.max(16, tonumber(shape.upload_bytes) / 4)}, {dtype = "i32"})
  local params = native.new("uint8_t[?]", shape.param_bytes)
  native.check(native.C.fa4_kernel_arguments(p.handle, tensors, upload.view.data, params, shape, native.err))
  memory[#memory + 1] = upload
  return emu.load(ptx), {grid = shape.grid, block = shape.block, shared = tonumber(shape.shared_bytes), cta = t.cta, memory = memory,
    independent = shape.independent == 1, threads = t.threads, unchecked = t.unchecked, seed = t.seed, schedule = t.schedule,
    args = {native.string(params, tonumber(shape.param_bytes))}}
end

--- One CTA of a plan's kernel on the emulator, to be stepped and looked into; see `fa4.emu`. The tensors are read and written in place.
-- @tparam plan p a plan for "emu"
-- @tparam table t the tensors `q`, `k`, `v`, `o` and (unless the plan has none) `lse`, and `cta`, its number in the grid (default 0)
-- @treturn ?table a session; nil when the kernel cannot be had
-- @treturn ?string what is missing
-- @raise on wrong tensors
function kernel.debug(p, t)
  local module, launch = prepare(p, t, "debug")
  if not module then return nil, launch end
  return module:debug(launch)
end

--- A plan's whole kernel on the emulator, with the machine's own report (instructions, products, findings) instead of the attention's.
-- @tparam plan p a plan for "emu"
-- @tparam table t tensors as for `debug`; optional: `threads`, `unchecked`, `seed`, `schedule` as `module:launch` of `fa4.emu`
-- @treturn ?table the report; nil when the kernel cannot be had or something was found
-- @treturn ?string what is missing or was found
-- @raise on wrong tensors
function kernel.launch(p, t)
  local module, launch = prepare(p, t, "launch")
  if not module then return nil, launch end
  launch.cta = nil
  return module:launch(launch)
end

return kernel
