-- Probes of matrix products: wgmma from shared memory and from registers, several N, both majors, all swizzles; mma.sync.

local CODE = { [0] = 0, [32] = 3, [64] = 2, [128] = 1 }

local DESCRIPTOR = [[
static __device__ __forceinline__ u64 descriptor(u32 start, u32 leading, u32 stride, u64 swizzle) {
    return (u64)((start & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | swizzle << 62;
}
]]

-- Offset of k step `s` (16 of k), leading and stride offsets, for `rows` rows in a region of K = 64.
local function layout(major, swizzle, rows)
  if swizzle == 0 then return "s * 256", 128, 1024 end
  if major == "mn" then return ("s * %d"):format(16 * swizzle), 64 * swizzle, 8 * swizzle end
  local steps = swizzle / 32
  return ("s %% %d * 32 + s / %d * %d"):format(steps, steps, rows * swizzle), 16, 8 * swizzle
end

local function product(kit, name, o)
  local half = o.d == "f16"
  local words = o.n / (half and 4 or 2)
  local grid = math.max(2, math.ceil(64 / o.n))
  local a_step, a_lead, a_stride = layout(o.a_major or "k", o.swizzle, 64)
  local b_step, b_lead, b_stride = layout(o.b_major or "k", o.swizzle, o.n)
  local list, operands = {}, {}
  for i = 1, words do
    list[i] = "%" .. (i - 1)
    operands[i] = ('"+%s"(d[%d])'):format(half and "r" or "f", i - 1)
  end
  local ta, tb = o.a_major == "mn" and 1 or 0, o.b_major == "mn" and 1 or 0
  local registers = o.registers
  local tail = registers and ("{%%%d, %%%d, %%%d, %%%d}, %%%d, p, %d, %d, %d"):format(words, words + 1, words + 2, words + 3, words + 4, o.scale_a or 1, o.scale_b or 1, tb)
    or ("%%%d, %%%d, p, %d, %d, %d, %d"):format(words, words + 1, o.scale_a or 1, o.scale_b or 1, ta, tb)
  local sources = registers and '"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(db), "r"(accumulate)' or '"l"(da), "l"(db), "r"(accumulate)'
  kit.own(name, { ["in"] = o.type .. (o.data or "int") .. ":" .. (24576 + 512 * grid + 8192), n = 64 * 64 * grid, grid = grid, shared = 49152, out = grid * 128 * words * 4, near = o.near,
    product = 1 }, { ("m64n%dk16.%s.%s, A %s, B %s, swizzle %d, K 64"):format(o.n, o.d, o.type, registers and "in registers" or (o.a_major or "k") .. "-major", (o.b_major or "k") .. "-major",
    o.swizzle) }, ([[
    for (u32 i = TID; i < 12288; i += 128) ((u32 *)smem)[i] = ((const u32 *)(in + blockIdx.x * 1024))[i];
    async_fence(); __syncthreads();
    @TYPE@ d[@WORDS@];
    for (int i = 0; i < @WORDS@; i++) d[i] = @START@;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (u32 s = 0; s < 4; s++) {
        u64 db = descriptor(shared(smem) + 16384 + (@BSTEP@), @BLEAD@, @BSTRIDE@, @CODE@); u32 accumulate = @ACCUMULATE@;
        @ASOURCE@
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %@LAST@, 0; wgmma.mma_async.sync.aligned.m64n@N@k16.@D@.@AB@.@AB@ {@LIST@}, @TAIL@; }" : @OPERANDS@ : @SOURCES@);
    }
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < @WORDS@; i++) ((@TYPE@ *)out)[(blockIdx.x * @WORDS@ + i) * 128 + TID] = d[i];]]):gsub("@(%u+)@", {
    TYPE = half and "u32" or "float", WORDS = words, START = half and "0x40004000u + 0" or "(float)(i % 5) - 2.0f", BSTEP = b_step, BLEAD = b_lead, BSTRIDE = b_stride, CODE = CODE[o.swizzle],
    ACCUMULATE = o.accumulate and "1" or "s > 0", N = o.n, D = o.d, AB = o.type, LIST = table.concat(list, ", "), TAIL = tail, OPERANDS = table.concat(operands, ", "), SOURCES = sources,
    LAST = words + (registers and 5 or 2),
    ASOURCE = registers and "u32 a[4]; for (int j = 0; j < 4; j++) a[j] = ((const u32 *)(in + 16384))[(s * 4 + j) * 128 + TID];"
      or ("u64 da = descriptor(shared(smem) + (%s), %d, %d, %d);"):format(a_step, a_lead, a_stride, CODE[o.swizzle]) }), DESCRIPTOR)
end

