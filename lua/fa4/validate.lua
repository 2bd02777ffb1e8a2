--- Validation: an answer against the reference in double, with tolerances that a naive computation in the inputs' own dtype sets
-- (README, "Validation"); and plain comparison of two tensors. Returns results, prints nothing.
local attention = require "fa4.attention"
local errors = require "fa4.errors"
local native = require "fa4.ffi"
local tensor = require "fa4.tensor"

local validate = {}
local C = native.C
local raise, show = errors.raise, errors.show

local meta = {}

local WORST = {[1] = "o", [2] = "lse"}

local function worst_of(result)
  local kind = WORST[result.worst_kind]
  if not kind then return nil end
  local at = {}
  for i = 0, 3 do at[i] = tonumber(result.worst[i]) end
  local worst = {tensor = kind, batch = at[0], got = result.worst_got, want = result.worst_want}
  if kind == "o" then
    worst.position, worst.head, worst.dim = at[1], at[2], at[3]
  else
    worst.head, worst.position = at[1], at[2]
  end
  return worst
end

local oracle = {}
oracle.__index = oracle

local function on_host(tensors)
  local host = {}
  for name, t in pairs(tensors) do host[name] = tensor.check(t, "validate: " .. name):to{device = "cpu"} end
  return host
end

local function views(host)
  local tensors = native.new("fa4_tensors")
  for name, t in pairs(host) do tensors[name] = t.view end
  return tensors
end

--- The reference of one problem, kept so that many answers can be held to it.
-- @tparam tensor q, k, v the inputs
-- @tparam[opt] table|plan problem a plan, or a config whose problem fields count
-- @treturn oracle `oracle:check(out)` gives what `fa4.validate` gives
-- @raise on a wrong argument
function validate.prepare(q, k, v, problem)
  attention.check_inputs(q, k, v)
  local host = on_host{q = q, k = k, v = v}
  local request = attention.request_of(problem, host.q, host.k, host.v)
  local handle = native.validator(request.cdata, views(host))
  native.keep(request, host)
  return setmetatable({handle = handle, lse = request.cdata.problem.lse == 1,
    cubic = request.cdata.schedule.exp2_emulated_pairs > 0}, oracle)
end

--- Compares an answer with the kept reference.
-- @tparam table out what the operator returned
-- @treturn table as `fa4.validate`
function oracle:check(out)
  if type(out) ~= "table" or not tensor.is(out.o) then
    raise("validate: out: expected what the operator returned, got %s", show(out))
  end
  if self.lse and out.lse == nil then raise("validate: out.lse: expected a tensor; the problem asks for it") end
  local host = on_host{o = out.o, lse = self.lse and out.lse or nil}
  local cubic = self.cubic
  if out.report then cubic = out.report.exp2_polynomial > 0 end
  local result = native.new("fa4_validation")
  native.check(C.fa4_validator_check(self.handle, views(host), cubic and 1 or 0, result, native.err))
  native.keep(host)
  return setmetatable({
    pass = result.pass == 1, o_error = result.o_error, naive_error = result.naive_error, floor = result.floor,
    ratio = result.ratio, bound = result.bound, lse_error = result.lse_error, o_rms_error = result.o_rms_error,
    worst = worst_of(result),
  }, meta)
end

--- Compares an answer with the reference.
-- @tparam table out what the operator returned; `out.o` and `out.lse` may have been edited, and `out.lse` must be there when the problem
-- asks for it
-- @tparam tensor q, k, v the inputs
-- @tparam[opt=out.plan] table|plan problem a plan, or a config whose problem fields count
-- @treturn table `pass`, `o_error`, `naive_error`, `floor`, `ratio` (<= 1 passes; not asked of an O that is f32), `bound` (<= 1
-- passes), `lse_error` (<= 1e-4 passes), `o_rms_error`, `worst` (`tensor`, coordinates from 0, `got`, `want`); print it to see the figures
-- @raise on a wrong argument
function validate.check(out, q, k, v, problem)
  if type(out) ~= "table" or not tensor.is(out.o) then
    raise("validate: out: expected what the operator returned, got %s", show(out))
  end
  if problem == nil then problem = out.plan end
  return validate.prepare(q, k, v, problem):check(out)
end

