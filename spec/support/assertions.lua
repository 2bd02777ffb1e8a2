--- Assertions that report the first difference instead of two tables: busted's `same` takes minutes to print a large one.
local assert = require "luassert"
local fa4 = require "fa4"
local say = require "say"

-- Two tensors, element by element: assert.close(got, want, {atol =, rtol =, equal_nan =}).
local function close(state, arguments)
  local result = fa4.compare(arguments[1], arguments[2], arguments[3])
  state.failure_message = tostring(result)
  return result.pass
end

-- Two tensors of one dtype with the same bits.
local function same_bits(state, arguments)
  local got, want = arguments[1]:contiguous(), arguments[2]:contiguous()
  if got.dtype ~= want.dtype or got.nbytes ~= want.nbytes then
    state.failure_message = ("%s of %d bytes and %s of %d bytes"):format(got.dtype, got.nbytes, want.dtype, want.nbytes)
    return false
  end
  local native = require "fa4.ffi"
  local a, b = native.cast("const uint8_t *", got.data), native.cast("const uint8_t *", want.data)
  for i = 0, got.nbytes - 1 do
    if a[i] ~= b[i] then
      state.failure_message = "bits differ\n" .. tostring(fa4.compare(got, want, {equal_nan = true}))
      return false
    end
  end
  return true
end

-- A number within a tolerance: assert.near_to(got, want, tolerance). Equal infinities pass, NaN never does.
local function near_to(state, arguments)
  local got, want, tolerance = arguments[1], arguments[2], arguments[3]
  state.failure_message = ("got %.17g, expected %.17g within %.3g"):format(got, want, tolerance)
  return got == want or math.abs(got - want) <= tolerance
end

-- A call that raises: assert.raises_text(fn, "part of the message", ...). The parts are plain text; all must be there.
local function raises_text(state, arguments)
  local ok, message = pcall(arguments[1])
  if ok then
    state.failure_message = "expected an error, got none"
    return false
  end
  message = tostring(message)
  for i = 2, arguments.n do
    if not message:find(arguments[i], 1, true) then
      state.failure_message = ("expected an error with %q, got:\n%s"):format(arguments[i], message)
      return false
    end
  end
  return true
end

-- Validation passes: assert.valid(out, q, k, v [, problem]).
local function valid(state, arguments)
  local result = fa4.validate(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5])
  state.failure_message = tostring(result) .. "\n" .. (arguments[1].plan and tostring(arguments[1].plan) or "")
  return result.pass
end

say:set_namespace("en")
say:set("assertion.fa4.negative", "an assertion of spec/support/assertions.lua failed")
for name, fn in pairs{close = close, same_bits = same_bits, near_to = near_to, raises_text = raises_text, valid = valid} do
  assert:register("assertion", name, fn, "assertion.fa4.negative", "assertion.fa4.negative")
end

return assert
