-- Probes of warp-wide operations and control flow.

return function(kit)
  for _, mode in ipairs({ "up", "down", "bfly", "idx" }) do
    kit.alu("shfl." .. mode, { "b32", "count", "count" }, "r", {
      "shfl.sync." .. mode .. ".b32 $d, $a, $b, 0x1f, 0xffffffff;", "shfl.sync." .. mode .. ".b32 $d, $a, $b, 0, 0xffffffff;", "shfl.sync." .. mode .. ".b32 $d, $a, $b, $c, 0xffffffff;",
      "{ .reg .b32 t; shl.b32 t, $c, 8; or.b32 t, t, $b; shfl.sync." .. mode .. ".b32 $d, $a, $b, t, 0xffffffff; }",
      "{ .reg .pred p; .reg .b32 t; shfl.sync." .. mode .. ".b32 t|p, $a, $b, $c, 0xffffffff; selp.b32 $d, 1, 0, p; }",
      "{ .reg .pred p; .reg .b32 t; shfl.sync." .. mode .. ".b32 t|p, $a, 3, 0x181f, 0xffffffff; selp.b32 $d, t, 77, p; }" })
  end
  local vote = "{ .reg .pred q; .reg .b32 t; shr.u32 t, $b, 5; mul.lo.u32 t, t, 0x2000000; setp.lt.u32 q, $a, t; @ }"
  local forms = {}
  for _, mode in ipairs({ "all", "any", "uni" }) do
    forms[#forms + 1] = (vote:gsub("@", "vote.sync." .. mode .. ".pred q, q, 0xffffffff; selp.b32 $d, 1, 0, q;"))
    forms[#forms + 1] = (vote:gsub("@", "vote.sync." .. mode .. ".pred q, !q, 0xffffffff; selp.b32 $d, 1, 0, q;"))
  end
  forms[#forms + 1] = (vote:gsub("@", "vote.sync.ballot.b32 $d, q, 0xffffffff;"))
  kit.alu("vote", { "b32", "index" }, "r", forms)
  kit.alu("match.b32", { "b32", "index" }, "r", { "{ .reg .b32 t; and.b32 t, $a, 7; match.any.sync.b32 $d, t, 0xffffffff; }", "match.any.sync.b32 $d, $a, 0xffffffff;",
    "{ .reg .pred p; .reg .b32 t; and.b32 t, $b, 0x7e0; match.all.sync.b32 t|p, t, 0xffffffff; selp.b32 $d, t, 5, p; }",
    "{ .reg .pred p, q; .reg .b32 t; and.b32 t, $b, 0x40; setp.ne.u32 q, t, 0; selp.b32 t, $a, 9, q; match.all.sync.b32 t|p, t, 0xffffffff; selp.b32 $d, 1, 0, p; or.b32 $d, $d, t; }" })
  kit.alu("match.b64", { "b64" }, "r", { "{ .reg .b64 t; and.b64 t, $a, 0x300000003; match.any.sync.b64 $d, t, 0xffffffff; }", "{ .reg .pred p; .reg .b32 t; match.all.sync.b64 t|p, $a, 0xffffffff; selp.b32 $d, t, 5, p; }" })
  kit.alu("redux", { "b32" }, "r", { "redux.sync.add.u32 $d, $a, 0xffffffff;", "redux.sync.add.s32 $d, $a, 0xffffffff;", "redux.sync.min.u32 $d, $a, 0xffffffff;", "redux.sync.max.u32 $d, $a, 0xffffffff;",
    "redux.sync.min.s32 $d, $a, 0xffffffff;", "redux.sync.max.s32 $d, $a, 0xffffffff;", "redux.sync.and.b32 $d, $a, 0xffffffff;", "redux.sync.or.b32 $d, $a, 0xffffffff;",
    "redux.sync.xor.b32 $d, $a, 0xffffffff;" })
  kit.alu("elect", { "index" }, "r", { "{ .reg .pred p; elect.sync $d|p, 0xffffffff; }", "{ .reg .pred p; .reg .b32 t; elect.sync t|p, 0xffffffff; selp.b32 $d, $a, t, p; }",
    "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 $d, 1, 0, p; }" })
  kit.alu("activemask", { "index" }, "r", { "activemask.b32 $d;", "{ bar.warp.sync 0xffffffff; activemask.b32 $d; }" })
  kit.own("warp.parts", { ["in"] = "b32", grid = 32 }, { "shfl, redux, ballot, elect among 16 lanes" }, [[
    u32 a = ((const u32 *)in)[I], lane = TID & 31, mask = lane & 16 ? 0xffff0000u : 0x0000ffffu, s, r, b, e;
    if (lane & 16) {
        asm volatile("shfl.sync.bfly.b32 %0, %1, 5, 0x1f, %2;" : "=r"(s) : "r"(a), "r"(mask));
        asm volatile("redux.sync.add.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(mask));
        asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }" : "=r"(b) : "r"(a), "r"(mask));
        asm volatile("{ .reg .pred p; elect.sync %0|p, %1; }" : "=r"(e) : "r"(mask));
    } else {
        asm volatile("shfl.sync.down.b32 %0, %1, 3, 0x0f, %2;" : "=r"(s) : "r"(a), "r"(mask));
        asm volatile("redux.sync.max.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(mask));
        asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }" : "=r"(b) : "r"(a), "r"(mask));
        asm volatile("{ .reg .pred p; elect.sync %0|p, %1; }" : "=r"(e) : "r"(mask));
    }
    ((u32 *)out)[I] = s ^ (r * 31) ^ (b * 7) ^ (e << 8);]])
  kit.own("branch", { ["in"] = "b32", grid = 32 }, { "bra with divergence, loop of lane-dependent length" }, [[
    u32 a = ((const u32 *)in)[I], d;
    asm volatile("{ .reg .pred p, q; .reg .b32 n, x; and.b32 n, %1, 15; mov.b32 x, %1;\n"
                 "again: setp.eq.u32 p, n, 0; @p bra over; mad.lo.u32 x, x, 1664525, 1013904223; sub.u32 n, n, 1; and.b32 %0, x, 64; setp.ne.u32 q, %0, 0;\n"
                 "@q bra odd; xor.b32 x, x, 0x5bd1e995; bra.uni again;\n odd: add.u32 x, x, 77; bra again;\n over: mov.b32 %0, x; }" : "=r"(d) : "r"(a));
    ((u32 *)out)[I] = d;]])
  kit.own("branch.indexed", { ["in"] = "b32", grid = 32 }, { "brx.idx over four targets" }, [[
    u32 a = ((const u32 *)in)[I], d;
    asm volatile("{ .reg .b32 n; and.b32 n, %1, 3; mov.b32 %0, 0;\n places: .branchtargets at0, at1, at2, at3;\n brx.idx n, places;\n"
                 "at0: add.u32 %0, %1, 1; bra ready;\n at1: mul.lo.u32 %0, %1, 3; bra ready;\n at2: xor.b32 %0, %1, 0xff; bra ready;\n at3: not.b32 %0, %1;\n ready: }" : "=r"(d) : "r"(a));
    ((u32 *)out)[I] = d;]])
  kit.own("call", { ["in"] = "b32", grid = 32 }, { "call, ret" }, [[
    ((u32 *)out)[I] = mix(((const u32 *)in)[I], TID);]], "static __device__ __noinline__ u32 mix(u32 a, u32 b) { return (a ^ 0x9e3779b9u) * 2654435761u + b; }")
  kit.own("exit", { ["in"] = "b32", grid = 32 }, { "exit of some lanes; trap, brkpt, pmevent where none goes" }, [[
    u32 a = ((const u32 *)in)[I];
    ((u32 *)out)[I] = a + 1;
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %0, 0; @p exit; pmevent 3; setp.eq.u32 p, %0, 0x13572468; @p trap; @p brkpt; }" :: "r"(a & 1 ? a | 2 : 0) : "memory");
    ((u32 *)out)[I] = a * 3;]])
  kit.own("sleep", { ["in"] = "b32", grid = 32 }, { "nanosleep, griddepcontrol" }, [[
    asm volatile("nanosleep.u32 20; griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
    ((u32 *)out)[I] = ((const u32 *)in)[I] ^ 0x55;]])
  kit.own("setmaxnreg", { ["in"] = "b32:4096", n = 4096, grid = 16, block = 256 }, { "setmaxnreg.dec in one warpgroup, .inc in the other" }, [[
    u32 a = ((const u32 *)in)[I];
    if (TID < 128) { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;" ::: "memory"); ((u32 *)out)[I] = a + 5; }
    else { asm volatile("setmaxnreg.inc.sync.aligned.u32 152;" ::: "memory"); ((u32 *)out)[I] = a ^ 0xf0f0; }]], nil, "__launch_bounds__(256, 2)")
end
