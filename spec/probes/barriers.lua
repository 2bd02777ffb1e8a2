-- Probes of named barriers, fences and mbarriers.

-- Threads exchange words through shared memory; only a barrier that holds gives the neighbour's word.
local function exchange(kit)
  for _, way in ipairs({ { "bar.sync", "bar.sync 3;" }, { "bar.sync.count", "bar.sync 3, 128;" }, { "bar.cta.sync", "bar.cta.sync 1;" }, { "barrier.sync", "barrier.sync 5;" },
    { "barrier.sync.aligned", "barrier.sync.aligned 2, 128;" }, { "barrier.cta.sync", "barrier.cta.sync 7, 128;" }, { "barrier.cta.sync.aligned", "barrier.cta.sync.aligned 0;" } }) do
    kit.own(way[1], { ["in"] = "b32", grid = 32 }, { way[2] }, ([[
    __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I];
    for (int round = 0; round < 5; round++) {
        mine[TID] = a + round;
        asm volatile("@WAY@" ::: "memory");
        a = a * 3 + mine[(TID + 37 * (round + 1)) & 127];
        asm volatile("@WAY@" ::: "memory");
    }
    ((u32 *)out)[I] = a;]]):gsub("@WAY@", way[2]))
  end
  for _, way in ipairs({ "bar", "bar.cta", "barrier", "barrier.cta" }) do
    kit.own(way .. ".arrive", { ["in"] = "b32", grid = 32 }, { way .. ".arrive by two warps, .sync by two others" }, ([[
    __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I]; ((u32 *)out)[I] = 1;
    for (int round = 0; round < 3; round++) {
        if (TID < 64) { mine[TID] = a * (round + 2); asm volatile("@W@.arrive 4, 128;" ::: "memory"); asm volatile("@W@.sync 6, 128;" ::: "memory"); }
        else { asm volatile("@W@.sync 4, 128;" ::: "memory"); a += mine[(TID * 5) & 63]; asm volatile("@W@.arrive 6, 128;" ::: "memory"); }
    }
    ((u32 *)out)[I] = a;]]):gsub("@W@", way))
    kit.own(way .. ".red", { ["in"] = "b32,index", grid = 32 }, { way .. ".red.popc", way .. ".red.and", way .. ".red.or" }, ([[
    u32 a = ((const u32 *)in)[I], t = ((const u32 *)(in + 16384))[I] / 128 * 0x8000000u, d, q = a < t, lone = TID == blockIdx.x, most = TID != 2 * blockIdx.x + 64;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @W@.red.popc.u32 %0, 1, p; }" : "=r"(d) : "r"(q) : "memory"); ((u32 *)out)[I] = d;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @W@.red.and.pred p, 2, 128, p; selp.b32 %0, 1, 0, p; }" : "=r"(d) : "r"(most) : "memory"); ((u32 *)out)[4096 + I] = d;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @W@.red.or.pred p, 3, !p; selp.b32 %0, 1, 0, p; }" : "=r"(d) : "r"((u32)(lone || (blockIdx.x & 1))) : "memory"); ((u32 *)out)[8192 + I] = d;]]):gsub("@W@", way))
  end
  kit.own("bar.warp.sync", { ["in"] = "b32", grid = 32 }, { "bar.warp.sync" }, [[
    __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I];
    for (int round = 0; round < 4; round++) {
        mine[TID] = a; asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); a = a * 5 + mine[(TID & ~31) | ((TID + 9) & 31)]; asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    }
    ((u32 *)out)[I] = a;]])
  kit.own("fences", { ["in"] = "b32", grid = 32 }, { "membar and fence of every kind" }, [[
    __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I]; mine[TID] = a;
    asm volatile("membar.cta; membar.gl; membar.sys; fence.acq_rel.cta; fence.acq_rel.gpu; fence.acq_rel.sys; fence.sc.cta; fence.sc.gpu; fence.sc.sys; fence.acq_rel.cluster; fence.sc.cluster;" ::: "memory");
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cta; fence.proxy.alias;" ::: "memory");
    asm volatile("fence.proxy.tensormap::generic.release.cta; fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    __syncthreads(); ((u32 *)out)[I] = mine[TID ^ 21];]])
  kit.own("fence.tensormap", { ["in"] = "b32", grid = 32 }, { "fence.proxy.tensormap::generic.acquire" }, [[
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(in) : "memory"); ((u32 *)out)[I] = ((const u32 *)in)[I] + 3;]])
  kit.own("fence.proxy.cluster", { ["in"] = "b32", grid = 32 }, { "fence.proxy.async::generic with sync_restrict" }, [[
    asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster; fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
    ((u32 *)out)[I] = ((const u32 *)in)[I] + 4;]])
end

local function mbarriers(kit)
  local ring = [[
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES]; __shared__ u32 slot[STAGES][64];
    u32 a = ((const u32 *)in)[I], sum = a;
    if (TID == 0) { for (int i = 0; i < STAGES; i++) { init(shared(&full[i]), 64); init(shared(&empty[i]), 64); } asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    __syncthreads();
    for (int n = 0; n < 13; n++) {
        int i = n % STAGES; u32 parity = n / STAGES & 1;
        if (TID < 64) { wait(shared(&empty[i]), parity ^ 1); slot[i][TID] = a * (n + 1); arrive(shared(&full[i])); }
        else { wait(shared(&full[i]), parity); sum = sum * 3 + slot[i][(TID * 11 + n) & 63]; arrive(shared(&empty[i])); }
    }
    ((u32 *)out)[I] = sum;]]
  for _, stages in ipairs({ 1, 2, 3, 4 }) do
    kit.own("mbarrier.ring" .. stages, { ["in"] = "b32", grid = 32 }, { "mbarrier.init, arrive, try_wait.parity: a ring of " .. stages }, (ring:gsub("STAGES", stages)))
  end
  kit.own("mbarrier.state", { ["in"] = "b32", grid = 32 }, { "arrive with state, test_wait and try_wait by state", "pending_count", "inval, init again" }, [[
    __shared__ __align__(8) u64 bar; __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I], d = 0, c; u64 s;
    if (TID == 0) init(shared(&bar), 128);
    __syncthreads();
    for (int n = 0; n < 4; n++) {
        mine[TID] = a + n;
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1];" : "=l"(s) : "r"(shared(&bar)) : "memory");
        u32 ready = 0;
        while (!ready) {
            if (n & 1) asm volatile("{ .reg .pred p; mbarrier.test_wait.acquire.cta.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" : "=r"(ready) : "r"(shared(&bar)), "l"(s) : "memory");
            else asm volatile("{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2, 1000; selp.b32 %0, 1, 0, p; }" : "=r"(ready) : "r"(shared(&bar)), "l"(s) : "memory");
        }
        d = d * 7 + mine[(TID * 3 + n) & 127];
        __syncthreads();
    }
    ((u32 *)out)[I] = d;
    __syncthreads();
    if (TID == 0) {
        asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(shared(&bar)) : "memory");
        init(shared(&bar), 9 + (a & 63));
        asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 5;" : "=l"(s) : "r"(shared(&bar)) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(c) : "l"(s)); mine[0] = c;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 2;" : "=l"(s) : "r"(shared(&bar)) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(c) : "l"(s)); mine[1] = c;
    }
    __syncthreads();
    ((u32 *)out)[4096 + I] = mine[0] * 1000 + mine[1] + TID;
    u32 early, later; asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }" : "=r"(early) : "r"(shared(&bar)) : "memory");
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 1; selp.b32 %0, 1, 0, p; }" : "=r"(later) : "r"(shared(&bar)) : "memory");
    ((u32 *)out)[8192 + I] = early + 2 * later + 4 * TID;]])
  kit.own("mbarrier.tx", { ["in"] = "b32", grid = 32 }, { "expect_tx, complete_tx, arrive.expect_tx", "arrive_drop, arrive_drop.expect_tx" }, [[
    __shared__ __align__(8) u64 bar[2]; __shared__ u32 mine[128]; u32 a = ((const u32 *)in)[I], d, e, f;
    if (TID == 0) { init(shared(&bar[0]), 1); init(shared(&bar[1]), 128); }
    __syncthreads();
    if (TID == 0) {
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 512;" :: "r"(shared(&bar[0])) : "memory");
        expect(shared(&bar[0]), 128);
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }" : "=r"(d) : "r"(shared(&bar[0])) : "memory");
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 640;" :: "r"(shared(&bar[0])) : "memory");
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }" : "=r"(e) : "r"(shared(&bar[0])) : "memory");
        mine[0] = d + 2 * e;
    }
    __syncthreads();
    wait(shared(&bar[0]), 0);
    ((u32 *)out)[I] = mine[0] + 4 * a;
    __syncthreads();
    mine[TID] = a;
    if (TID & 1) {
        if (TID & 2) asm volatile("mbarrier.arrive_drop.shared.b64 _, [%0];" :: "r"(shared(&bar[1])) : "memory");
        else asm volatile("{ .reg .b64 s; mbarrier.arrive_drop.expect_tx.shared.b64 s, [%0], 16; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16; }" :: "r"(shared(&bar[1])) : "memory");
    } else arrive(shared(&bar[1]));
    wait(shared(&bar[1]), 0);
    f = mine[TID ^ 77 & 127];
    __syncthreads();
    if (!(TID & 1)) { mine[TID] = f + 1; arrive(shared(&bar[1])); }
    wait(shared(&bar[1]), 1);
    ((u32 *)out)[4096 + I] = mine[(TID * 2 + 6) & 126] + f;]])
end

return function(kit)
  exchange(kit)
  mbarriers(kit)
end
