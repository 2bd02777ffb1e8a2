-- Probes of cvt and cvt.pack.

local function spread(pattern, list)
  local forms = {}
  for _, item in ipairs(list) do forms[#forms + 1] = (pattern:gsub("@", item)) end
  return forms
end

local WHOLE = { "rni", "rzi", "rmi", "rpi" }
local ROUND = { "rn", "rz", "rm", "rp" }

local function integers(kit)
  local small = { "u8", "s8", "u16", "s16", "u32", "s32" }
  local forms, wide = {}, {}
  for _, to in ipairs({ "u8", "s8", "u16", "s16", "u32", "s32" }) do
    for _, sat in ipairs({ "", ".sat" }) do
      if sat == "" or to ~= "u32" then forms[#forms + 1] = "cvt" .. sat .. "." .. to .. ".u32" end
      if sat == "" or to ~= "s32" then forms[#forms + 1] = "cvt" .. sat .. "." .. to .. ".s32" end
    end
  end
  kit.alu("cvt.int.32", { "b32" }, "r", forms)
  forms = {}
  for _, to in ipairs(small) do
    for _, sat in ipairs({ "", ".sat" }) do
      forms[#forms + 1] = "cvt" .. sat .. "." .. to .. ".u64"
      forms[#forms + 1] = "cvt" .. sat .. "." .. to .. ".s64"
    end
  end
  kit.alu("cvt.int.64", { "b64" }, "r", forms)
  forms = {}
  for _, to in ipairs(small) do
    for _, from in ipairs({ "u8", "s8", "u16", "s16" }) do forms[#forms + 1] = "cvt." .. to .. "." .. from end
  end
  kit.alu("cvt.int.16", { "half" }, "r", forms, { n = 65536 })
  for _, from in ipairs(small) do
    wide[#wide + 1] = "cvt.u64." .. from
    wide[#wide + 1] = "cvt.s64." .. from
    if from:sub(1, 1) == "s" then wide[#wide + 1] = "cvt.sat.u64." .. from end
  end
  kit.alu("cvt.int.wide", { "b32" }, "l", wide)
end

local function floats_to_integers(kit)
  for _, from in ipairs({ "f32", "f64", "f16", "bf16" }) do
    local kind = (from == "f16" or from == "bf16") and "half" or from
    local keys = kind == "half" and { n = 65536 } or nil
    local forms = {}
    for _, to in ipairs(from == "bf16" and { "s32", "u32" } or { "s32", "u32", "s16", "u16", "s8", "u8" }) do
      for _, form in ipairs(spread("cvt.@." .. to .. "." .. from, WHOLE)) do forms[#forms + 1] = form end
    end
    for _, round in ipairs(from == "bf16" and WHOLE or {}) do
      forms[#forms + 1] = "{ .reg .b16 t; cvt." .. round .. ".s16.bf16 t, $a; cvt.s32.s16 $d, t; }"
      forms[#forms + 1] = "{ .reg .b16 t; cvt." .. round .. ".u16.bf16 t, $a; cvt.u32.u16 $d, t; }"
    end
    if from == "f32" then forms[#forms + 1] = "cvt.rzi.ftz.s32.f32"; forms[#forms + 1] = "cvt.rpi.ftz.u32.f32"; forms[#forms + 1] = "cvt.rzi.sat.s8.f32" end
    kit.alu("cvt.int." .. from, { kind }, "r", forms, keys)
    local wide = spread("cvt.@.s64." .. from, WHOLE)
    for _, form in ipairs(spread("cvt.@.u64." .. from, WHOLE)) do wide[#wide + 1] = form end
    kit.alu("cvt.int64." .. from, { kind }, "l", wide, keys)
  end
end

local function integers_to_floats(kit)
  local forms, halves, brains = {}, {}, {}
  for _, from in ipairs({ "u32", "s32", "u16", "s16", "u8", "s8" }) do
    for _, round in ipairs(ROUND) do
      forms[#forms + 1] = "cvt." .. round .. ".f32." .. from
      halves[#halves + 1] = "cvt." .. round .. ".f16." .. from
      if from:find("32") then brains[#brains + 1] = "cvt." .. round .. ".bf16." .. from end
      -- Between bf16 and 16-bit integers the registers have 16 bits too.
      if from:find("16") then brains[#brains + 1] = "{ .reg .b16 t; cvt.u16.u32 t, $a; cvt." .. round .. ".bf16." .. from .. " $d, t; }" end
    end
  end
  kit.alu("cvt.f32.int", { "b32" }, "r", forms)
  kit.alu("cvt.f16.int", { "b32" }, "h", halves)
  kit.alu("cvt.bf16.int", { "b32" }, "h", brains)
  local wide = {}
  for _, from in ipairs({ "u64", "s64" }) do
    for _, round in ipairs(ROUND) do wide[#wide + 1] = "cvt." .. round .. ".f32." .. from end
  end
  kit.alu("cvt.f32.int64", { "b64" }, "r", wide)
  wide = {}
  for _, from in ipairs({ "u64", "s64" }) do
    for _, round in ipairs(ROUND) do wide[#wide + 1] = "cvt." .. round .. ".f64." .. from end
  end
  kit.alu("cvt.f64.int64", { "b64" }, "l", wide)
  kit.alu("cvt.f64.int", { "b32" }, "l", { "cvt.rn.f64.u32", "cvt.rn.f64.s32", "cvt.rz.f64.s32" })
  wide = {}
  for _, from in ipairs({ "u64", "s64" }) do
    for _, round in ipairs(ROUND) do
      wide[#wide + 1] = "cvt." .. round .. ".f16." .. from
      wide[#wide + 1] = "cvt." .. round .. ".bf16." .. from
    end
  end
  kit.alu("cvt.half.int64", { "b64" }, "h", wide)
end

local function floats(kit)
  kit.alu("cvt.f32.f32", { "f32" }, "r", { "cvt.rni.f32.f32", "cvt.rzi.f32.f32", "cvt.rmi.f32.f32", "cvt.rpi.f32.f32", "cvt.rni.ftz.f32.f32", "cvt.rzi.sat.f32.f32", "cvt.sat.f32.f32",
    "cvt.ftz.f32.f32", "cvt.ftz.sat.f32.f32" })
  kit.alu("cvt.f64.f64", { "f64" }, "l", { "cvt.rni.f64.f64", "cvt.rzi.f64.f64", "cvt.rmi.f64.f64", "cvt.rpi.f64.f64", "cvt.sat.f64.f64" })
  kit.alu("cvt.f16.f16", { "half" }, "h", { "cvt.rni.f16.f16", "cvt.rzi.f16.f16", "cvt.rmi.f16.f16", "cvt.rpi.f16.f16", "cvt.sat.f16.f16" }, { n = 65536 })
  kit.alu("cvt.bf16.bf16", { "half" }, "h", { "cvt.rni.bf16.bf16", "cvt.rzi.bf16.bf16", "cvt.rmi.bf16.bf16", "cvt.rpi.bf16.bf16" }, { n = 65536 })
  kit.alu("cvt.f64.f32", { "f32" }, "l", { "cvt.f64.f32", "cvt.ftz.f64.f32", "cvt.sat.f64.f32" })
  kit.alu("cvt.f32.f64", { "f64" }, "r", { "cvt.rn.f32.f64", "cvt.rz.f32.f64", "cvt.rm.f32.f64", "cvt.rp.f32.f64", "cvt.rn.ftz.f32.f64", "cvt.rz.sat.f32.f64" })
  kit.alu("cvt.f16.f64", { "f64" }, "h", { "cvt.rn.f16.f64", "cvt.rz.f16.f64", "cvt.rm.f16.f64", "cvt.rp.f16.f64", "cvt.rn.bf16.f64" })
  kit.alu("cvt.f32.f16", { "half" }, "r", { "cvt.f32.f16", "cvt.ftz.f32.f16", "cvt.sat.f32.f16", "cvt.f32.bf16" }, { n = 65536 })
  kit.alu("cvt.f64.f16", { "half" }, "l", { "cvt.f64.f16", "cvt.f64.bf16" }, { n = 65536 })
  kit.alu("cvt.f16.f32", { "f32" }, "h", { "cvt.rn.f16.f32", "cvt.rz.f16.f32", "cvt.rm.f16.f32", "cvt.rp.f16.f32", "cvt.rn.ftz.f16.f32", "cvt.rn.sat.f16.f32" })
  kit.alu("cvt.f16.f32.relu", { "f32" }, "h", { "cvt.rn.relu.f16.f32", "cvt.rz.relu.f16.f32" })
  kit.alu("cvt.bf16.f32", { "f32" }, "h", { "cvt.rn.bf16.f32", "cvt.rz.bf16.f32", "cvt.rm.bf16.f32", "cvt.rp.bf16.f32", "cvt.rn.relu.bf16.f32", "cvt.rz.relu.bf16.f32" })
  kit.alu("cvt.f16.bf16", { "half" }, "h", { "cvt.rn.f16.bf16", "cvt.rz.f16.bf16", "cvt.rn.bf16.f16", "cvt.rz.bf16.f16" }, { n = 65536 })
  kit.alu("cvt.f16x2.f32", { "f32", "f32" }, "r", { "cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32", "cvt.rn.relu.f16x2.f32", "cvt.rz.relu.f16x2.f32" })
  kit.alu("cvt.bf16x2.f32", { "f32", "f32" }, "r", { "cvt.rn.bf16x2.f32", "cvt.rz.bf16x2.f32", "cvt.rn.relu.bf16x2.f32", "cvt.rz.relu.bf16x2.f32" })
  kit.alu("cvt.tf32", { "f32" }, "r", { "cvt.rna.tf32.f32", "cvt.rn.tf32.f32", "cvt.rz.tf32.f32", "cvt.rn.relu.tf32.f32", "cvt.rz.relu.tf32.f32" })
  kit.alu("cvt.e4m3x2.f32", { "f32", "f32" }, "h", { "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32", "cvt.rn.satfinite.relu.e4m3x2.f32", "cvt.rn.satfinite.relu.e5m2x2.f32" })
  kit.alu("cvt.e4m3x2.f16x2", { "f16x2" }, "h", { "cvt.rn.satfinite.e4m3x2.f16x2", "cvt.rn.satfinite.e5m2x2.f16x2", "cvt.rn.satfinite.relu.e4m3x2.f16x2", "cvt.rn.satfinite.relu.e5m2x2.f16x2" })
  kit.alu("cvt.f16x2.e4m3x2", { "half" }, "r", { "cvt.rn.f16x2.e4m3x2", "cvt.rn.f16x2.e5m2x2", "cvt.rn.relu.f16x2.e4m3x2", "cvt.rn.relu.f16x2.e5m2x2" }, { n = 65536 })
end

return function(kit)
  integers(kit)
  floats_to_integers(kit)
  integers_to_floats(kit)
  floats(kit)
  kit.alu("cvt.pack.16", { "b32", "b32" }, "r", { "cvt.pack.sat.u16.s32", "cvt.pack.sat.s16.s32" })
  kit.alu("cvt.pack.8", { "b32", "b32", "b32" }, "r", { "cvt.pack.sat.u8.s32.b32", "cvt.pack.sat.s8.s32.b32" })
end
