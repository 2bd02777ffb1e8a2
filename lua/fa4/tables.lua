--- The Blackwell kernel as tables: barriers, memory maps, registers, roles and the paths that data takes, for a plan. Barriers, memories
-- and roles are read from the lists that the kernel itself is compiled from; limits of the hardware and the paths are written here.
local errors = require "fa4.errors"
local native = require "fa4.ffi"
local plan = require "fa4.plan"

local tables = {}
local raise, show = errors.raise, errors.show

local ROWS_MAX = 128
local KIND = {[0] = "barrier", "named", "shared", "tensor", "warp"}
local ROLES = {"load", "mma", "softmax", "correction", "store", "schedule"}

-- What the hardware has: registers and shared memory of an SM, tensor-memory columns and lanes.
tables.limits = {registers = 65536, smem_bytes = 228 * 1024, tmem_columns = 512, tmem_lanes = 128, warp_threads = 32,
  warpgroup_warps = 4}

local function roles_of(bits)
  local names = {}
  for i, name in ipairs(ROLES) do
    if bit.band(bits, 2 ^ (i - 1)) ~= 0 then names[#names + 1] = name end
  end
  return names
end

local function check(p, name)
  if not plan.is(p) then raise("tables.%s: expected a plan of op:plan(q, k, v), got %s", name, show(p)) end
end

local function rows_of(p, wanted)
  local rows, count = native.new("fa4_kernel_row[?]", ROWS_MAX), native.new("int32_t[1]")
  native.check(native.C.fa4_plan_kernel_rows(p.handle, rows, ROWS_MAX, count, native.err))
  local list = {}
  for i = 0, math.min(count[0], ROWS_MAX) - 1 do
    local row = rows[i]
    if wanted[KIND[row.kind]] then
      list[#list + 1] = {name = native.string(row.name), kind = KIND[row.kind], copies = row.copies, first = row.first, size = row.size,
        arrives = roles_of(row.arrives), waits = roles_of(row.waits)}
    end
  end
  return list
end

--- The barriers of the sm_100a kernel that would run a plan, whatever device the plan is for.
-- @tparam plan p
-- @treturn {table,...} `name`, `kind` ("barrier" or "named"), `copies`, `arrives` and `waits` (lists of roles), `count` (arrivals of
-- one phase, or threads), `first` (byte offset in shared memory, or the first id)
function tables.barriers(p)
  check(p, "barriers")
  local list = rows_of(p, {barrier = true, named = true})
  for _, row in ipairs(list) do row.count, row.size = row.size, nil end
  return list
end

--- The tensor-memory map: 32-bit columns, of 128 lanes.
-- @tparam plan p
-- @treturn {table,...} `name`, `first`, `last`, `columns`, and `overlaps`, a list of names
function tables.tensor_memory(p)
  check(p, "tensor_memory")
  local list = {}
  for i, row in ipairs(rows_of(p, {tensor = true})) do
    list[i] = {name = row.name, first = row.first, last = row.first + row.size - 1, columns = row.size, overlaps = {}}
  end
  for _, a in ipairs(list) do
    for _, b in ipairs(list) do
      if a ~= b and a.first <= b.last and b.first <= a.last then table.insert(a.overlaps, b.name) end
    end
  end
  return list
end

--- The shared-memory map.
-- @tparam plan p
-- @treturn {table,...} `name`, `first` (byte), `bytes`
-- @treturn int bytes in all
function tables.shared_memory(p)
  check(p, "shared_memory")
  local list, total = {}, 0
  for i, row in ipairs(rows_of(p, {shared = true})) do
    list[i] = {name = row.name, first = row.first, bytes = row.size}
    total = math.max(total, row.first + row.size)
  end
  return list, total
end

--- The register budget of a CTA, by warpgroup.
-- @tparam plan p
-- @treturn {table,...} `warpgroup`, `roles` (list), `threads`, `registers` (a thread), `total`
-- @treturn int registers in all
-- @treturn int registers if every thread had the largest share
function tables.registers(p)
  check(p, "registers")
  local settings, list = p.config, {}
  local share = {softmax = settings["registers.softmax"], correction = settings["registers.correction"]}
  for _, warp in ipairs(rows_of(p, {warp = true})) do
    local group = math.floor(warp.first / tables.limits.warpgroup_warps)
    if not list[group + 1] then
      list[group + 1] = {warpgroup = group, roles = {}, threads = tables.limits.warpgroup_warps * tables.limits.warp_threads,
        registers = share[warp.name] or settings["registers.other"]}
    end
    local roles = list[group + 1].roles
    if roles[#roles] ~= warp.name then roles[#roles + 1] = warp.name end
  end
  local total, most, threads = 0, 0, 0
  for _, group in ipairs(list) do
    group.total = group.threads * group.registers
    total, threads, most = total + group.total, threads + group.threads, math.max(most, group.registers)
  end
  return list, total, threads * most
end

--- The paths that data takes through the kernel, step by step.
-- @treturn {table,...} `name`, `role`, `from`, `to`, `primitive`, `hardware`, `in_gemm` (a plain GEMM kernel has the step too)
function tables.data_paths()
  return {
    {name = "S = Q K^T", role = "mma", from = "Q, K in shared memory", to = "S in tensor memory", primitive = "gemm_async",
      hardware = "tcgen05.mma, both operands in shared memory", in_gemm = true},
    {name = "P = exp2(S - r)", role = "softmax", from = "S in tensor memory", to = "P in tensor memory, through registers",
      primitive = "copy_async, row maximum, exp2, cast, copy_async", hardware = "tcgen05.ld, MUFU and FMA, tcgen05.st", in_gemm = false},
    {name = "O += P V", role = "mma", from = "P in tensor memory, V in shared memory", to = "O in tensor memory",
      primitive = "gemm_async", hardware = "tcgen05.mma, first operand in tensor memory", in_gemm = false},
    {name = "O *= scale", role = "correction", from = "O in tensor memory", to = "O in tensor memory, through registers",
      primitive = "copy_async, multiply, copy_async", hardware = "tcgen05.ld, FMUL, tcgen05.st", in_gemm = false},
    {name = "O / row_sum", role = "correction or softmax, then store", from = "O in tensor memory",
      to = "O in global memory, through registers and shared memory", primitive = "copy_async, multiply, cast, copy, TMA store",
      hardware = "tcgen05.ld, st.shared, cp.async.bulk.tensor", in_gemm = true},
  }
end

--- One online-softmax step of a row, as the kernel takes it: delayed reference, then P, row sum and O.
-- @tparam table state `row_max` (the reference), `row_sum`, `o` (a list); of a first block: row_max = -inf, row_sum = 0
-- @tparam {number,...} scores the block's scores of this row
-- @tparam {{number,...},...} v the block's rows of V
-- @tparam table opts `scale_log2` (1), `threshold` (8)
-- @treturn table `candidate_max`, `delta`, `new_ref`, `acc_scale`, `rescaled`, `p` (a list), `row_sum`, `o`
function tables.softmax_step(state, scores, v, opts)
  local scale_log2, threshold = opts and opts.scale_log2 or 1, opts and opts.threshold or 8
  local step = {candidate_max = state.row_max, p = {}, o = {}}
  for _, score in ipairs(scores) do step.candidate_max = math.max(step.candidate_max, score) end
  local first = state.row_max == -math.huge
  step.delta = first and 0 or (state.row_max - step.candidate_max) * scale_log2
  step.rescaled = not first and step.delta < -threshold
  step.new_ref = (first or step.rescaled) and step.candidate_max or state.row_max
  step.acc_scale = step.rescaled and 2 ^ step.delta or 1
  -- A row that has seen no key yet keeps -inf; 0 in its place makes masked weights 0 instead of NaN.
  local safe = step.new_ref == -math.huge and 0 or step.new_ref
  step.row_sum = state.row_sum * step.acc_scale
  for d, value in ipairs(state.o) do step.o[d] = value * step.acc_scale end
  for j, score in ipairs(scores) do
    step.p[j] = 2 ^ ((score - safe) * scale_log2)
    step.row_sum = step.row_sum + step.p[j]
    for d = 1, #step.o do step.o[d] = step.o[d] + step.p[j] * v[j][d] end
  end
  return step
end

return tables
