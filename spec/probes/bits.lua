-- Probes of bit operations and moves.

return function(kit)
  for _, t in ipairs({ { "16", "b16", "h" }, { "32", "b32", "r" }, { "64", "b64", "l" } }) do
    local bits, kind, class = t[1], t[2], t[3]
    kit.alu("logic.b" .. bits, { kind, kind }, class, { "and.b" .. bits, "or.b" .. bits, "xor.b" .. bits })
    kit.alu("not.b" .. bits, { kind }, class, { "not.b" .. bits, "cnot.b" .. bits })
    kit.alu("shift.b" .. bits, { kind, "count" }, class, { "shl.b" .. bits, "shr.b" .. bits, "shr.u" .. bits, "shr.s" .. bits })
    kit.alu("mov.b" .. bits, { kind }, class, { "mov.b" .. bits, "mov.u" .. bits, "mov.s" .. bits })
  end
  kit.alu("logic.pred", { "b32", "b32" }, "p", {
    "{ .reg .pred s, t; setp.lt.s32 s, $a, $b; setp.eq.s32 t, $a, 0; and.pred $p, s, t; }", "{ .reg .pred s, t; setp.lt.s32 s, $a, $b; setp.eq.s32 t, $b, 0; or.pred $p, s, t; }",
    "{ .reg .pred s, t; setp.lt.s32 s, $a, $b; setp.lt.u32 t, $a, $b; xor.pred $p, s, t; }", "{ .reg .pred s; setp.lt.s32 s, $a, $b; not.pred $p, s; }",
    "{ .reg .pred s; setp.lt.s32 s, $a, $b; mov.pred $p, s; }" })
  local tables = {}
  for _, value in ipairs({ 0x00, 0x80, 0xfe, 0x96, 0xe8, 0xca, 0xd8, 0x6a, 0x1e, 0x3c, 0xf0, 0xcc, 0xaa, 0x2d, 0x47, 0xff }) do
    tables[#tables + 1] = ("lop3.b32 $d, $a, $b, $c, 0x%02x;"):format(value)
  end
  kit.alu("lop3", { "b32", "b32", "b32" }, "r", tables)
  kit.alu("shf", { "b32", "b32", "count" }, "r", { "shf.l.clamp.b32", "shf.l.wrap.b32", "shf.r.clamp.b32", "shf.r.wrap.b32" })
  kit.alu("popc", { "b32" }, "r", { "popc.b32", "clz.b32", "bfind.u32", "bfind.s32", "bfind.shiftamt.u32", "bfind.shiftamt.s32", "brev.b32" })
  kit.alu("popc.64", { "b64" }, "r", { "popc.b64", "clz.b64", "bfind.u64", "bfind.s64", "bfind.shiftamt.u64", "bfind.shiftamt.s64" })
  kit.alu("brev.64", { "b64" }, "l", { "brev.b64" })
  kit.alu("fns", { "b32", "count", "b32" }, "r", { "{ .reg .b32 t, u; and.b32 t, $b, 31; rem.s32 u, $c, 9; fns.b32 $d, $a, t, u; }" })
  kit.alu("bfe.32", { "b32", "count", "count" }, "r", { "bfe.u32", "bfe.s32" })
  kit.alu("bfe.64", { "b64", "count", "count" }, "l", { "bfe.u64", "bfe.s64" })
  kit.alu("bfi.32", { "b32", "b32", "count", "count" }, "r", { "bfi.b32" })
  kit.alu("bfi.64", { "b64", "b64", "count", "count" }, "l", { "bfi.b64" })
  kit.alu("bmsk", { "count", "count" }, "r", { "bmsk.clamp.b32", "bmsk.wrap.b32" })
  kit.alu("szext", { "b32", "count" }, "r", { "szext.clamp.u32", "szext.clamp.s32", "szext.wrap.u32", "szext.wrap.s32" })
  kit.alu("prmt", { "b32", "b32", "b32" }, "r", { "prmt.b32", "prmt.b32.f4e", "prmt.b32.b4e", "prmt.b32.rc8", "prmt.b32.ecl", "prmt.b32.ecr", "prmt.b32.rc16" })
  kit.alu("mov.pack", { "b32", "b32" }, "l", { "mov.b64 $d, {$a, $b};", "{ .reg .b16 x, y, z, w; mov.b32 {x, y}, $a; mov.b32 {z, w}, $b; mov.b64 $d, {w, x, y, z}; }" })
  kit.alu("mov.unpack", { "b64" }, "r", { "{ .reg .b32 t; mov.b64 {$d, t}, $a; }", "{ .reg .b32 t; mov.b64 {t, $d}, $a; }",
    "{ .reg .b16 x, y, z, w; mov.b64 {x, y, z, w}, $a; mov.b32 $d, {w, x}; }", "{ .reg .b32 t; mov.b64 {_, t}, $a; mov.b32 $d, t; }" })
  kit.alu("mov.b128", { "b64", "b64" }, "l", { "{ .reg .b128 t; .reg .b64 u; mov.b128 t, {$a, $b}; mov.b128 {u, $d}, t; }" })
  kit.alu("mov.special", { "index" }, "r", { "{ .reg .b32 t; mov.u32 t, %tid.x; add.u32 $d, t, $a; }", "{ mov.u32 $d, %ctaid.x; }", "{ mov.u32 $d, %laneid; }",
    "{ mov.u32 $d, %ntid.x; }", "{ mov.u32 $d, %nctaid.x; }", "{ mov.u32 $d, %lanemask_lt; }", "{ mov.u32 $d, %lanemask_ge; }", "{ mov.u32 $d, %lanemask_eq; }",
    "{ mov.u32 $d, %lanemask_le; }", "{ mov.u32 $d, %lanemask_gt; }", "{ mov.u32 $d, %ntid.y; }", "{ mov.u32 $d, %ctaid.z; }", "{ mov.u32 $d, %cluster_ctarank; }",
    "{ mov.u32 $d, %cluster_nctarank; }", "{ mov.u32 $d, %cluster_ctaid.x; }", "{ mov.u32 $d, %clusterid.x; }", "{ mov.u32 $d, WARP_SZ; }", "{ mov.u32 $d, %dynamic_smem_size; }" })
end
