-- Probes of integer and floating-point arithmetic, comparison and selection.

local function spread(pattern, list)
  local forms = {}
  for _, item in ipairs(list) do forms[#forms + 1] = (pattern:gsub("@", item)) end
  return forms
end

local function join(...)
  local all = {}
  for _, list in ipairs({ ... }) do
    for _, item in ipairs(list) do all[#all + 1] = item end
  end
  return all
end

local function sized(text, bits) return (text:gsub("@", bits)) end

local ROUND = { "rn", "rz", "rm", "rp" }
local ROUND_FTZ = { "rn", "rz", "rm", "rp", "rn.ftz", "rz.ftz", "rm.ftz", "rp.ftz", "rn.sat", "rz.ftz.sat" }
local HALF = { "rn", "rn.sat" }
local INTEGERS = { { "16", "b16", "h" }, { "32", "b32", "r" }, { "64", "b64", "l" } }

local function floats(kit)
  for _, op in ipairs({ "add", "sub", "mul" }) do
    kit.alu(op .. ".f32", { "f32", "f32" }, "r", join({ op .. ".f32" }, spread(op .. ".@.f32", ROUND_FTZ)))
    kit.alu(op .. ".f64", { "f64", "f64" }, "l", spread(op .. ".@.f64", ROUND))
    kit.alu(op .. ".f16", { "f16", "f16" }, "h", join(spread(op .. ".@.f16", HALF), { op .. ".ftz.f16", op .. ".rn.ftz.sat.f16" }))
    kit.alu(op .. ".f16x2", { "f16x2", "f16x2" }, "r", join(spread(op .. ".@.f16x2", HALF), { op .. ".ftz.f16x2" }))
    kit.alu(op .. ".bf16", { "bf16", "bf16" }, "h", { op .. ".bf16", op .. ".rn.bf16" })
    kit.alu(op .. ".bf16x2", { "bf16x2", "bf16x2" }, "r", { op .. ".bf16x2", op .. ".rn.bf16x2" })
  end
  kit.alu("fma.f32", { "f32", "f32", "f32" }, "r", spread("fma.@.f32", ROUND_FTZ))
  kit.alu("fma.f64", { "f64", "f64", "f64" }, "l", spread("fma.@.f64", ROUND))
  kit.alu("fma.f16", { "f16", "f16", "f16" }, "h", spread("fma.@.f16", { "rn", "rn.ftz", "rn.sat", "rn.ftz.sat" }))
  kit.alu("fma.f16.relu", { "f16", "f16", "f16" }, "h", spread("fma.@.f16", { "rn.relu", "rn.ftz.relu" }))
  kit.alu("fma.f16x2", { "f16x2", "f16x2", "f16x2" }, "r", spread("fma.@.f16x2", { "rn", "rn.ftz", "rn.sat", "rn.relu" }))
  kit.alu("fma.bf16", { "bf16", "bf16", "bf16" }, "h", spread("fma.@.bf16", { "rn", "rn.relu" }))
  kit.alu("fma.bf16x2", { "bf16x2", "bf16x2", "bf16x2" }, "r", spread("fma.@.bf16x2", { "rn", "rn.relu" }))
  kit.alu("mad.f32", { "f32", "f32", "f32" }, "r", spread("mad.@.f32", ROUND_FTZ))
  kit.alu("mad.f64", { "f64", "f64", "f64" }, "l", spread("mad.@.f64", ROUND))
  kit.alu("div.f32", { "f32", "f32" }, "r", spread("div.@.f32", { "rn", "rz", "rm", "rp", "rn.ftz", "rz.ftz", "rm.ftz", "rp.ftz" }))
  kit.alu("div.f64", { "f64", "f64" }, "l", spread("div.@.f64", ROUND))
  kit.alu("rcp.f32", { "f32" }, "r", spread("rcp.@.f32", { "rn", "rz", "rm", "rp", "rn.ftz", "rz.ftz", "rm.ftz", "rp.ftz" }))
  kit.alu("rcp.f64", { "f64" }, "l", spread("rcp.@.f64", ROUND))
  kit.alu("sqrt.f32", { "f32" }, "r", spread("sqrt.@.f32", { "rn", "rz", "rm", "rp", "rn.ftz", "rz.ftz", "rm.ftz", "rp.ftz" }))
  kit.alu("sqrt.f64", { "f64" }, "l", spread("sqrt.@.f64", ROUND))
  for _, op in ipairs({ "abs", "neg" }) do
    kit.alu(op .. ".f32", { "f32" }, "r", { op .. ".f32", op .. ".ftz.f32" })
    kit.alu(op .. ".f64", { "f64" }, "l", { op .. ".f64" })
    kit.alu(op .. ".f16", { "half" }, "h", { op .. ".f16" }, { n = 65536 })
    kit.alu(op .. ".f16.ftz", { "half" }, "h", { op .. ".ftz.f16" }, { n = 65536 })
    kit.alu(op .. ".f16x2", { "f16x2" }, "r", { op .. ".f16x2" })
    kit.alu(op .. ".bf16", { "half" }, "h", { op .. ".bf16" }, { n = 65536 })
    kit.alu(op .. ".bf16x2", { "bf16x2" }, "r", { op .. ".bf16x2" })
    kit.alu(op .. ".int", { "b32" }, "r", { op .. ".s32" })
    kit.alu(op .. ".s16", { "b16" }, "h", { op .. ".s16" })
    kit.alu(op .. ".s64", { "b64" }, "l", { op .. ".s64" })
  end
  kit.alu("copysign.f32", { "f32", "f32" }, "r", { "copysign.f32" })
  kit.alu("copysign.f64", { "f64", "f64" }, "l", { "copysign.f64" })
  kit.alu("testp.f32", { "f32" }, "p", spread("testp.@.f32", { "finite", "infinite", "number", "notanumber", "normal", "subnormal" }))
  kit.alu("testp.f64", { "f64" }, "p", spread("testp.@.f64", { "finite", "infinite", "number", "notanumber", "normal", "subnormal" }))
end

-- Products around the smallest normal number, where flushing before or after rounding differ.
local function tiny(kit)
  local text = "{ .reg .b32 x, y, z; and.b32 x, $a, 255; add.u32 x, x, 0x3f7fff20; shr.u32 y, $a, 8; and.b32 y, y, 15; add.u32 y, y, 0x007ffffc; @ }"
  local forms = {}
  for _, round in ipairs(ROUND) do
    forms[#forms + 1] = (text:gsub("@", "or.b32 y, y, 0x00800000; mul." .. round .. ".ftz.f32 $d, x, y;"))
    forms[#forms + 1] = (text:gsub("@", "or.b32 y, y, 0x00800000; mov.b32 z, 0x80000000; fma." .. round .. ".ftz.f32 $d, x, y, z;"))
    forms[#forms + 1] = (text:gsub("@", "or.b32 y, y, 0x80800000; mov.b32 z, 0; fma." .. round .. ".ftz.f32 $d, x, y, z;"))
    forms[#forms + 1] = (text:gsub("@", "mov.b32 y, 0x3f000000; sub.u32 x, x, 0x3e800000; mul." .. round .. ".ftz.f32 $d, x, y;"))
    forms[#forms + 1] = (text:gsub("@", "mov.b32 y, 0x0c000000; mov.b32 z, 0x00800000; sub.u32 x, x, 0x18000000; fma." .. round .. ".ftz.f32 $d, x, y, z;"))
    forms[#forms + 1] = (text:gsub("@", "mov.b32 y, 0x8c000000; mov.b32 z, 0x00800001; sub.u32 x, x, 0x18000000; fma." .. round .. ".ftz.f32 $d, x, y, z;"))
  end
  kit.alu("tiny.f32", { "index" }, "r", forms)
  forms = {}
  for _, form in ipairs({ "mul.ftz.f16", "mul.ftz.sat.f16" }) do
    forms[#forms + 1] = "{ .reg .b16 x, y; .reg .b32 q; and.b32 q, $a, 63; add.u32 q, q, 0x3be0; cvt.u16.u32 x, q; shr.u32 q, $a, 6; and.b32 q, q, 15; add.u32 q, q, 0x0400; cvt.u16.u32 y, q; "
      .. form .. " x, x, y; cvt.u32.u16 $d, x; }"
  end
  for _, round in ipairs({ "rn" }) do
    forms[#forms + 1] = "{ .reg .b16 x, y, z; .reg .b32 q; and.b32 q, $a, 63; add.u32 q, q, 0x3be0; cvt.u16.u32 x, q; shr.u32 q, $a, 6; and.b32 q, q, 15; add.u32 q, q, 0x0400; cvt.u16.u32 y, q; "
      .. "mov.b16 z, 0x8000; fma." .. round .. ".ftz.f16 x, x, y, z; cvt.u32.u16 $d, x; }"
  end
  kit.alu("tiny.f16", { "index" }, "r", forms)
end

-- Bounds: the ISA's for the device plus one half unit in the last place of the emulator's own model.
local function approximations(kit)
  local function unary(name, kinds, forms, near) kit.alu(name, kinds, "r", forms, { near = near }) end
  kit.alu("ex2.whole", { "whole" }, "r", { "ex2.approx.f32", "ex2.approx.ftz.f32" }, { near = "2.4e-7,1.5e-45" })
  unary("ex2.approx.f32", { "f32" }, { "ex2.approx.f32", "ex2.approx.ftz.f32" }, "3.0e-7,1.5e-45")
  unary("lg2.approx.f32", { "f32" }, { "lg2.approx.f32", "lg2.approx.ftz.f32" }, "3.0e-7,3.0e-7")
  unary("rcp.approx.f32", { "f32" }, { "rcp.approx.f32", "rcp.approx.ftz.f32" }, "1.8e-7,1.5e-45")
  unary("rsqrt.approx.f32", { "f32" }, { "rsqrt.approx.f32", "rsqrt.approx.ftz.f32" }, "1.9e-7,1.5e-45")
  unary("sqrt.approx.f32", { "f32" }, { "sqrt.approx.f32", "sqrt.approx.ftz.f32" }, "1.8e-7,1.5e-45")
  unary("sin.approx.f32", { "angle" }, { "sin.approx.f32", "sin.approx.ftz.f32" }, "0,7.4e-7")
  unary("cos.approx.f32", { "angle" }, { "cos.approx.f32", "cos.approx.ftz.f32" }, "0,7.4e-7")
  unary("tanh.approx.f32", { "f32" }, { "tanh.approx.f32" }, "4.9e-4,1.5e-45")
  kit.alu("div.approx.f32", { "f32", "f32" }, "r", { "div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32" }, { near = "3.0e-7,2.9e-45" })
  kit.alu("ex2.f16", { "half" }, "h", { "ex2.approx.f16" }, { n = 65536, near = "1.6e-3,6.0e-8" })
  kit.alu("ex2.bf16", { "half" }, "h", { "ex2.approx.ftz.bf16" }, { n = 65536, near = "1.2e-2,0" })
  kit.alu("ex2.f16x2", { "f16x2" }, "r", { "ex2.approx.f16x2" }, { near = "1.6e-3,6.0e-8" })
  kit.alu("tanh.f16", { "half" }, "h", { "tanh.approx.f16" }, { n = 65536, near = "9.8e-4,9.8e-4" })
  kit.alu("tanh.bf16", { "half" }, "h", { "tanh.approx.bf16" }, { n = 65536, near = "7.9e-3,0" })
  kit.alu("tanh.f16x2", { "f16x2" }, "r", { "tanh.approx.f16x2" }, { near = "9.8e-4,9.8e-4" })
  kit.alu("rcp.approx.f64", { "f64" }, "l", { "rcp.approx.ftz.f64" }, { near = "2.0e-6,0" })
  kit.alu("rsqrt.approx.f64", { "f64" }, "l", { "rsqrt.approx.f64", "rsqrt.approx.ftz.f64" }, { near = "2.0e-6,0" })
end

local function extremes(kit)
  for _, op in ipairs({ "min", "max" }) do
    kit.alu(op .. ".f32", { "f32", "f32" }, "r", spread(op .. "@.f32", { "", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs", ".ftz.xorsign.abs" }))
    kit.alu(op .. ".f64", { "f64", "f64" }, "l", { op .. ".f64" })
    for _, type in ipairs({ "f16", "bf16" }) do
      local ftz = type == "f16" and { ".ftz", ".ftz.NaN" } or {}
      local list = join({ "", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs" }, ftz)
      kit.alu(op .. "." .. type, { type, type }, "h", spread(op .. "@." .. type, list))
      kit.alu(op .. "." .. type .. "x2", { type .. "x2", type .. "x2" }, "r", spread(op .. "@." .. type .. "x2", list))
    end
    kit.alu(op .. ".x2", { "b32", "b32" }, "r", { op .. ".u16x2", op .. ".s16x2", op .. ".relu.s16x2", op .. ".relu.s32" })
  end
end

local function integers(kit)
  for _, t in ipairs(INTEGERS) do
    local bits, kind, class = t[1], t[2], t[3]
    local both = { "u" .. bits, "s" .. bits }
    local sat = bits == "32" and { "add.sat.s32", "sub.sat.s32" } or {}
    kit.alu("add.int" .. bits, { kind, kind }, class, join(spread("add.@", both), spread("sub.@", both), sat))
    kit.alu("mul.int" .. bits, { kind, kind }, class, join(spread("mul.lo.@", both), spread("mul.hi.@", both)))
    kit.alu("mad.int" .. bits, { kind, kind, kind }, class, join(spread("mad.lo.@", both), spread("mad.hi.@", both)))
    kit.alu("min.int" .. bits, { kind, kind }, class, join(spread("min.@", both), spread("max.@", both)))
    kit.alu("sad.int" .. bits, { kind, kind, kind }, class, spread("sad.@", both))
    local safe = "{ .reg .b" .. bits .. " t; or.b" .. bits .. " t, $b, 1; @ $d, $a, t; }"
    kit.alu("div.int" .. bits, { kind, kind }, class, spread(safe, join(spread("div.@", both), spread("rem.@", both))))
    kit.alu("div.zero" .. bits, { kind }, class, spread("@ $d, $a, 0;", join(spread("div.@", both), spread("rem.@", both))))
  end
  kit.alu("add.x2", { "b32", "b32" }, "r", { "add.u16x2", "add.s16x2" })
  kit.alu("mul.wide16", { "b16", "b16" }, "r", { "mul.wide.u16", "mul.wide.s16" })
  kit.alu("mul.wide32", { "b32", "b32" }, "l", { "mul.wide.u32", "mul.wide.s32" })
  kit.alu("mad.wide16", { "b16", "b16", "b32" }, "r", { "mad.wide.u16", "mad.wide.s16" })
  kit.alu("mad.wide32", { "b32", "b32", "b64" }, "l", { "mad.wide.u32", "mad.wide.s32" })
  kit.alu("mad.hi.sat", { "b32", "b32", "b32" }, "r", { "mad.hi.sat.s32" })
  kit.alu("mul24", { "b32", "b32" }, "r", { "mul24.lo.u32", "mul24.lo.s32", "mul24.hi.u32", "mul24.hi.s32" })
  kit.alu("mad24", { "b32", "b32", "b32" }, "r", { "mad24.lo.u32", "mad24.lo.s32", "mad24.hi.u32", "mad24.hi.s32" })
  kit.alu("mad24.sat", { "b32", "b32", "b32" }, "r", { "mad24.hi.sat.s32" })
  kit.alu("dp4a", { "b32", "b32", "b32" }, "r", { "dp4a.u32.u32", "dp4a.s32.s32", "dp4a.u32.s32", "dp4a.s32.u32" })
  kit.alu("dp2a", { "b32", "b32", "b32" }, "r", { "dp2a.lo.u32.u32", "dp2a.hi.s32.s32", "dp2a.lo.u32.s32", "dp2a.hi.s32.u32" })
  for _, bits in ipairs({ "32", "64" }) do
    local kind, class = "b" .. bits, bits == "32" and "r" or "l"
    kit.alu("carry.add" .. bits, { kind, kind, kind }, class, {
      sized("{ .reg .b@ t; add.cc.u@ t, $a, $b; addc.u@ $d, t, $c; }", bits), sized("{ .reg .b@ t; add.cc.s@ t, $a, $b; addc.cc.s@ t, t, $c; addc.s@ $d, t, 0; }", bits) })
    kit.alu("carry.sub" .. bits, { kind, kind, kind }, class, {
      sized("{ .reg .b@ t; sub.cc.u@ t, $a, $b; subc.u@ $d, t, $c; }", bits), sized("{ .reg .b@ t; sub.cc.s@ t, $a, $b; subc.cc.s@ t, t, $c; subc.s@ $d, t, 0; }", bits) })
    kit.alu("carry.mad" .. bits, { kind, kind, kind }, class, {
      sized("{ .reg .b@ t; mad.lo.cc.u@ t, $a, $b, $c; madc.hi.u@ $d, $a, $b, t; }", bits), sized("{ .reg .b@ t; mad.hi.cc.s@ t, $a, $b, $c; madc.lo.cc.s@ t, $a, t, $c; addc.s@ $d, t, 0; }", bits) })
  end
end

local COMPARE = { "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan" }
local ORDER = { "eq", "ne", "lt", "le", "gt", "ge" }

local function comparisons(kit)
  kit.alu("setp.f32", { "f32", "f32" }, "p", join(spread("setp.@.f32", COMPARE), { "setp.lt.ftz.f32", "setp.geu.ftz.f32" }))
  kit.alu("setp.f64", { "f64", "f64" }, "p", spread("setp.@.f64", COMPARE))
  kit.alu("setp.f16", { "f16", "f16" }, "p", join(spread("setp.@.f16", COMPARE), { "setp.lt.ftz.f16" }))
  kit.alu("setp.bf16", { "bf16", "bf16" }, "p", spread("setp.@.bf16", COMPARE))
  for _, t in ipairs(INTEGERS) do
    kit.alu("setp.int" .. t[1], { t[2], t[2] }, "p", join(spread("setp.@.s" .. t[1], ORDER), spread("setp.@.u" .. t[1], ORDER), spread("setp.@.b" .. t[1], { "eq", "ne" }),
      spread("setp.@.u" .. t[1], { "lo", "ls", "hi", "hs" })))
  end
  local two = "{ .reg .pred s, p, q; .reg .b32 t; setp.lt.s32 s, $c, 16; @ p|q, $a, $b, s; selp.b32 t, 2, 0, q; selp.b32 $d, 1, 0, p; or.b32 $d, $d, t; }"
  kit.alu("setp.pair", { "b32", "b32", "b32" }, "r", spread(two, { "setp.lt.and.s32", "setp.ge.or.u32", "setp.eq.xor.b32", "setp.ltu.and.f32", "setp.gt.or.f32", "setp.num.xor.f32" }))
  kit.alu("set.32", { "f32", "f32" }, "r", { "set.lt.u32.f32", "set.geu.s32.f32", "set.eq.f32.f32", "set.nan.ftz.f32.f32", "set.lt.f32.s32", "set.hi.u32.u32", "set.eq.s32.b32" })
  kit.alu("set.f64", { "f64", "f64" }, "r", { "set.lt.u32.f64", "set.equ.f32.f64" })
  kit.alu("set.and", { "f32", "f32", "b32" }, "r", { "{ .reg .pred s; setp.lt.s32 s, $c, 16; set.lt.and.u32.f32 $d, $a, $b, s; }" })
  kit.alu("set.f16", { "f16", "f16" }, "h", { "set.lt.f16.f16", "set.num.u16.f16" })
  kit.alu("set.f16x2", { "f16x2", "f16x2" }, "r", { "set.lt.f16x2.f16x2", "set.neu.u32.f16x2" })
  kit.alu("setp.f16x2", { "f16x2", "f16x2" }, "r", { "{ .reg .pred p, q; .reg .b32 t; setp.lt.f16x2 p|q, $a, $b; selp.b32 t, 2, 0, q; selp.b32 $d, 1, 0, p; or.b32 $d, $d, t; }" })
  kit.alu("selp.32", { "b32", "b32", "b32" }, "r", spread("{ .reg .pred s; setp.lt.s32 s, $c, 16; selp.@ $d, $a, $b, s; }", { "b32", "u32", "s32", "f32" }))
  kit.alu("selp.64", { "b64", "b64", "b32" }, "l", spread("{ .reg .pred s; setp.lt.s32 s, $c, 16; selp.@ $d, $a, $b, s; }", { "b64", "u64", "f64" }))
  kit.alu("selp.16", { "b16", "b16", "b32" }, "h", spread("{ .reg .pred s; setp.lt.s32 s, $c, 16; selp.@ $d, $a, $b, s; }", { "b16", "s16" }))
  kit.alu("slct.s32", { "b32", "b32", "b32" }, "r", { "slct.b32.s32", "slct.f32.s32" })
  kit.alu("slct.f32", { "b32", "b32", "f32" }, "r", { "slct.u32.f32", "slct.ftz.s32.f32" })
  kit.alu("slct.64", { "b64", "b64", "f32" }, "l", { "slct.b64.f32", "slct.f64.s32" })
end

return function(kit)
  floats(kit)
  tiny(kit)
  approximations(kit)
  extremes(kit)
  integers(kit)
  comparisons(kit)
end
