--- The GPU kernel behind a plan, as text to read.
local errors = require "fa4.errors"
local native = require "fa4.ffi"
local plan = require "fa4.plan"

local kernel = {}
local C = native.C
local raise, show = errors.raise, errors.show

local KINDS = {cuda = true, ptx = true, sass = true}

--- The kernel that a plan runs. PTX comes from the library's catalogue, from the cache, or is compiled now.
-- @tparam plan p a plan for "cuda" or "emu"
-- @tparam[opt="cuda"] string kind "cuda" (the source files, after the options), "ptx", or "sass" (needs nvdisasm)
-- @treturn ?string the text; nil when it cannot be had
-- @treturn ?string what is missing
-- @raise on a wrong argument
function kernel.source(p, kind)
  kind = kind or "cuda"
  if not plan.is(p) then raise("source: expected a plan, got %s", show(p)) end
  if not KINDS[kind] then raise("source: kind: expected \"cuda\", \"ptx\" or \"sass\", got %s", show(kind)) end
  local text, length = native.new("char *[1]"), native.new("int64_t[1]")
  local status = C.fa4_kernel_source(native.context(), p.handle, kind, text, length, native.err)
  native.keep(p)
  if status ~= 0 then return nil, native.message() end
  local made = native.string(text[0], tonumber(length[0]))
  C.fa4_text_free(text[0])
  return made
end

return kernel
