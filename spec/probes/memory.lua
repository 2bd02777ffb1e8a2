-- Probes of loads, stores, addresses, atomics and matrix fragments.

local function loads(kit)
  local small = {}
  for _, type in ipairs({ "u8", "s8", "u16", "s16", "b16", "u32", "f32" }) do small[#small + 1] = "ld.global." .. type end
  kit.own("ld.types", { ["in"] = "byte:65536", grid = 32 }, small, (function()
    local body = {}
    for i, form in ipairs(small) do
      body[#body + 1] = ('    { u32 d; asm volatile("{ .reg .b64 t; %s t, [%%1]; cvt.u32.u64 %%0, t; }" : "=r"(d) : "l"(in + 8 * I)); ((u32 *)(out + %d))[I] = d; }'):format(
        form == "ld.global.f32" and "ld.global.u32" or form:gsub("f32", "b32"), (i - 1) * 16384)
    end
    return table.concat(body, "\n")
  end)())
  local ways = { "ld.global.b32", "ld.global.ca.b32", "ld.global.cg.b32", "ld.global.cs.b32", "ld.global.lu.b32", "ld.global.cv.b32", "ld.global.nc.b32", "ld.relaxed.gpu.global.b32",
    "ld.acquire.cta.global.b32", "ld.volatile.global.b32", "ld.weak.global.b32", "ld.b32", "ld.global.nc.L1::no_allocate.L2::128B.b32", "ld.global.L1::evict_last.b32", "ldu.global.b32",
    "ld.global.L2::64B.b32" }
  local body = {}
  for i, form in ipairs(ways) do
    body[#body + 1] = ('    { u32 d; asm volatile("%s %%0, [%%1];" : "=r"(d) : "l"(in + 4 * I) : "memory"); ((u32 *)(out + %d))[I] = d; }'):format(form, (i - 1) * 16384)
  end
  kit.own("ld.ways", { ["in"] = "b32", grid = 32 }, ways, table.concat(body, "\n"))
  kit.own("ld.vector", { ["in"] = "b32:16384", grid = 32, out = 65536 }, { "ld.v4.b32, st.v4.b32", "ld.v2.b64, st.v2.b64", "ld.v2.b32, st.v4.b16", "ld.v4.b8, st.v2.b8", "ld.b64, st.b64", "ld.b128, st.b128" }, [[
    const u8 *p = in + 16 * I; u8 *q = out + 16 * I;
    asm volatile("{ .reg .b32 a, b, c, d; ld.global.v4.b32 {a, b, c, d}, [%0]; st.global.v4.b32 [%1], {d, c, b, a}; }" :: "l"(p), "l"(q) : "memory");
    asm volatile("{ .reg .b64 a, b; ld.global.v2.b64 {a, b}, [%0]; st.global.v2.b64 [%1], {b, a}; }" :: "l"(p), "l"(q + 65536) : "memory");
    asm volatile("{ .reg .b32 a, b; .reg .b16 x, y, z, w; ld.global.v2.b32 {a, b}, [%0 + 8]; mov.b32 {x, y}, a; mov.b32 {z, w}, b; st.global.v4.b16 [%1], {w, y, z, x}; }" :: "l"(p), "l"(q + 131072) : "memory");
    asm volatile("{ .reg .b16 a, b, c, d; ld.global.v4.u8 {a, b, c, d}, [%0 + 4]; st.global.v2.u8 [%1], {c, a}; st.global.v2.u8 [%1 + 2], {d, b}; }" :: "l"(p), "l"(q + 196608) : "memory");
    asm volatile("{ .reg .b64 a; ld.global.b64 a, [%0 + 8]; st.global.b64 [%1 + 8], a; }" :: "l"(p), "l"(q + 262144) : "memory");
    asm volatile("{ .reg .b128 a; ld.global.b128 a, [%0]; st.global.b128 [%1], a; }" :: "l"(p), "l"(q + 327680) : "memory");]])
  local stores = { "st.global.b32", "st.global.wb.b32", "st.global.cg.b32", "st.global.cs.b32", "st.global.wt.b32", "st.relaxed.gpu.global.b32", "st.release.cta.global.b32",
    "st.volatile.global.b32", "st.weak.global.b32", "st.b32", "st.global.L1::no_allocate.b32", "st.global.u8", "st.global.u16" }
  body = { "    u32 a = ((const u32 *)in)[I];" }
  for i, form in ipairs(stores) do
    body[#body + 1] = ('    asm volatile("{ .reg .b64 t; cvt.u64.u32 t, %%1; %s [%%0], t; }" :: "l"(out + %d + 4 * I), "r"(a) : "memory");'):format(form, (i - 1) * 16384)
    if form:find("b32") then body[#body] = body[#body]:gsub("{ .reg .b64 t; cvt.u64.u32 t, %%1; ", ""):gsub(", t; }", ", %%1;") end
  end
  kit.own("st.ways", { ["in"] = "b32", grid = 32 }, stores, table.concat(body, "\n"))
  kit.own("ld.hints", { ["in"] = "b32", grid = 32 }, { "prefetch, createpolicy, cache hints, applypriority, discard" }, [[
    u32 d;
    asm volatile("prefetch.global.L1 [%0]; prefetch.global.L2 [%0]; prefetchu.L1 [%0]; prefetch.global.L2::evict_last [%0];" :: "l"(in + 4 * I));
    asm volatile("{ .reg .b64 q, r; createpolicy.fractional.L2::evict_first.b64 q, 1.0; createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 r, 0.5;\n"
                 "ld.global.L2::cache_hint.b32 %0, [%1], q; st.global.L2::cache_hint.b32 [%2], %0, r; }" : "=r"(d) : "l"(in + 4 * I), "l"(out + 4 * I) : "memory");
    asm volatile("{ .reg .b64 t; and.b64 t, %0, -128; applypriority.global.L2::evict_normal [t], 128; }" :: "l"(out + 4 * I) : "memory");]])
  kit.own("discard", { ["in"] = "b32", grid = 32 }, { "discard.global.L2, then a store" }, [[
    if (TID == 0) asm volatile("discard.global.L2 [%0], 128;" :: "l"(out + 4 * I) : "memory");
    __syncthreads();
    ((u32 *)out)[I] = ((const u32 *)in)[I] * 9;]])
end

local function spaces(kit)
  kit.own("spaces", { ["in"] = "b32", grid = 32 }, { "shared", "local", "const", "generic", "static global" }, [[
    __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I], d, frame[8];
    mine[TID] = a; __syncthreads();
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(d) : "r"(shared(&mine[(TID * 7) & 127])) : "memory"); ((u32 *)out)[I] = d;
    for (int i = 0; i < 8; i++) frame[i] = a * (i + 3);
    asm volatile("" :: "l"(frame) : "memory");
    ((volatile u32 *)out)[4096 + I] = ((volatile u32 *)frame)[a & 7];
    ((u32 *)out)[8192 + I] = table[a & 15];
    asm volatile("ld.b32 %0, [%1];" : "=r"(d) : "l"(&mine[(TID * 5) & 127]) : "memory"); ((u32 *)out)[12288 + I] = d;
    ((u32 *)out)[16384 + I] = words[a & 3];]], "__constant__ u32 table[16] = {1, 3, 9, 27, 81, 243, 729, 2187, 5, 6, 7, 8, 0x80000000u, 10, 11, 12}; __device__ const volatile u32 words[4] = {17, 0xffffffffu, 19, 23};")
  kit.own("isspacep", { ["in"] = "b32", grid = 32 }, { "isspacep, cvta" }, [[
    __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I], d, frame[2]; volatile u32 *volatile at = frame; at[a & 1] = a; mine[TID] = a;
    u64 where = a % 3 == 0 ? (u64)&mine[TID] : a % 3 == 1 ? (u64)at : (u64)in;
    asm volatile("{ .reg .pred p, q, r, s; .reg .b32 t; isspacep.global p, %1; isspacep.shared q, %1; isspacep.local r, %1; isspacep.shared::cta s, %1;\n"
                 "selp.b32 %0, 1, 0, p; selp.b32 t, 2, 0, q; or.b32 %0, %0, t; selp.b32 t, 4, 0, r; or.b32 %0, %0, t; selp.b32 t, 8, 0, s; or.b32 %0, %0, t; }" : "=r"(d) : "l"(where));
    u64 g, h, l; u32 x;
    asm volatile("cvta.to.global.u64 %0, %1;" : "=l"(g) : "l"(in + 4 * I));
    asm volatile("{ .reg .b64 t; cvta.to.shared.u64 t, %1; cvta.shared.u64 %0, t; }" : "=l"(h) : "l"(&mine[TID]));
    asm volatile("{ .reg .b64 t; cvta.to.local.u64 t, %1; cvta.local.u64 %0, t; }" : "=l"(l) : "l"((u64)at));
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"(g));
    ((u32 *)out)[I] = d + 16 * (h == (u64)&mine[TID]) + 32 * (l == (u64)at) + 64 * x;]])
  kit.own("cluster.self", { ["in"] = "b32", grid = 32 }, { "mapa, getctarank, barrier.cluster in a cluster of one" }, [[
    __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I], r, d, at; mine[TID] = a;
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(at) : "r"(shared(&mine[(TID * 3) & 127])));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(r) : "r"(at));
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(d) : "r"(at) : "memory");
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    ((u32 *)out)[I] = d + r;]])
  kit.own("cluster.async", { ["in"] = "b32", grid = 32 }, { "st.async", "red.async" }, [[
    __shared__ u32 mine[128], sum[128]; __shared__ u64 bar; u32 a = ((const u32 *)in)[I]; sum[TID] = TID;
    if (TID == 0) { init(shared(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); expect(shared(&bar), 1024); }
    __syncthreads();
    asm volatile("{ .reg .b32 d, m; mapa.shared::cluster.u32 d, %0, 0; mapa.shared::cluster.u32 m, %1, 0; st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [d], %2, [m]; }" :: "r"(shared(&mine[TID ^ 5])), "r"(shared(&bar)), "r"(a) : "memory");
    asm volatile("{ .reg .b32 d, m; mapa.shared::cluster.u32 d, %0, 0; mapa.shared::cluster.u32 m, %1, 0; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [d], %2, [m]; }" :: "r"(shared(&sum[TID ^ 9])), "r"(shared(&bar)), "r"(a) : "memory");
    wait(shared(&bar), 0);
    ((u32 *)out)[I] = mine[TID]; ((u32 *)out)[4096 + I] = sum[TID];]], nil, "__cluster_dims__(1, 1, 1)")
end

local function atomics(kit)
  local ops = { "add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32", "exch.b32", "inc.u32", "dec.u32", "add.f32" }
  local function each(list, place, bytes, letter)
    local body = { ("    %s a = ((const %s *)in)[I], b = ((const %s *)(in + %d))[I], d;"):format(letter == "l" and "u64" or "u32", letter == "l" and "u64" or "u32", letter == "l" and "u64" or "u32", 4096 * bytes) }
    if place == "shared" then body[#body + 1] = ("    __shared__ %s mine[128];"):format(letter == "l" and "u64" or "u32") end
    local pointer = letter == "l" and "u64" or "u32"
    for i, op in ipairs(list) do
      local at = (i - 1) * 2 * 4096
      if place == "shared" then
        body[#body + 1] = ('    mine[TID] = a; asm volatile("atom.shared.%s %%0, [%%1], %%2;" : "=%s"(d) : "r"(shared(&mine[TID])), "%s"(b) : "memory"); ((%s *)out)[%d + I] = d; ((%s *)out)[%d + I] = mine[TID];'):format(op, letter, letter, pointer, at, pointer, at + 4096)
      else
        body[#body + 1] = ('    ((%s *)out)[%d + I] = a; asm volatile("atom.global.%s %%0, [%%1], %%2;" : "=%s"(d) : "l"((%s *)out + %d + I), "%s"(b) : "memory"); ((%s *)out)[%d + I] = d;'):format(pointer, at + 4096, op, letter, pointer, at + 4096, letter, pointer, at)
      end
    end
    return table.concat(body, "\n")
  end
  local function names(list, place)
    local forms = {}
    for _, op in ipairs(list) do forms[#forms + 1] = "atom." .. place .. "." .. op end
    return forms
  end
  for _, place in ipairs({ "global", "shared" }) do
    kit.own("atom." .. place .. ".32", { ["in"] = "b32,b32", grid = 32, out = 32768 }, names(ops, place), each(ops, place, 4, "r"))
    local floats = { "add.f32" }
    kit.own("atom." .. place .. ".f32", { ["in"] = "f32,f32", grid = 32, out = 32768 }, names(floats, place), each(floats, place, 4, "r"))
    local long = { "add.u64", "min.u64", "max.s64", "and.b64", "or.b64", "xor.b64", "exch.b64" }
    kit.own("atom." .. place .. ".64", { ["in"] = "b64,b64", grid = 32, out = 65536, width = 8 }, names(long, place), each(long, place, 8, "l"))
    local doubles = { "add.f64" }
    kit.own("atom." .. place .. ".f64", { ["in"] = "f64,f64", grid = 32, out = 65536, width = 8 }, names(doubles, place), each(doubles, place, 8, "l"))
    local halves = { "add.noftz.f16x2" }
    kit.own("atom." .. place .. ".f16x2", { ["in"] = "f16x2,f16x2", grid = 32, out = 32768 }, names(halves, place), each(halves, place, 4, "r"))
    halves = { "add.noftz.bf16x2" }
    kit.own("atom." .. place .. ".bf16x2", { ["in"] = "bf16x2,bf16x2", grid = 32, out = 32768 }, names(halves, place), each(halves, place, 4, "r"))
  end
  kit.own("atom.cas", { ["in"] = "b32,b32", grid = 32, out = 32768 }, { "atom.cas.b32", "atom.cas.b64", "atom.shared.cas.b32", "atom.cas.b16" }, [[
    __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I], b = ((const u32 *)(in + 16384))[I], c = a & 1 ? a : b, d; u64 e; u32 *o = (u32 *)out;
    o[4096 + I] = a; asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;" : "=r"(d) : "l"(o + 4096 + I), "r"(c), "r"(b) : "memory"); o[I] = d;
    u64 *w = (u64 *)(out + 32768); w[I] = a; asm volatile("atom.relaxed.cta.global.cas.b64 %0, [%1], %2, %3;" : "=l"(e) : "l"(w + I), "l"((u64)c), "l"((u64)b << 32 | a) : "memory");
    w[I] += e;
    mine[TID] = a; asm volatile("atom.shared.cas.b32 %0, [%1], %2, %3;" : "=r"(d) : "r"(shared(&mine[TID])), "r"(c), "r"(b) : "memory"); o[16384 + I] = d; o[20480 + I] = mine[TID];
    o[28672 + I] = a; u16 h; asm volatile("atom.global.cas.b16 %0, [%1], %2, %3;" : "=h"(h) : "l"(o + 28672 + I), "h"((u16)c), "h"((u16)b) : "memory"); o[24576 + I] = h;]])
  local reds = { "add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32" }
  local body = { "    u32 a = ((const u32 *)in)[I], b = ((const u32 *)(in + 16384))[I]; (void)b;" }
  for i, op in ipairs(reds) do
    body[#body + 1] = ('    ((u32 *)out)[%d + I] = b; __syncthreads(); asm volatile("red.relaxed.gpu.global.%s [%%0], %%1;" :: "l"((u32 *)out + %d + (I ^ 3)), "r"(a) : "memory"); __syncthreads();'):format((i - 1) * 4096, op, (i - 1) * 4096)
    body[#body + 1] = ('    asm volatile("red.global.%s [%%0], %%1;" :: "l"((u32 *)out + %d + (I & ~15)), "r"(a) : "memory"); __syncthreads();'):format(op, (i - 1) * 4096)
  end
  local forms = {}
  for _, op in ipairs(reds) do forms[#forms + 1] = "red.global." .. op end
  kit.own("red", { ["in"] = "b32,b32", grid = 32 }, forms, table.concat(body, "\n"))
  kit.own("atom.vector", { ["in"] = "f32:16384", grid = 32, out = 65536 }, { "atom.add.v4.f32", "red.add.v2.f32" }, [[
    float4 a = ((const float4 *)in)[I], d; float4 *o = (float4 *)out; o[I] = a;
    asm volatile("atom.global.add.v4.f32 {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};" : "=f"(d.x), "=f"(d.y), "=f"(d.z), "=f"(d.w) : "l"(o + I), "f"(1.5f), "f"(a.x), "f"(-a.y), "f"(a.z) : "memory");
    o[4096 + I] = d; asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(o + 4096 + I), "f"(a.w), "f"(a.x) : "memory");]])
end

local function fragments(kit)
  local body = { "    __shared__ __align__(16) u16 tile[4][32 * 8]; u32 warp = TID / 32, lane = TID & 31, d[4]; for (int i = 0; i < 4; i++) ((u32 *)tile[warp])[lane * 4 + i] = ((const u32 *)in)[I * 4 + i]; __syncwarp();" }
  local forms = {}
  local function emit(form, count, trans)
    local outs, list = {}, {}
    for i = 1, count do outs[i] = ('"=r"(d[%d])'):format(i - 1); list[i] = "%" .. (i - 1) end
    local row = count == 1 and "lane & 7" or count == 2 and "lane & 15" or "lane"
    body[#body + 1] = ('    d[0] = d[1] = d[2] = d[3] = 7; asm volatile("%s {%s}, [%%%d];" : %s : "r"(shared(&tile[warp][8 * ((%s) ^ 3)])) : "memory"); for (int i = 0; i < 4; i++) ((u32 *)(out + %d))[I * 4 + i] = d[i];'):format(
      form, table.concat(list, ", "), count, table.concat(outs, ", "), row, #forms * 65536)
    forms[#forms + 1] = form
    return trans
  end
  for _, trans in ipairs({ "", ".trans" }) do
    for _, count in ipairs({ 1, 2, 4 }) do emit("ldmatrix.sync.aligned.m8n8.x" .. count .. trans .. ".shared.b16", count) end
  end
  kit.own("ldmatrix", { ["in"] = "b32:16384", grid = 32, out = 65536 }, forms, table.concat(body, "\n"))
  body = { "    __shared__ __align__(16) u16 tile[4][32 * 8]; u32 warp = TID / 32, lane = TID & 31, d[4]; for (int i = 0; i < 4; i++) d[i] = ((const u32 *)in)[I * 4 + i];" }
  forms = {}
  for _, trans in ipairs({ "", ".trans" }) do
    for _, count in ipairs({ 1, 2, 4 }) do
      local ins, list = {}, {}
      for i = 1, count do ins[i] = ('"r"(d[%d])'):format(i - 1); list[i] = "%" .. i end
      local form = "stmatrix.sync.aligned.m8n8.x" .. count .. trans .. ".shared.b16"
      local row = count == 1 and "lane & 7" or count == 2 and "lane & 15" or "lane"
      body[#body + 1] = ('    for (int i = 0; i < 4; i++) ((u32 *)tile[warp])[lane * 4 + i] = 9; __syncwarp(); asm volatile("%s [%%0], {%s};" :: "r"(shared(&tile[warp][8 * ((%s) ^ 1)])), %s : "memory"); __syncwarp(); for (int i = 0; i < 4; i++) ((u32 *)(out + %d))[I * 4 + i] = ((u32 *)tile[warp])[lane * 4 + i]; __syncwarp();'):format(
        form, table.concat(list, ", "), row, table.concat(ins, ", "), #forms * 65536)
      forms[#forms + 1] = form
    end
  end
  kit.own("stmatrix", { ["in"] = "b32:16384", grid = 32, out = 65536 }, forms, table.concat(body, "\n"))
  kit.alu("movmatrix", { "b32" }, "r", { "movmatrix.sync.aligned.m8n8.trans.b16" })
end

return function(kit)
  loads(kit)
  spaces(kit)
  atomics(kit)
  fragments(kit)
end
