--- The emulator by itself: any PTX kernel loaded, launched on tensors in host memory, stepped and looked into. Nothing here knows
-- attention.
--
--     local k = fa4.emu.load("add.ptx")
--     local report = k:launch{grid = {4}, block = {128}, args = {x, y, z, 512}}
--     local s = k:debug{grid = {4}, block = {128}, args = {x, y, z, 512}}
--     s:run{stop = "mbarrier.try_wait"}; print(s); print(s:barriers())
local errors = require "fa4.errors"
local native = require "fa4.ffi"
local page = require "fa4.page"
local tensor = require "fa4.tensor"

local emu = {}
local C = native.C
local raise, show = errors.raise, errors.show

local SCHEDULES = {round_robin = 0, random = 1, starve = 2}
local STATES = {[0] = "ready", "waits", "waits for lanes of its warp", "at a named barrier"}
local STOPS = {[0] = "steps", "breakpoint", "waiting", "end", "finding"}
local SEVERITIES = {[0] = "note", "review", "error"}
local FINDINGS_MAX, FRAGMENTS_MAX, BARRIERS_MAX = 64, 1024, 512
local LAUNCH_FIELDS = {memory = true, entry = true,
  grid = true, block = true, shared = true, args = true, seed = true, schedule = true, ctas = true,
  max_instructions = true, sms = true, threads = true, unchecked = true, independent = true, cta = true, cluster = true}

local module = {}
module.__index = module
local session = {}
session.__index = session
local map_meta = {}

-- ---- arguments -------------------------------------------------------------------------------------------------------------

local function whole(value, name, low, high)
  return errors.whole(name, value, low, high)
end

-- {x}, {x, y, z} or a number -> three numbers in a cdata array.
local function dimensions(value, name, into)
  if type(value) == "number" then value = {value} end
  if type(value) ~= "table" or #value < 1 or #value > 3 then raise("%s: expected one to three whole numbers, got %s", name, show(value)) end
  for i = 1, 3 do into[i - 1] = whole(value[i] or 1, name, 1, 2 ^ 31 - 1) end
end

local function storage_of(t)
  return native.cast("char *", C.fa4_storage_data(t.storage)), tonumber(C.fa4_storage_bytes(t.storage))
end

