--- The operator: checks tensors, makes the plan for their shapes (and keeps it), runs it, and gives back what came out. Everything
-- that a script can get wrong is found here, before anything is written.
local cache = require "fa4.cache"
local config = require "fa4.config"
local errors = require "fa4.errors"
local log = require "fa4.log"
local mask = require "fa4.mask"
local native = require "fa4.ffi"
local page = require "fa4.page"
local plan = require "fa4.plan"
local report = require "fa4.report"
local tensor = require "fa4.tensor"

local attention = {}
local C = native.C
local raise, show = errors.raise, errors.show

local FLOATS = {f16 = true, bf16 = true, f32 = true}
local PLANS_KEPT = 16

-- ---- checks ----------------------------------------------------------------------------------------------------------------

local function check_input(t, name)
  tensor.check(t, name)
  if #t.shape ~= 4 then
    raise("%s: expected rank 4 (batch, seq, heads, dim), got rank %d, shape %s", name, #t.shape, tensor.shape_text(t.shape))
  end
  if not FLOATS[t.dtype] then raise("%s: expected f16, bf16 or f32, got %s", name, t.dtype) end
  for axis, size in ipairs(t.shape) do
    if axis >= 3 and size > 2 ^ 31 - 1 then raise("%s: axis %d: expected below 2^31, got %.0f", name, axis - 1, size) end
  end
  if t.strides[4] ~= 1 and t.shape[4] > 1 then
    raise("%s: expected stride 1 on the last axis, got %.0f; use t:contiguous()", name, t.strides[4])
  end
end

local function expect(name, axis, got, want, why)
  if got ~= want then raise("%s: axis %d: expected %.0f (%s), got %.0f", name, axis, want, why, got) end
end

--- Raises unless q, k and v fit together. For the library's own modules.
-- @tparam tensor q (batch, seqlen_q, heads_q, dim), f16, bf16 or f32, last axis contiguous
-- @tparam tensor k (batch, seqlen_kv, heads_kv, dim), the same dtype
-- @tparam tensor v (batch, seqlen_kv, heads_kv, dim_v), the same dtype
function attention.check_inputs(q, k, v)
  check_input(q, "q")
  check_input(k, "k")
  check_input(v, "v")
  for _, pair in ipairs{{"k", k}, {"v", v}} do
    if pair[2].dtype ~= q.dtype then raise("%s: expected %s as q, got %s", pair[1], q.dtype, pair[2].dtype) end
    if pair[2].device ~= q.device then
      raise("%s: expected it on %s as q, got %s; use t:to{device =}", pair[1], q.device, pair[2].device)
    end
    expect(pair[1], 0, pair[2].shape[1], q.shape[1], "batch of q")
  end
  expect("k", 3, k.shape[4], q.shape[4], "dim of q")
  expect("v", 1, v.shape[2], k.shape[2], "seqlen of k")
  expect("v", 2, v.shape[3], k.shape[3], "heads of k")
  if q.shape[3] < 1 then raise("q: heads: expected at least 1, got 0") end
  if k.shape[3] < 1 then raise("k: heads: expected at least 1, got 0") end
  if q.shape[4] < 1 then raise("q: dim: expected at least 1, got 0") end
  if v.shape[4] < 1 then raise("v: dim: expected at least 1, got 0") end
  if q.shape[3] % k.shape[3] ~= 0 then
    raise("q: heads: %d query heads are not a multiple of %d key heads", q.shape[3], k.shape[3])
  end
end

-- Overlap with an input, another output or itself is found by C, exactly and before anything is written.
local function check_output(t, name, shape, dtypes, device)
  tensor.check(t, name)
  local allowed = false
  for _, dtype in ipairs(dtypes) do allowed = allowed or t.dtype == dtype end
  if not allowed then raise("%s: expected %s, got %s", name, table.concat(dtypes, " or "), t.dtype) end
  if #t.shape ~= #shape then raise("%s: expected shape %s, got %s", name, tensor.shape_text(shape), tensor.shape_text(t.shape)) end
  for axis = 1, #shape do
    if t.shape[axis] ~= shape[axis] then
      raise("%s: expected shape %s, got %s", name, tensor.shape_text(shape), tensor.shape_text(t.shape))
    end
    if t.strides[axis] == 0 and shape[axis] > 1 then
      raise("%s: axis %d has stride 0: its elements would be written over each other", name, axis - 1)
    end
  end
  if t.strides[#shape] ~= 1 and shape[#shape] > 1 then
    raise("%s: expected stride 1 on the last axis, got %.0f", name, t.strides[#shape])
  end
  if t.device ~= device then raise("%s: expected it on %s as q, got %s", name, device, t.device) end
end

local function check_outputs(outputs, problem, q)
  if outputs == nil then return {} end
  if type(outputs) ~= "table" or tensor.is(outputs) then
    raise("outputs: expected a table {o =, lse =}, got %s", tensor.is(outputs) and "a tensor" or show(outputs))
  end
  for key in pairs(outputs) do
    if key ~= "o" and key ~= "lse" then raise("outputs: %s", errors.unknown("unknown output", tostring(key), {"o", "lse"})) end
  end
  if outputs.o ~= nil then
    local dtypes = q.dtype == "f32" and {"f32"} or {q.dtype, "f32"}
    check_output(outputs.o, "o", {problem.batch, problem.seqlen_q, problem.heads_q, problem.dim_v}, dtypes, q.device)
  end
  if outputs.lse ~= nil then
    if not problem.lse then raise("lse: the config says lse = false") end
    check_output(outputs.lse, "lse", {problem.batch, problem.heads_q, problem.seqlen_q}, {"f32"}, q.device)
  end
  return outputs
end

-- ---- running ---------------------------------------------------------------------------------------------------------------

-- Everything about the arguments of a run that is checked here; C checks views, strides and overlaps again at every run.
local function check_run(p, q, k, v, outputs)
  attention.check_inputs(q, k, v)
  local wanted = p.on_gpu and "cuda" or "cpu"
  if q.device:match("^%a+") ~= wanted then
    raise("q: expected it on %s, where the plan runs, got %s; use t:to{device = %q}", p.device, q.device, wanted)
  end
  local h = p.header.problem
  return check_outputs(outputs, {
    batch = tonumber(h.batch), seqlen_q = tonumber(h.seqlen_q), heads_q = h.heads_q, dim_v = h.dim_v, lse = h.lse == 1,
  }, q)
end

local function make_outputs(p, q, outputs)
  local h = p.header.problem
  local batch, seqlen_q = tonumber(h.batch), tonumber(h.seqlen_q)
  local o = outputs.o or tensor.dense({batch, seqlen_q, h.heads_q, h.dim_v}, q.dtype, q.device, batch * seqlen_q * h.heads_q * h.dim_v)
  local lse = outputs.lse
  if h.lse == 1 and not lse then
    lse = tensor.dense({batch, h.heads_q, seqlen_q}, "f32", q.device, batch * h.heads_q * seqlen_q)
  end
  return o, lse
end

local tensors = native.new("fa4_tensors") -- of the running call
local report_type, counters_type = native.typeof("fa4_report"), native.typeof("fa4_counters[?]")

-- Without a report: the GPU's queue takes the work, and nobody waits.
local function run_silent(p)
  local status = C.fa4_run(native.context(), p.handle, tensors, nil, nil, native.err)
  if status == C.FA4_FINDING then return nil, native.message() end
  if status ~= 0 then native.check(status) end
end

local function run_reported(p)
  local happened, per_head = report_type(), counters_type(math.max(1, p.header.heads))
  local status = C.fa4_run(native.context(), p.handle, tensors, happened, per_head, native.err)
  local made = report.new(happened, per_head)
  if p.header.backend ~= C.FA4_BACKEND_CPU then cache.warn_once() end
  if status == C.FA4_FINDING then return nil, native.message(), made end
  if status ~= 0 then native.check(status) end
  if log.shows("info") then
    log.info("attention on %s (%s): %d tiles, %d key blocks, %.0f us", made.device, made.path, made.tiles, made.blocks_visited,
      made.time_us)
  end
  return made
end

-- The run itself, its arguments checked.
local function run_checked(p, q, k, v, outputs, silent)
  local o, lse = make_outputs(p, q, outputs)
  tensors.q, tensors.k, tensors.v, tensors.o = q.view, k.view, v.view, o.view
  if lse then tensors.lse = lse.view end
  local made, message, findings
  if silent then made, message = run_silent(p)
  else made, message, findings = run_reported(p) end
  native.keep(p, q, k, v, o, lse) -- C has been reading and writing their memory until here (or its queue, which outlives them).
  if message then return nil, message, findings end
  return {o = o, lse = lse, report = made, plan = p}
end

--- Runs a plan on tensors. For the library's own modules; see `plan:run`.
-- @tparam plan p
-- @tparam tensor q, k, v
-- @tparam[opt] table outputs
-- @tparam[opt] boolean silent no report
-- @treturn ?table nil when the emulator found a race or a deadlock
-- @treturn ?string what it found
-- @treturn ?table the report
function attention.run_plan(p, q, k, v, outputs, silent)
  return run_checked(p, q, k, v, check_run(p, q, k, v, outputs), silent)
end

-- `device = "auto"` chose a GPU for tensors that lie in host memory: they are copied there, and the results back.
local function run_on_gpu(p, q, k, v, outputs, silent)
  local device = p.device
  local function place(t) return t:to{device = device} end
  outputs = check_outputs(outputs, {batch = q.shape[1], seqlen_q = q.shape[2], heads_q = q.shape[3], dim_v = v.shape[4],
    lse = p.header.problem.lse == 1}, q)
  local there = {o = outputs.o and tensor.empty(outputs.o.shape, {dtype = outputs.o.dtype, device = device})}
  local out, message, happened = attention.run_plan(p, place(q), place(k), place(v), there, silent)
  if not out then return nil, message, happened end
  for _, name in ipairs{"o", "lse"} do
    if out[name] then out[name] = outputs[name] and outputs[name]:copy(out[name]) or out[name]:to{device = "cpu"} end
  end
  return out
end

local methods = {}
local meta = {__index = methods, methods = methods}

local function plan_key(q, k, v)
  return table.concat({q.dtype, q.device, table.concat(q.shape, ","), table.concat(k.shape, ","), v.shape[4]}, "|")
end

local function check_threshold(flat, dtype)
  local threshold = flat["rescale.threshold"]
  if threshold == nil then return end
  if dtype == "f16" and threshold > 15 then
    raise("rescale.threshold: expected 0..15 for f16, got %s: P reaches 2^threshold and f16 holds less than 2^16", show(threshold))
  end
  if flat.row_max == "first_block" and threshold < 7 then
    raise("rescale.threshold: expected at least 7 with row_max = \"first_block\", got %s", show(threshold))
  end
end

-- The plan for these shapes: the kept one, or a new one.
local function plan_for(op, q, k, v)
  attention.check_inputs(q, k, v)
  check_threshold(op.flat, q.dtype)
  local key = plan_key(q, k, v)
  if op.plans[key] then return op.plans[key] end
  local made, message = plan.new(op.flat, plan.problem_of(op.flat, q, k, v))
  if not made then return nil, message end
  if #op.plan_keys == PLANS_KEPT then op.plans[table.remove(op.plan_keys, 1)] = nil end
  log.debug("plan for %s", key)
  op.plans[key] = made
  op.plan_keys[#op.plan_keys + 1] = key
  return made
end

--- The plan for these tensors, without running it. Plans are kept by shape; a mask function is evaluated once per plan.
-- @tparam tensor q (batch, seqlen_q, heads_q, dim), f16, bf16 or f32, last axis contiguous
-- @tparam tensor k (batch, seqlen_kv, heads_kv, dim)
-- @tparam tensor v (batch, seqlen_kv, heads_kv, dim_v)
-- @treturn ?plan nil when the device cannot run it
-- @treturn ?string the reason and the nearest supported value
-- @raise on a wrong argument
function methods:plan(q, k, v)
  return plan_for(self, q, k, v)
end

--- The GPU kernel behind the plan for these tensors, or behind the latest plan when there are none: `op:source "ptx"`.
-- @tparam[opt="cuda"] string kind "cuda" (source files and options), "ptx", or "sass" (needs nvdisasm)
-- @tparam[opt] tensor q, k, v
-- @treturn ?string the text; nil when it cannot be had
-- @treturn ?string what is missing
-- @raise on a wrong argument, and when there is no plan yet
function methods:source(kind, q, k, v)
  local p = self.plans[self.plan_keys[#self.plan_keys]]
  if q ~= nil then
    local message
    p, message = plan_for(self, q, k, v)
    if not p then return nil, message end
  elseif not p then
    raise("source: no plan was made yet: give q, k and v, or call op:plan(q, k, v) first")
  end
  return p:kernel(kind)
end

local NONE = {}

-- A call with the very tensors of the call before needs no second check of what cannot have changed: their shapes and types. What
-- can, whether their memory is still there, is asked.
local function is_last(last, q, k, v, outputs)
  if q ~= last.q or k ~= last.k or v ~= last.v or not last.plan then return false end
  if outputs ~= nil then
    if type(outputs) ~= "table" or tensor.is(outputs) then return false end
    for key, value in pairs(outputs) do
      if last[key] ~= value or (key ~= "o" and key ~= "lse") then return false end
      tensor.check(value, key)
    end
  end
  tensor.check(q, "q")
  tensor.check(k, "k")
  tensor.check(v, "v")
  return true
end

--- Computes attention: `out = op(q, k, v [, {o =, lse =}])`. Where `device = "auto"` chose a GPU, tensors in host memory are copied to
-- it and the results back; with `device = "cuda"` they must be there: `t:to{device = "cuda"}`.
-- @tparam tensor q (batch, seqlen_q, heads_q, dim), f16, bf16 or f32, last axis contiguous
-- @tparam tensor k (batch, seqlen_kv, heads_kv, dim), heads_q a multiple of heads_kv
-- @tparam tensor v (batch, seqlen_kv, heads_kv, dim_v)
-- @tparam[opt] table outputs `o` (batch, seqlen_q, heads_q, dim_v), the dtype of q, or f32 for 16-bit inputs (then O is not rounded);
-- `lse` (batch, heads_q, seqlen_q), f32
-- @treturn ?table `o`, `lse` and `report` (each nil when the config says false), `plan`; nil when the emulator found a race or a deadlock
-- @treturn ?string what it found
-- @treturn ?table the report of that run
-- @raise on a wrong argument, before anything is written, and when the device cannot run the plan
function meta.__call(self, q, k, v, outputs)
  local last = self.last
  if is_last(last, q, k, v, outputs) then return run_checked(last.plan, q, k, v, outputs or NONE, self.flat.report == false) end
  local p, message = plan_for(self, q, k, v)
  if not p then raise("%s", message) end
  if self.flat.device == "auto" and q.device == "cpu" and p.on_gpu then
    return run_on_gpu(p, q, k, v, outputs, self.flat.report == false)
  end
  outputs = check_run(p, q, k, v, outputs)
  last.plan, last.q, last.k, last.v, last.o, last.lse = p, q, k, v, outputs.o, outputs.lse
  return run_checked(p, q, k, v, outputs, self.flat.report == false)
end

function meta.__tostring(self)
  local lines = {"attention operator"}
  for _, field in ipairs(config.fields) do
    local value = self.flat[field.name]
    if value ~= nil and value ~= field.default then
      lines[#lines + 1] = page.wrap(("%s = %s"):format(field.name, tostring(value)), "  ", 4)
    end
  end
  return table.concat(lines, "\n")
end

--- Whether a device can be used: the asking form, which does not raise for an absent one.
-- @tparam string name "cpu", "cuda", "cuda:N", "emu", "emu:sm_100a", "emu:sm_90a", "auto"
-- @treturn ?string the name; nil when it cannot be used
-- @treturn ?string what is missing
-- @raise when name is no string
function attention.device(name)
  if type(name) ~= "string" or name:find("\0", 1, true) then raise("device: expected a name such as \"cpu\", got %s", show(name)) end
  local status = C.fa4_device_check(native.context(), name, native.err)
  if status ~= 0 then return nil, native.message() end
  return name
end

--- An attention operator. The config is checked against the schema (`print(fa4.config)`) and the device is looked for.
-- @tparam[opt] table given the fields of `fa4.config`; each has a default that a specialist would choose
-- @treturn operator call it with q, k, v
-- @raise on a wrong field; on an unknown or absent device an error object with `.kind = "device"`
function attention.new(given)
  local flat = config.check(given)
  local name, message = attention.device(flat.device)
  if not name then errors.raise_object("device", message) end
  flat.mask = flat.mask or mask.full()
  -- The last call's plan and tensors, which stay free to be collected.
  local last = setmetatable({}, {__mode = "v"})
  return setmetatable({flat = flat, plans = {}, plan_keys = {}, last = last}, meta)
end

--- The answer by plain loops in double precision, sharing no code with any device.
-- @tparam tensor q, k, v as for the operator, on the CPU
-- @tparam[opt] table|plan problem a config (its problem fields count: mask, scale, soft_cap, lse) or a plan
-- @treturn table `o` (batch, seqlen_q, heads_q, dim_v) and `lse` (batch, heads_q, seqlen_q; nil when the config says false), f64
-- @raise on a wrong argument
function attention.reference(q, k, v, problem)
  attention.check_inputs(q, k, v)
  local request = attention.request_of(problem, q, k, v)
  local p = request.cdata.problem
  local o = tensor.empty({q.shape[1], q.shape[2], q.shape[3], v.shape[4]}, {dtype = "f64"})
  local lse = p.lse == 1 and tensor.empty({q.shape[1], q.shape[3], q.shape[2]}, {dtype = "f64"}) or nil
  local given = native.new("fa4_tensors")
  given.q, given.k, given.v, given.o = q.view, k.view, v.view, o.view
  if lse then given.lse = lse.view end
  native.check(C.fa4_reference(native.context(), request.cdata, given, native.err))
  native.keep(request, q, k, v, o, lse)
  return {o = o, lse = lse}
end

--- A request for the reference or validation. For the library's own modules.
-- @tparam ?table|plan problem a config, a plan, or nil
-- @tparam tensor q, k, v checked
-- @treturn table see `plan.request`
function attention.request_of(problem, q, k, v)
  if plan.is(problem) then return plan.request_again(problem) end
  if problem ~= nil and type(problem) ~= "table" then
    raise("problem: expected a plan or a config such as {mask = fa4.mask.causal()}, got %s", show(problem))
  end
  local flat = config.check(problem)
  flat.device = "cpu"
  return plan.request(flat, plan.problem_of(flat, q, k, v))
end

return attention