function meta.__tostring(r)
  local lines = {
    ("%s: largest error of O %.3g, naive %.3g + floor %.3g, ratio %.3g"):format(r.pass and "PASS" or "FAIL",
      r.o_error, r.naive_error, r.floor, r.ratio),
    ("  %.3g of its bound; RMS error of O %.3g (relative), LSE error %.3g"):format(r.bound, r.o_rms_error, r.lse_error),
  }
  local w = r.worst
  if w then
    local where = w.tensor == "o" and ("o[batch %d, position %d, head %d, dim %d]"):format(w.batch, w.position, w.head, w.dim)
      or ("lse[batch %d, head %d, position %d]"):format(w.batch, w.head, w.position)
    lines[#lines + 1] = ("  worst: %s\n    got %.9g, expected %.9g"):format(where, w.got, w.want)
  end
  return table.concat(lines, "\n")
end

-- ---- plain comparison ------------------------------------------------------------------------------------------------------

local comparison = {}

function comparison.__tostring(r)
  local text = ("%s: largest difference %.6g, %.0f of %.0f elements differ by more than allowed"):format(
    r.pass and "PASS" or "FAIL", r.difference, r.wrong, r.elements)
  if r.message then return "FAIL: " .. r.message end
  if r.worst then
    text = text .. ("\n  first at (%s): got %.9g, expected %.9g"):format(table.concat(r.worst.index, ", "), r.worst.got, r.worst.want)
  end
  return text
end

local function index_of(flat, shape)
  local index = {}
  for axis = #shape, 1, -1 do
    index[axis] = flat % shape[axis]
    flat = math.floor(flat / shape[axis])
  end
  return index
end

local function close(got, want, opts)
  if got ~= got or want ~= want then return opts.equal_nan and got ~= got and want ~= want end
  if got == want then return true end
  return math.abs(got - want) <= opts.atol + opts.rtol * math.abs(want)
end

local COMPARE_OPTIONS = {"atol", "rtol", "equal_nan"}

--- Compares two tensors element by element: |got - want| <= atol + rtol * |want|. Equal infinities pass; NaN fails, unless both are
-- NaN and `equal_nan` is set.
-- @tparam tensor got any dtype
-- @tparam tensor want the same shape
-- @tparam[opt] table opts `atol` (0), `rtol` (0), `equal_nan` (false)
-- @treturn table `pass`, `difference` (the largest; NaN when one is), `wrong`, `elements`, `worst` (the first one: `index` from 0,
-- `got`, `want`)
-- @raise on a wrong argument; a different shape is a failed result with a `message`
function validate.compare(got, want, opts)
  tensor.check(got, "compare: got")
  tensor.check(want, "compare: want")
  opts = opts or {}
  for key in pairs(opts) do
    local known = false
    for _, option in ipairs(COMPARE_OPTIONS) do known = known or option == key end
    if not known then raise("compare: %s", errors.unknown("unknown option", tostring(key), COMPARE_OPTIONS)) end
  end
  local limits = {atol = opts.atol or 0, rtol = opts.rtol or 0, equal_nan = opts.equal_nan}
  if tensor.shape_text(got.shape) ~= tensor.shape_text(want.shape) then
    local message = ("shape %s, expected %s"):format(tensor.shape_text(got.shape), tensor.shape_text(want.shape))
    return setmetatable({pass = false, message = message, difference = 0 / 0, wrong = 0, elements = 0}, comparison)
  end
  local a = got:to{device = "cpu", dtype = "f64"}:contiguous()
  local b = want:to{device = "cpu", dtype = "f64"}:contiguous()
  local count, result = a.nbytes / 8, {pass = true, difference = 0, wrong = 0}
  local x, y = a.data, b.data
  for i = 0, count - 1 do
    local difference = math.abs(x[i] - y[i])
    if x[i] == y[i] then difference = 0 end
    if difference > result.difference or difference ~= difference then result.difference = difference end
    if not close(x[i], y[i], limits) then
      result.wrong = result.wrong + 1
      if result.pass then result.worst = {index = index_of(i, got.shape), got = x[i], want = y[i]} end
      result.pass = false
    end
  end
  result.elements = count
  native.keep(a, b) -- x and y point into them.
  return setmetatable(result, comparison)
end

return validate