local function wgmma(kit)
  for _, type in ipairs({ "f16", "bf16" }) do
    for _, n in ipairs({ 8, 16, 24, 64, 96, 128, 192, 256 }) do
      product(kit, ("wgmma.ss.%s.n%d"):format(type, n), { type = type, d = "f32", n = n, swizzle = 128 })
    end
    for _, n in ipairs({ 8, 64, 128, 176, 256 }) do
      product(kit, ("wgmma.rs.%s.n%d"):format(type, n), { type = type, d = "f32", n = n, swizzle = 128, registers = true, accumulate = true })
    end
    for _, swizzle in ipairs({ 0, 32, 64, 128 }) do
      if swizzle < 128 then product(kit, ("wgmma.ss.%s.swizzle%d"):format(type, swizzle), { type = type, d = "f32", n = 64, swizzle = swizzle }) end
      product(kit, ("wgmma.ss.%s.b_mn.swizzle%d"):format(type, swizzle), { type = type, d = "f32", n = 128, swizzle = swizzle, b_major = "mn" })
      product(kit, ("wgmma.ss.%s.a_mn.swizzle%d"):format(type, swizzle), { type = type, d = "f32", n = 64, swizzle = swizzle, a_major = "mn" })
    end
    product(kit, ("wgmma.ss.%s.both_mn"):format(type), { type = type, d = "f32", n = 256, swizzle = 128, a_major = "mn", b_major = "mn", accumulate = true })
    product(kit, ("wgmma.rs.%s.b_mn"):format(type), { type = type, d = "f32", n = 128, swizzle = 128, b_major = "mn", registers = true })
    product(kit, ("wgmma.ss.%s.negate_a"):format(type), { type = type, d = "f32", n = 64, swizzle = 128, scale_a = -1, accumulate = true })
    product(kit, ("wgmma.ss.%s.negate_b"):format(type), { type = type, d = "f32", n = 64, swizzle = 64, scale_b = -1 })
    -- Sums of few bits, exact wherever 24 bits of f32 are kept; then operands of all bits and exponents within 2^+-6: four steps of 16 products,
    -- each at most 2^14 (1 + 2^-10) in magnitude, sums below 2^20: a unit that cuts each addend at 2^-23 of the largest loses below 64 * 2^-3.
    product(kit, ("wgmma.ss.%s.unit"):format(type), { type = type, d = "f32", n = 128, swizzle = 128, data = "unit" })
    product(kit, ("wgmma.rs.%s.unit"):format(type), { type = type, d = "f32", n = 64, swizzle = 128, data = "unit", registers = true })
    product(kit, ("wgmma.ss.%s.rounded"):format(type), { type = type, d = "f32", n = 128, swizzle = 128, data = "wild", near = "0,0.125" })
    product(kit, ("wgmma.rs.%s.rounded"):format(type), { type = type, d = "f32", n = 64, swizzle = 128, data = "wild", registers = true, near = "0,0.125" })
  end
  -- Each instruction rounds its sum, below 64, to f16: half of 2^-5, four times.
  product(kit, "wgmma.ss.f16.half_d.rounded", { type = "f16", d = "f16", n = 128, swizzle = 128, data = "unit", near = "0,0.0625" })
  product(kit, "wgmma.ss.f16.half_d", { type = "f16", d = "f16", n = 128, swizzle = 128 })
  product(kit, "wgmma.rs.f16.half_d", { type = "f16", d = "f16", n = 64, swizzle = 64, registers = true, accumulate = true })
end

local function mma(kit)
  kit.own("mma.f16", { ["in"] = "f16int:65536", n = 8192, grid = 32, out = 65536 }, { "mma.m16n8k16.f32.f16", "mma.m16n8k16.f32.bf16 of the same bits" }, [[
    const u32 *w = (const u32 *)in + I * 4; float d[4] = {1, 2, 3, 4}, e[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(w[4]), "r"(w[5]));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(e[0]), "+f"(e[1]), "+f"(e[2]), "+f"(e[3]) : "r"(0x3f803f80), "r"(0xbf803f80), "r"(0x40003f80), "r"(0x3f804000), "r"(0x3f804040), "r"(w[5] & 1 ? 0x40003f80 : 0x3f803f80));
    for (int i = 0; i < 4; i++) { ((float *)out)[I * 4 + i] = d[i]; ((float *)out)[16384 + I * 4 + i] = e[i]; }]])
  kit.own("mma.s8", { ["in"] = "b32:32768", n = 8192, grid = 32, out = 65536 }, { "mma.m16n8k32.s32.s8" }, [[
    const u32 *w = (const u32 *)in + I * 4; int d[4] = {1, -2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(w[4]), "r"(w[5]));
    for (int i = 0; i < 4; i++) ((int *)out)[I * 4 + i] = d[i];]])
end

return function(kit)
  wgmma(kit)
  mma(kit)
end
