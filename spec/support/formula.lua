--- Inputs that follow from formulas: the G of the known answers, constant rows, and unit vectors.
local fa4 = require "fa4"

local formula = {}

local M = 94906249

--- G(s, i): 256 values in [-1, 1), exact in f16 and bf16.
function formula.g(s, i)
  local x = (i * 7919 + s * 104729 + 1) % M
  x = x * x % M
  x = (x + 7 * s + 3) % M
  x = x * x % M
  return (math.floor(x / 64) % 256 - 128) / 128
end

--- A tensor whose flat element i is factor * G(s, i).
function formula.tensor(s, shape, factor, dtype)
  local t = fa4.empty(shape, {dtype = "f64"})
  local count = t.nbytes / 8
  local data = t.data
  for i = 0, count - 1 do data[i] = factor * formula.g(s, i) end
  local made = t:to{dtype = dtype or "f16"}
  if made == t then return t end
  t:free()
  return made
end

--- Formula Q, K and V for shapes.
function formula.qkv(q_shape, kv_shape, dtype)
  return formula.tensor(1, q_shape, 4, dtype), formula.tensor(2, kv_shape, 1, dtype), formula.tensor(3, kv_shape, 1, dtype)
end

--- A tensor (1, rows, 1, dim) whose row r holds values[r + 1] in every element.
function formula.rows(values, dim, dtype)
  local t = fa4.zeros({1, #values, 1, dim}, {dtype = dtype or "f16"})
  for r = 0, #values - 1 do t:narrow(1, r, 1):fill(values[r + 1]) end
  return t
end

return formula