-- Whole storages, each once: the memory that a kernel may touch.
local function add_region(list, t)
  if t.device ~= "cpu" then raise("args: the tensor is on %s; copy it with t:to{device = \"cpu\"}", t.device) end
  local data, bytes = storage_of(t)
  for _, region in ipairs(list) do
    if region.data == data then return end
  end
  list[#list + 1] = {data = data, bytes = bytes, name = "argument " .. list.argument}
end

local INTEGERS = {u8 = 2 ^ 8, s8 = 2 ^ 8, b8 = 2 ^ 8, u16 = 2 ^ 16, s16 = 2 ^ 16, b16 = 2 ^ 16, u32 = 2 ^ 32, s32 = 2 ^ 32, b32 = 2 ^ 32,
  u64 = 2 ^ 53, s64 = 2 ^ 53, b64 = 2 ^ 53}
local FLOAT_POINTERS = {f32 = "float *", f64 = "double *"}

local function put_number(at, param, value, name)
  if FLOAT_POINTERS[param.type] then
    native.cast(FLOAT_POINTERS[param.type], at)[0] = value
    return
  end
  local limit = INTEGERS[param.type]
  if not limit or param.bytes > 8 then raise("%s: a number cannot become %d bytes of %s", name, param.bytes, param.type) end
  if value ~= math.floor(value) or value >= limit or value < -limit / 2 then
    raise("%s: expected a whole number that fits %s, got %s", name, param.type, show(value))
  end
  native.copy(at, native.new("int64_t[1]", value), param.bytes)
end

local function put(block, param, value, index, regions)
  local name = ("args[%d] (%s)"):format(index, param.name)
  local at = block + param.offset
  regions.argument = index
  if tensor.is(value) then
    if param.bytes ~= 8 then raise("%s: a tensor's address has 8 bytes, the parameter has %d", name, param.bytes) end
    add_region(regions, value)
    native.cast("uint64_t *", at)[0] = native.cast("uintptr_t", value.view.data)
  elseif getmetatable(value) == map_meta then
    if param.bytes ~= 128 then raise("%s: a tensor map has 128 bytes, the parameter has %d", name, param.bytes) end
    add_region(regions, value.tensor)
    native.copy(at, value.object, 128)
  elseif type(value) == "string" then
    if #value ~= param.bytes then raise("%s: expected %d bytes, got %d", name, param.bytes, #value) end
    native.copy(at, value, #value)
  elseif type(value) == "number" then
    put_number(at, param, value, name)
  else
    raise("%s: expected a tensor, a number, a tensor map or bytes, got %s", name, show(value))
  end
end

-- ---- tensor maps -----------------------------------------------------------------------------------------------------------

local DTYPES = {f16 = 0, bf16 = 1, f32 = 2, f64 = 3, i32 = 4}
local BYTES = {f16 = 2, bf16 = 2, f32 = 4, f64 = 8, i32 = 4}

--- A tensor map: how a bulk tensor copy walks a tensor. Lists are innermost first, as in PTX.
-- @tparam table t `tensor`, `box` (elements a copy moves), `swizzle` (0, 32, 64 or 128 bytes; default 0); `dims` and `strides` (bytes of
-- dimensions 1 and up, entry 1 is ignored) default to those of the tensor
-- @treturn table the map, to be given as an argument
-- @raise on what the hardware does not take, naming the field
function emu.tensormap(t)
  if type(t) ~= "table" or not tensor.is(t.tensor) then raise("tensormap: expected {tensor =, box =, swizzle =}, got %s", show(t)) end
  if type(t.box) ~= "table" then raise("tensormap: box: expected a list, innermost first, got %s", show(t.box)) end
  local source, rank = t.tensor, #t.box
  local map = native.new("fa4_emu_tensormap")
  local size = BYTES[source.dtype]
  map.address, map.dtype, map.rank, map.swizzle = source.view.data, DTYPES[source.dtype], rank, t.swizzle or 0
  if not t.dims and rank ~= #source.shape then raise("tensormap: box: expected %d numbers, got %d", #source.shape, rank) end
  for i = 1, math.min(rank, 5) do
    local axis = #source.shape + 1 - i
    map.dims[i - 1] = t.dims and t.dims[i] or source.shape[axis]
    map.strides[i - 1] = t.strides and t.strides[i] or (t.dims and 0 or source.strides[axis] * size)
    map.box[i - 1] = whole(t.box[i], "tensormap: box", 1, 256)
  end
  local object = native.new("uint8_t[128]")
  native.check(C.fa4_emu_tensormap_encode(map, object, native.err))
  return setmetatable({tensor = source, object = object}, map_meta)
end

-- ---- modules ---------------------------------------------------------------------------------------------------------------

local function read_entries(self)
  local entry, param = native.new("fa4_emu_entry"), native.new("fa4_emu_param")
  self.entries = {}
  for i = 0, C.fa4_emu_entry_count(self.handle) - 1 do
    native.check(C.fa4_emu_entry_get(self.handle, i, entry, native.err))
    local made = {name = native.string(entry.name), instructions = entry.instructions, shared_bytes = tonumber(entry.shared_bytes),
      param_bytes = tonumber(entry.param_bytes), threads_max = entry.threads_max, index = i, params = {}}
    for j = 0, entry.params - 1 do
      native.check(C.fa4_emu_param_get(self.handle, i, j, param, native.err))
      made.params[j + 1] = {name = native.string(param.name), type = native.string(param.type), offset = tonumber(param.offset),
        bytes = tonumber(param.bytes), align = tonumber(param.align)}
    end
    self.entries[i + 1] = made
  end
end

--- Loads PTX.
-- @tparam string source a path, or PTX text (anything with a line end)
-- @treturn table a module: `entries` (name, params, shared_bytes, ...), `:launch`, `:debug`, `:disassemble`
-- @raise when the text is not PTX, or has an instruction that the machine does not execute: each such line is named
function emu.load(source)
  if type(source) ~= "string" then raise("load: expected a path or PTX text, got %s", show(source)) end
  local text = source
  if not source:find("\n", 1, true) then
    local file, why = io.open(source, "rb")
    if not file then raise("load: %s", why) end
    text = file:read("*a")
    file:close()
  end
  local made = native.new("fa4_emu_module *[1]")
  native.check(C.fa4_emu_load(native.context(), text, #text, made, native.err))
  local self = setmetatable({handle = native.gc(made[0], C.fa4_emu_close)}, module)
  read_entries(self)
  return self
end

local function entry_of(self, name)
  if name == nil and #self.entries == 1 then return self.entries[1] end
  local names = {}
  for _, entry in ipairs(self.entries) do
    if entry.name == name then return entry end
    names[#names + 1] = entry.name
  end
  raise("entry: expected one of %s, got %s", table.concat(names, ", "), show(name))
end

-- The C launch and everything that must stay alive as long as it is used.
local function build(self, t)
  if type(t) ~= "table" then raise("launch: expected a table, got %s", show(t)) end
  for key in pairs(t) do
    if not LAUNCH_FIELDS[key] then raise("launch: %s: unknown field", show(key)) end
  end
  local entry = entry_of(self, t.entry)
  local args = t.args or {}
  if #args ~= #entry.params then raise("args: %s takes %d, got %d", entry.name, #entry.params, #args) end
  local launch, regions = native.new("fa4_emu_launch"), {argument = 0}
  local block = native.new("uint8_t[?]", entry.param_bytes + 128)
  for i, param in ipairs(entry.params) do put(block, param, args[i], i, regions) end
  for i, t_i in ipairs(t.memory or {}) do
    if not tensor.is(t_i) then raise("memory[%d]: expected a tensor, got %s", i, show(t_i)) end
    add_region(regions, t_i)
  end
  dimensions(t.grid, "grid", launch.grid)
  dimensions(t.block, "block", launch.block)
  if t.cluster then dimensions(t.cluster, "cluster", launch.cluster) end
  local schedule = SCHEDULES[t.schedule or "round_robin"]
  if not schedule then raise("schedule: expected \"round_robin\", \"random\" or \"starve\", got %s", show(t.schedule)) end
  launch.entry, launch.schedule, launch.seed = entry.index, schedule, whole(t.seed or 0, "seed", 0, 2 ^ 53)
  launch.shared_bytes = whole(t.shared or 0, "shared", 0, 2 ^ 31)
  launch.params, launch.param_bytes = block, entry.param_bytes
  launch.sms, launch.threads = whole(t.sms or 0, "sms", 0, 1024), whole(t.threads or 0, "threads", 0, 4096)
  launch.max_instructions, launch.unchecked = whole(t.max_instructions or 0, "max_instructions", 0, 2 ^ 53), t.unchecked and 1 or 0
  launch.independent = t.independent and 1 or 0
  if t.ctas then launch.cta_first, launch.cta_count = whole(t.ctas[1], "ctas", 0, 2 ^ 53), whole(t.ctas[2], "ctas", 1, 2 ^ 53) end
  local list, names = native.new("fa4_emu_region[?]", math.max(#regions, 1)), {}
  for i, region in ipairs(regions) do
    names[i] = native.new("char[?]", #region.name + 1, region.name)
    list[i - 1].data, list[i - 1].bytes, list[i - 1].name = region.data, region.bytes, names[i]
  end
  launch.regions, launch.region_count = list, #regions
  return launch, {block, list, names, args, self, t.memory}
end

local function findings_of(list, count)
  local findings = {}
  for i = 0, count - 1 do
    local f = list[i]
    findings[i + 1] = {kind = native.string(C.fa4_emu_kind_name(f.kind)), severity = SEVERITIES[f.severity],
      cta = {f.cta[0], f.cta[1], f.cta[2]},
      warp = f.warp >= 0 and f.warp or nil, lane = f.lane >= 0 and f.lane or nil, line = f.line > 0 and f.line or nil,
      source_line = f.source_line > 0 and f.source_line or nil, count = f.count, text = native.string(f.text)}
  end
  return findings
end

local function report_of(r, findings)
  local report = {instructions = tonumber(r.instructions), lanes = tonumber(r.lanes), mmas = tonumber(r.mmas), ctas = tonumber(r.ctas),
    bytes_loaded = tonumber(r.bytes_loaded), bytes_stored = tonumber(r.bytes_stored), time_us = r.time_us, threads = r.threads,
    mma_flops = tonumber(r.mma_flops), mma_us = r.mma_us,
    classes = {}, warps = {}, findings = findings}
  for i = 0, 7 do report.classes[native.string(C.fa4_emu_class_name(i))] = tonumber(r.per_class[i]) end
  for i = 0, 31 do
    if r.per_warp[i] > 0 then report.warps[i] = tonumber(r.per_warp[i]) end
  end
  return report
end

--- Runs an entry over a grid. Tensors are read and written in place.
-- @tparam table t `grid`, `block` (one to three numbers), `args` (tensors, numbers, tensor maps, byte strings, in order); optional: `entry`
-- (when there are several), `memory` (tensors that the kernel reaches by addresses in its
-- arguments), `cluster` (CTAs that start together, one to three numbers), `shared` (dynamic bytes), `schedule` ("round_robin", "random",
-- "starve"), `seed`, `ctas` ({first, count}), `max_instructions` of one CTA, `sms`, `threads`, `unchecked`, `independent` (no CTA waits for
-- another through global memory, though the kernel could: then an instruction that could is an error, and CTAs run on several threads)
-- @treturn ?table the report: instructions by class and warp, mmas, bytes, time_us, mma_flops and mma_us of the matrix units, findings;
-- nil when an error was found
-- @treturn ?string what was found
-- @treturn ?table the report all the same
-- @raise on wrong arguments
function module:launch(t)
  local launch, alive = build(self, t)
  local r, list = native.new("fa4_emu_report"), native.new("fa4_emu_finding[?]", FINDINGS_MAX)
  local status = C.fa4_emu_run(self.handle, launch, r, list, FINDINGS_MAX, native.err)
  native.keep(alive)
  if status ~= C.FA4_FINDING then native.check(status) end
  local report = report_of(r, findings_of(list, math.min(r.findings, FINDINGS_MAX)))
  if status == C.FA4_FINDING then return nil, native.message(), report end
  return report
end

local function text_of(call, ...)
  local text = native.new("char *[1]")
  local arguments = {...}
  arguments[#arguments + 1] = text
  arguments[#arguments + 1] = native.err
  native.check(call(unpack(arguments)))
  local made = native.string(text[0])
  C.fa4_text_free(text[0])
  return made
end

--- The program as text.
-- @tparam[opt] string entry one entry with instruction numbers, as breakpoints use them; none: the whole module
-- @treturn string PTX
function module:disassemble(entry)
  return text_of(C.fa4_emu_disassemble, self.handle, entry and entry_of(self, entry).index or -1)
end

function module:__tostring()
  local lines = {}
  for _, entry in ipairs(self.entries) do
    local params = {}
    for i, p in ipairs(entry.params) do
      params[i] = p.bytes > 8 and ("%s[%d] %s"):format(p.type, p.bytes, p.name) or p.type .. " " .. p.name
    end
    lines[#lines + 1] = ("%s(%s): %d instructions"):format(entry.name, table.concat(params, ", "), entry.instructions)
  end
  return table.concat(lines, "\n")
end

-- ---- sessions --------------------------------------------------------------------------------------------------------------

--- One CTA to be stepped by hand.
-- @tparam table t as for `launch`, and `cta` (its number in the grid, default 0)
-- @treturn table a session: `:step`, `:run`, `:where`, `:register`, `:shared`, `:tmem`, `:barriers`, `:findings`
function module:debug(t)
  local launch, alive = build(self, t)
  local made = native.new("fa4_emu_session *[1]")
  native.check(C.fa4_emu_session_open(self.handle, launch, whole(t.cta or 0, "cta", 0, 2 ^ 53), made, native.err))
  return setmetatable({handle = native.gc(made[0], C.fa4_emu_session_close), module = self, entry = entry_of(self, t.entry),
    alive = alive, launch = launch,
    breakpoints = {}}, session)
end

local function advance(self, warp, steps)
  local list = native.new("int32_t[?]", math.max(#self.breakpoints, 1))
  for i, at in ipairs(self.breakpoints) do list[i - 1] = at end
  local done = native.new("int32_t[1]")
  native.check(C.fa4_emu_session_step(self.handle, warp, steps, list, #self.breakpoints, done, native.err))
  return STOPS[done[0]]
end

--- Executes warp instructions.
-- @tparam[opt=1] int n how many
-- @tparam[opt] int warp only this warp; none: the warps in turn
-- @treturn string why it stopped: "steps", "breakpoint", "waiting" (that warp can only wait), "end" or "finding"
function session:step(n, warp)
  return advance(self, warp or -1, whole(n or 1, "step", 1, 2 ^ 53))
end

--- Sets breakpoints: instruction numbers, or a plain text that the instruction contains.
-- @tparam number|string what an instruction number of `disassemble(entry)`, or a part of instructions' texts
-- @treturn int how many there are now
function session:stop_at(what)
  if type(what) == "number" then
    self.breakpoints[#self.breakpoints + 1] = whole(what, "stop_at", 0, self.entry.instructions - 1)
  else
    for number, text in self.module:disassemble(self.entry.name):gmatch("\n?%s*(%d+)  ([^\n]*)") do
      if text:find(what, 1, true) then self.breakpoints[#self.breakpoints + 1] = tonumber(number) end
    end
    if #self.breakpoints == 0 then raise("stop_at: no instruction of %s contains %s", self.entry.name, show(what)) end
  end
  return #self.breakpoints
end

--- Runs to the next breakpoint, the end or a finding.
-- @tparam[opt] table t `stop` (as `stop_at`, replacing the breakpoints), `warp`, `steps` (at most)
-- @treturn string as `step`
function session:run(t)
  t = t or {}
  if t.stop then
    self.breakpoints = {}
    self:stop_at(t.stop)
  end
  return advance(self, t.warp or -1, t.steps or 2 ^ 40)
end

--- Where every warp stands.
-- @treturn table a list of {warp, instruction, line, text, lanes, state}
function session:where()
  local list, count = native.new("fa4_emu_fragment[?]", FRAGMENTS_MAX), native.new("int32_t[1]")
  native.check(C.fa4_emu_session_where(self.handle, list, FRAGMENTS_MAX, count, native.err))
  local places = {}
  for i = 0, math.min(count[0], FRAGMENTS_MAX) - 1 do
    local f = list[i]
    places[i + 1] = {warp = f.warp, instruction = f.instruction, line = f.line, text = native.string(f.text), lanes = f.lanes,
      state = STATES[f.state]}
  end
  return places
end

--- A register in the 32 lanes of a warp.
-- @tparam string name such as "%r12" or "%p1"
-- @tparam[opt=0] int warp its warp
-- @treturn ?table values, from index 0: numbers (bits), of which those above 2^53 are rounded; nil where the register holds none: it is not
-- written yet, or no longer needed (others may have its place)
-- @treturn ?string why not
-- @raise when the warp has no such register
function session:register(name, warp)
  local values, bits = native.new("uint64_t[32]"), native.new("int32_t[1]")
  local status = C.fa4_emu_session_register(self.handle, warp or 0, tostring(name), values, bits, native.err)
  if status == C.FA4_UNSUPPORTED then return nil, native.message() end
  native.check(status)
  local list = {bits = bits[0]}
  for lane = 0, 31 do list[lane] = tonumber(values[lane]) end
  return list
end

--- Bytes of dynamic shared memory.
-- @tparam int offset first byte
-- @tparam int bytes how many
-- @treturn string the bytes
-- @treturn int how many of them have been written
function session:shared(offset, bytes)
  local out, written = native.new("uint8_t[?]", math.max(bytes, 1)), native.new("uint8_t[?]", math.max(bytes, 1))
  native.check(C.fa4_emu_session_shared(self.handle, offset, bytes, out, written, native.err))
  local count = 0
  for i = 0, bytes - 1 do count = count + written[i] end
  return native.string(out, bytes), count
end

--- A column of tensor memory.
-- @tparam int column 0..511
-- @treturn table the words of lanes 0..127, from index 0
function session:tmem(column)
  local values = native.new("uint32_t[128]")
  native.check(C.fa4_emu_session_tmem(self.handle, column, values, native.err))
  local list = {}
  for lane = 0, 127 do list[lane] = values[lane] end
  return list
end

--- Live mbarriers, and named barriers at which somebody waits.
-- @treturn table a list of {offset or id, phase, pending, expected, tx}
function session:barriers()
  local list, count = native.new("fa4_emu_barrier[?]", BARRIERS_MAX), native.new("int32_t[1]")
  native.check(C.fa4_emu_session_barriers(self.handle, list, BARRIERS_MAX, count, native.err))
  local barriers = {}
  for i = 0, math.min(count[0], BARRIERS_MAX) - 1 do
    local b = list[i]
    local at = tonumber(b.offset)
    barriers[i + 1] = b.named == 1 and {id = at, pending = b.pending, expected = b.expected}
      or {offset = at, phase = b.phase, pending = b.pending, expected = b.expected, tx = tonumber(b.tx)}
  end
  return barriers
end

--- What was found so far.
-- @treturn table a list, as in a report
function session:findings()
  local list, count = native.new("fa4_emu_finding[?]", FINDINGS_MAX), native.new("int32_t[1]")
  native.check(C.fa4_emu_session_findings(self.handle, list, FINDINGS_MAX, count, native.err))
  return findings_of(list, math.min(count[0], FINDINGS_MAX))
end

function session:__tostring()
  local lines = {}
  for i, f in ipairs(self:where()) do
    local place = ("warp %2d  lanes %08x  %5d  line %-5d %s  "):format(f.warp, f.lanes, f.instruction, f.line, f.state)
    lines[i] = page.wrap(f.text, place, 8)
  end
  return #lines > 0 and table.concat(lines, "\n") or "(the CTA has ended)"
end

return emu
