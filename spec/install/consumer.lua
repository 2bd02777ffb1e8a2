-- consumer.lua FILE.safetensors: the same attention from plain LuaJIT, with the installed modules.
local fa4 = require "fa4"

local tensors = fa4.load(arg[1])
local attention = fa4.attention({ device = "cpu", mask = fa4.mask.causal(), rescale = { threshold = 8 } })
local out = attention(tensors.q, tensors.k, tensors.v)
local result = fa4.validate(out, tensors.q, tensors.k, tensors.v)
print(fa4.version(), out.report.rescaled_rows, result.pass)
