-- Probes of asynchronous copies: cp.async, bulk copies in one dimension, and tensor copies of every rank and swizzle, boxes past the edges included.

local SWIZZLE = { [0] = "none", "32", "64", "128" }
local SIZE = { [0] = 1, 2, 4, 4, 8, 8, 2, 4, 8, 2 }

local function product(list, first)
  local all = first or 1
  for _, value in ipairs(list) do all = all * value end
  return all
end

local function map_text(map, where)
  return ("%d/%d/%d/%s/%s/%s"):format(map.type, #map.dims, map.swizzle, where, table.concat(map.dims, "/"), table.concat(map.box, "/"))
end

-- Coordinates of the box of CTA b. "inside": begins at an element, may end past the last; "before": may begin before the first; "low", "high": no
-- element of the box is in the tensor, in one dimension at least.
local function coordinates(map, where)
  local lines = {}
  local steps = { 13, 7, 3, 5, 11 }
  for i, dim in ipairs(map.dims) do
    local first, span = 0, dim
    if where == "before" then first, span = 1 - map.box[i], dim + map.box[i] - 1 end
    if i == 1 and where == "unaligned" then first, span = 3, 1 end
    if i == #map.dims and where == "low" then first, span = -3 * map.box[i], 2 * map.box[i] + 1 end
    if i == #map.dims and where == "high" then first, span = dim, 3 * dim end
    -- The first coordinate is a multiple of 16 bytes: the device refuses others (an illegal instruction).
    local mask = i == 1 and where ~= "unaligned" and (" & ~%d"):format(16 / SIZE[map.type] - 1) or ""
    lines[i] = ("int c%d = ((int)(blockIdx.x * %d %% %d) + %d)%s;"):format(i - 1, steps[i], span, first, mask)
  end
  return table.concat(lines, " ")
end

-- Coordinates of disjoint boxes that end past the last element, and begin before the first where `negative`.
local function tiles(map, negative)
  local lines, count = { "u32 t = blockIdx.x;" }, 1
  for i, dim in ipairs(map.dims) do
    local unit = i == 1 and 16 / SIZE[map.type] or 1
    local before = negative and math.floor((map.box[i] + 1) / 3 / unit) * unit or 0
    if negative and before == 0 and map.box[i] > unit then before = unit end
    local n = math.ceil((dim + before) / map.box[i])
    lines[#lines + 1] = ("int c%d = (int)(t %% %d) * %d - %d; t /= %d;"):format(i - 1, n, map.box[i], before, n)
    count = count * n
  end
  return table.concat(lines, " "), count
end

local function operands(map, first)
  local names, values = {}, {}
  for i = 1, #map.dims do
    names[i] = "%" .. (first + i - 1)
    values[i] = ('"r"(c%d)'):format(i - 1)
  end
  return "{" .. table.concat(names, ", ") .. "}", table.concat(values, ", ")
end

-- `seen`: bytes of shared memory to show where the box leaves gaps, else those of the box.
local function tensor_load(kit, name, map, modifier, where, seen)
  local bytes = product(map.box, SIZE[map.type])
  seen = seen or bytes
  local list, values = operands(map, 3)
  local grid = math.max(32, math.ceil(4096 / product(map.box)))
  local room = math.ceil(seen / 1024) * 1024
  kit.own(name, { ["in"] = "byte:" .. product(map.dims, SIZE[map.type]), n = grid * product(map.box), grid = grid, shared = room + 16, out = grid * seen,
    map0 = map_text(map, "in") }, { ("%dd, %d-byte elements, swizzle %s, box %s of %s"):format(#map.dims, SIZE[map.type], SWIZZLE[map.swizzle], table.concat(map.box, "x"),
    table.concat(map.dims, "x")) }, ([[
    u32 bar = shared(smem + @ROOM@); @COORDINATES@
    for (u32 i = TID; i < @SEEN@; i += 128) smem[i] = 0x5a;
    if (TID == 0) { init(bar, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    async_fence(); __syncthreads();
    if (TID == 0) {
        expect(bar, @BYTES@);
        asm volatile("cp.async.bulk.tensor.@RANK@d.shared::@WHERE@.global@MODE@.mbarrier::complete_tx::bytes [%0], [%1, @LIST@], [%2];" :: "r"(shared(smem)), "l"(&map0), "r"(bar), @VALUES@ : "memory");
    }
    wait(bar, 0);
    for (u32 i = TID; i < @SEEN@; i += 128) out[blockIdx.x * @SEEN@ + i] = smem[i];]]):gsub("@(%u+)@", { ROOM = room, COORDINATES = coordinates(map, where or "inside"), BYTES = bytes, SEEN = seen,
    RANK = #map.dims, MODE = modifier or "", LIST = list, VALUES = values, WHERE = "cluster" }))
end

local function tensor_store(kit, name, map, operation, negative, seen)
  local bytes = seen or product(map.box, SIZE[map.type])
  local list, values = operands(map, 2)
  local coords, grid = tiles(map, negative)
  local room = math.ceil(bytes / 1024) * 1024
  local op = operation and "cp.reduce.async.bulk.tensor" or "cp.async.bulk.tensor"
  kit.own(name, { ["in"] = "byte:" .. grid * bytes, n = grid * product(map.box), grid = grid, shared = room, out = product(map.dims, SIZE[map.type]), width = SIZE[map.type],
    map0 = map_text(map, "out") }, { ("%dd%s, %d-byte elements, swizzle %s, boxes %s of %s"):format(#map.dims, operation or "", SIZE[map.type],
    SWIZZLE[map.swizzle], table.concat(map.box, "x"), table.concat(map.dims, "x")) }, ([[
    @COORDINATES@
    for (u32 i = TID; i < @BYTES@; i += 128) smem[i] = in[blockIdx.x * @BYTES@ + i];
    async_fence(); __syncthreads();
    if (TID == 0) {
        asm volatile("@OP@.@RANK@d.global.shared::cta@MODE@.bulk_group [%0, @LIST@], [%1];" :: "l"(&map0), "r"(shared(smem)), @VALUES@ : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }]]):gsub("@(%u+)@", { COORDINATES = coords, BYTES = bytes, OP = op, RANK = #map.dims, MODE = operation or ".tile", LIST = list, VALUES = values }))
end

local function tensors(kit)
  for swizzle = 0, 3 do
    local span = swizzle == 0 and 96 or 16 * 2 ^ swizzle
    for rank = 1, 5 do
      local type = ({ 1, 9, 7, 0, 4 })[(rank + swizzle) % 5 + 1]
      local inner = span / SIZE[type]
      local dims = { ({ 4096, 208, 112, 48, 48 })[rank], rank == 2 and 59 or 37, 9, 5, 3 }
      local box = { inner, ({ 1, 11, 6, 3, 2 })[rank], 4, 3, 2 }
      if rank > 1 then dims[1] = math.ceil(dims[1] / SIZE[type] * 2 / 16) * 16 end
      if rank == 1 then box[1] = math.min(inner, 256) end
      local map = { type = type, swizzle = swizzle, dims = {}, box = {} }
      for i = 1, rank do map.dims[i], map.box[i] = dims[i], box[i] end
      tensor_load(kit, ("tensor.load.%dd.swizzle.%s"):format(rank, SWIZZLE[swizzle]), map, rank % 2 == 0 and ".tile" or "")
      if swizzle == 3 or rank == 2 then
        for _, where in ipairs({ "before", "low", "high" }) do
          tensor_load(kit, ("tensor.load.%dd.%s.%s"):format(rank, where, SWIZZLE[swizzle]), map, nil, where)
        end
      end
      tensor_store(kit, ("tensor.store.%dd.swizzle.%s"):format(rank, SWIZZLE[swizzle]), map)
      if swizzle == 3 or rank == 2 then tensor_store(kit, ("tensor.store.%dd.before.%s"):format(rank, SWIZZLE[swizzle]), map, nil, true) end
    end
  end
  -- Boxes narrower than the swizzle's span, tall boxes, and the tile of the attention kernels.
  for _, type in ipairs({ 0, 6, 7, 8 }) do
    local map = { type = type, swizzle = 0, dims = { 96, 43 }, box = { 32, 24 } }
    tensor_load(kit, ("tensor.load.unaligned.type%d"):format(type), map, nil, "unaligned")
  end
  for _, type in ipairs({ { 6, 96 }, { 7, 48 } }) do
    for _, narrow in ipairs({ { 3, 64 }, { 3, 48 }, { 3, 16 }, { 2, 16 }, { 2, 32 }, { 1, 16 } }) do
      local span, inner = 16 * 2 ^ narrow[1], narrow[2] / SIZE[type[1]]
      tensor_load(kit, ("tensor.load.narrow.%d.of.%d.type%d"):format(narrow[2], span, type[1]), { type = type[1], swizzle = narrow[1], dims = { type[2], 40 }, box = { inner, 24 } }, nil, nil, 24 * span)
      tensor_store(kit, ("tensor.store.narrow.%d.of.%d.type%d"):format(narrow[2], span, type[1]), { type = type[1], swizzle = narrow[1], dims = { type[2], 40 }, box = { inner, 24 } }, nil, nil, 24 * span)
    end
  end
  tensor_load(kit, "tensor.load.tall", { type = 0, swizzle = 0, dims = { 64, 300 }, box = { 16, 256 } })
  tensor_load(kit, "tensor.load.wide", { type = 0, swizzle = 0, dims = { 512, 20 }, box = { 256, 7 } })
  tensor_load(kit, "tensor.load.attention", { type = 9, swizzle = 3, dims = { 128, 3, 77, 2 }, box = { 64, 1, 64, 1 } })
  tensor_store(kit, "tensor.store.attention", { type = 9, swizzle = 3, dims = { 128, 3, 77, 2 }, box = { 64, 1, 64, 1 } })
  tensor_store(kit, "tensor.reduce.add", { type = 2, swizzle = 3, dims = { 64, 70 }, box = { 32, 16 } }, ".add")
  tensor_store(kit, "tensor.reduce.min", { type = 2, swizzle = 0, dims = { 64, 70 }, box = { 32, 16 } }, ".min")
end

local function simple(kit)
  local copy = [[
    u32 at = shared(smem) + TID * 16; const u8 *from = in + I * 16;
    ((uint4 *)smem)[TID] = make_uint4(7, 7, 7, 7); __syncthreads();
    @COPY@
    ((uint4 *)out)[I] = ((uint4 *)smem)[TID ^ 1];]]
  local waits = { group = 'asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory"); __syncthreads();', all = 'asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads();' }
  for name, way in pairs({ ["cp.async.ca"] = { 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.ca.shared.global [%0 + 8], [%1 + 8], 8;" :: "r"(at), "l"(from) : "memory");', "group" },
    ["cp.async.cg"] = { 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory");', "all" },
    ["cp.async.partial"] = { 'asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(TID % 17) : "memory");', "group" },
    ["cp.async.partial4"] = { 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2; cp.async.ca.shared.global [%0 + 8], [%1 + 8], 8, %3;" :: "r"(at), "l"(from), "r"(TID % 5), "r"(TID % 9) : "memory");', "all" },
    ["cp.async.ignore"] = { 'asm volatile("{ .reg .pred p; setp.lt.u32 p, %2, 64; cp.async.cg.shared.global [%0], [%1], 16, p; }" :: "r"(at), "l"(from), "r"(TID) : "memory");', "all" } }) do
    kit.own(name, { ["in"] = "b32:16384", grid = 32, shared = 2048, out = 65536 }, { name }, (copy:gsub("@COPY@", function() return way[1] .. " " .. waits[way[2]] end)))
  end
  kit.own("cp.async.groups", { ["in"] = "b32:16384", grid = 32, shared = 8192, out = 65536 }, { "cp.async groups, waited for in order" }, [[
    u32 at = shared(smem) + TID * 16; u32 sum = 0;
    for (int n = 0; n < 3; n++) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group;" :: "r"(at + n * 2048), "l"(in + ((I + n * 37) & 4095) * 16) : "memory"); }
    asm volatile("cp.async.wait_group 2;" ::: "memory"); sum += ((u32 *)smem)[TID * 4];
    asm volatile("cp.async.wait_group 1;" ::: "memory"); sum = sum * 3 + ((u32 *)smem)[512 + TID * 4 + 1];
    asm volatile("cp.async.wait_group 0;" ::: "memory"); sum = sum * 3 + ((u32 *)smem)[1024 + TID * 4 + 2];
    ((uint4 *)out)[I] = make_uint4(sum, sum + 1, sum ^ 3, 0);]])
  for _, noinc in ipairs({ "", ".noinc" }) do
    kit.own("cp.async.mbarrier" .. noinc, { ["in"] = "b32:16384", grid = 32, shared = 4096, out = 65536 }, { "cp.async.mbarrier.arrive" .. noinc }, ([[
    u32 bar = shared(smem + 2048);
    if (TID == 0) init(bar, 128);
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.mbarrier.arrive@NOINC@.shared.b64 [%2];" :: "r"(shared(smem) + TID * 16), "l"(in + I * 16), "r"(bar) : "memory");
    @ARRIVE@ wait(bar, 0);
    ((uint4 *)out)[I] = ((uint4 *)smem)[(TID * 5) & 127];]]):gsub("@(%u+)@", { NOINC = noinc, ARRIVE = noinc == "" and "arrive(bar);" or "" }))
  end
end

local function bulk(kit)
  for _, bytes in ipairs({ 16, 208, 2048 }) do
    local grid = math.ceil(32768 / bytes)
    kit.own("bulk.load." .. bytes, { ["in"] = "byte:65536", n = grid * bytes, grid = grid, shared = 4096, out = grid * bytes }, { "cp.async.bulk.shared::cluster.global, " .. bytes .. " bytes" }, ([[
    u32 bar = shared(smem + 3072);
    if (TID == 0) { init(bar, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    __syncthreads();
    if (TID == 0) {
        expect(bar, BYTES);
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], BYTES;" :: "l"(in + blockIdx.x * 16) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], BYTES, [%2];" :: "r"(shared(smem)), "l"(in + blockIdx.x * 16), "r"(bar) : "memory");
    }
    wait(bar, 0);
    for (u32 i = TID; i < BYTES; i += 128) out[blockIdx.x * BYTES + i] = smem[i];]]):gsub("BYTES", bytes))
    kit.own("bulk.store." .. bytes, { ["in"] = "byte:65536", n = grid * bytes, grid = grid, shared = 4096, out = grid * bytes }, { "cp.async.bulk.global.shared::cta, " .. bytes .. " bytes" }, ([[
    for (u32 i = TID; i < BYTES; i += 128) smem[i] = in[blockIdx.x * 16 + i];
    async_fence(); __syncthreads();
    if (TID == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], BYTES; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;" :: "l"(out + blockIdx.x * BYTES), "r"(shared(smem)) : "memory");
    }]]):gsub("BYTES", bytes))
  end
  kit.own("bulk.hint", { ["in"] = "byte:65536", n = 32768, grid = 32, shared = 2048, out = 32768 }, { "bulk load and store with L2 hints" }, [[
    u32 bar = shared(smem + 1024);
    if (TID == 0) { init(bar, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    __syncthreads();
    if (TID == 0) {
        u64 q; asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(q));
        expect(bar, 1024);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], 1024, [%2], %3;" :: "r"(shared(smem)), "l"(in + blockIdx.x * 2048), "r"(bar), "l"(q) : "memory");
        wait(bar, 0);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], 1024, %2; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" :: "l"(out + blockIdx.x * 1024), "r"(shared(smem)), "l"(q) : "memory");
    }]])
  kit.own("bulk.shared", { ["in"] = "byte:32768", n = 32768, grid = 32, shared = 4096, out = 32768 }, { "cp.async.bulk.shared::cluster.shared::cta" }, [[
    u32 bar = shared(smem + 2048);
    for (u32 i = TID; i < 1024; i += 128) smem[i] = in[blockIdx.x * 1024 + i];
    if (TID == 0) { init(bar, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    async_fence(); __syncthreads();
    if (TID == 0) { expect(bar, 1024); asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" :: "r"(shared(smem + 1024)), "r"(shared(smem)), "r"(bar) : "memory"); }
    wait(bar, 0);
    for (u32 i = TID; i < 1024; i += 128) out[blockIdx.x * 1024 + i] = smem[1024 + i];]], nil, "__cluster_dims__(1, 1, 1)")
  kit.own("bulk.reduce", { ["in"] = "b32:8192", n = 8192, grid = 32, shared = 2048, out = 32768 }, { "cp.reduce.async.bulk.global.add.u32", "cp.reduce.async.bulk.global.xor.b32" }, [[
    for (u32 i = TID; i < 256; i += 128) { ((u32 *)smem)[i] = ((const u32 *)in)[blockIdx.x * 256 + i]; ((u32 *)out)[blockIdx.x * 256 + i] = i; ((u32 *)out)[8192 + blockIdx.x * 256 + i] = i * 77; }
    __threadfence(); asm volatile("fence.proxy.async;" ::: "memory"); __syncthreads();
    if (TID == 0) asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%2], 1024; cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32 [%1], [%2], 1024; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" :: "l"(out + blockIdx.x * 1024), "l"(out + 32768 + blockIdx.x * 1024), "r"(shared(smem)) : "memory");]])
  kit.own("tensor.prefetch", { ["in"] = "byte:16384", n = 4096, grid = 32, shared = 1040, out = 32768, map0 = "1/2/0/in/64/128/64/8" }, { "prefetch.tensormap, prefetch.param.tensormap, cp.async.bulk.prefetch.tensor" }, [[
    u32 bar = shared(smem + 1024);
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map0) : "memory");
    asm volatile("prefetch.param.tensormap [probe_param_0];" ::: "memory");
    if (blockIdx.x > 1000) asm volatile("prefetch.const.tensormap [constant_map];" ::: "memory");
    if (TID == 0) { init(bar, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
    __syncthreads();
    if (TID == 0) {
        expect(bar, 1024);
        asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" :: "l"(&map0), "r"(0), "r"(blockIdx.x * 4) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"(shared(smem)), "l"(&map0), "r"(bar), "r"(0), "r"(blockIdx.x * 4) : "memory");
    }
    wait(bar, 0);
    for (u32 i = TID; i < 1024; i += 128) out[blockIdx.x * 1024 + i] = smem[i];]], 'extern "C" __constant__ Map constant_map = {{1}};')
end

return function(kit)
  simple(kit)
  bulk(kit)
  tensors(kit)
end
