--- Plans: a checked request and what follows from it, as C derived it. A plan prints as a Lua chunk: remarks for people, then the
-- request that makes it again. Fills the request's cdata (the one place that does) and reads the plan's.
local config = require "fa4.config"
local errors = require "fa4.errors"
local mask = require "fa4.mask"
local native = require "fa4.ffi"
local report = require "fa4.report"
local schedule = require "fa4.schedule"
local tensor = require "fa4.tensor"

local plan = {}
local raise = errors.raise

local ROW_MAX = {[0] = "each_block", "first_block"}
local KV_ORDER = {[0] = "reverse", "forward", "sink_first"}
local MASK = {[0] = "full", "causal", "window", "prefix", "document", "bits", "all_of", "any_of", "none_of"}
local TILE_ORDER = {[0] = "linear", "lpt", "list"}
local CLASS = {[0] = "full", "causal", "interval", "bits"}
local BACKEND = {[0] = "cpu", "cuda sm_100a", "cuda sm_90a", "emu sm_100a", "emu sm_90a"}

-- Config field -> schedule field, and how its value becomes a number.
local function same(value) return value end
local function truth(value) return value and 1 or 0 end
local function choice(names)
  local code = {}
  for i, name in pairs(names) do code[name] = i end
  return function(value) return code[value] end
end
local SCHEDULE = {
  {"rescale.threshold", "rescale_threshold", same}, {"row_max", "row_max", choice(ROW_MAX)},
  {"kv_order", "kv_order", choice(KV_ORDER)}, {"exp2.emulated_pairs", "exp2_emulated_pairs", same},
  {"exp2.first_fragment", "exp2_first_fragment", same}, {"p_split", "p_split", same}, {"workers", "workers", same},
  {"threads", "threads", same}, {"gqa_packing", "gqa_packing", truth}, {"tile.rows", "tile_rows", same},
  {"tile.keys", "tile_keys", same}, {"pipeline.q_stages", "q_stages", same}, {"pipeline.kv_stages", "kv_stages", same},
  {"registers.softmax", "registers_softmax", same}, {"registers.correction", "registers_correction", same},
  {"registers.other", "registers_other", same}, {"order_barrier", "order_barrier", truth},
  {"integer_reference", "integer_reference", truth}, {"kv_splits", "kv_splits", same}, {"sms", "sms", same},
  {"counters", "counters", truth},
}
local PROBLEM = {"batch", "seqlen_q", "seqlen_kv", "heads_q", "heads_kv", "dim", "dim_v", "dtype", "scale", "soft_cap", "lse"}
local NODE = {"kind", "operands", "left", "right", "length", "data_offset", "per_head", "per_batch"}

local methods = {}
local meta = {methods = methods}

-- ---- the request -----------------------------------------------------------------------------------------------------------

-- Fills the problem from plain values; every one was checked before.
local function fill_problem(to, problem, nodes)
  to.batch, to.seqlen_q, to.seqlen_kv = problem.batch, problem.seqlen_q, problem.seqlen_kv
  to.heads_q, to.heads_kv, to.dim, to.dim_v = problem.heads_q, problem.heads_kv, problem.dim, problem.dim_v
  to.dtype, to.lse = tensor.code[problem.dtype], truth(problem.lse)
  to.scale, to.soft_cap = problem.scale, problem.soft_cap
  to.mask_nodes = #nodes
  for i, node in ipairs(nodes) do
    for _, field in ipairs(NODE) do to.mask[i - 1][field] = node[field] or 0 end
  end
end

local function fill_schedule(to, flat)
  native.C.fa4_schedule_default(to)
  for _, entry in ipairs(SCHEDULE) do
    local value = flat[entry[1]]
    if value ~= nil then to[entry[2]] = entry[3](value) end
  end
  local order = flat.schedule
  if order then
    -- A function reorders the natural order.
    to.tile_order = order.kind == "lpt" and 1 or 0
    if order.l2_bytes then to.l2_bytes = order.l2_bytes end
  end
end

--- A request as C takes it. For the library's own modules.
-- @tparam table flat a checked config
-- @tparam table problem plain values: see `plan.problem_of`
-- @treturn table `cdata`, and `keep`, which must live as long as C uses it
function plan.request(flat, problem)
  local nodes, data = mask.compile(flat.mask or mask.full(), problem)
  local made = native.new("fa4_request")
  made.device = flat.device
  fill_problem(made.problem, problem, nodes)
  fill_schedule(made.schedule, flat)
  if data then made.mask_data, made.mask_words = data.words, data.count end
  return {cdata = made, keep = {data, flat.device}, nodes = nodes, data = data}
end

--- The request behind a plan, with the words of its mask. For validation.
-- @tparam plan self a plan
-- @treturn table see `plan.request`
function plan.request_again(self)
  local h = self.header
  local made = native.new("fa4_request")
  made.device = "cpu"
  made.problem, made.schedule = h.problem, h.schedule
  if h.mask_word_count > 0 then
    made.mask_words = h.mask_word_count
    made.mask_data = native.cast("const int32_t *", native.cast("const char *", self.handle) + h.mask_word_offset)
  end
  return {cdata = made, keep = self}
end

--- The problem of three tensors under a config.
-- @tparam table flat a checked config
-- @tparam tensor q, k, v shapes as in `fa4.attention`, already checked
-- @treturn table `batch`, `seqlen_q`, ..., `dtype`, `scale`, `soft_cap`, `lse`
function plan.problem_of(flat, q, k, v)
  return {
    batch = q.shape[1], seqlen_q = q.shape[2], seqlen_kv = k.shape[2], heads_q = q.shape[3], heads_kv = k.shape[3],
    dim = q.shape[4], dim_v = v.shape[4], dtype = q.dtype,
    scale = flat.scale or 1 / math.sqrt(math.max(1, q.shape[4])), soft_cap = flat.soft_cap, lse = flat.lse,
  }
end

-- ---- the plan --------------------------------------------------------------------------------------------------------------

local function task_tables(handle, header)
  local raw = native.cast("const fa4_task *", native.cast("const char *", handle) + header.task_offset)
  local list = {}
  for i = 0, tonumber(header.task_count) - 1 do
    local task = raw[i]
    local tiles = {task.tile}
    if task.tiles > 1 then tiles[2] = task.tile + 1 end
    list[i + 1] = {
      batch = task.batch, head = task.head, tiles = tiles, blocks = tonumber(task.blocks), split = task.split,
      worker = task.worker >= 0 and task.worker or nil,
    }
  end
  return list
end

local function wrap(handle, source)
  return setmetatable({handle = handle, header = native.C.fa4_plan_get(handle), source = source}, meta)
end

--- A plan for a config and a problem. For the library's own modules.
-- @tparam table flat a checked config
-- @tparam table problem see `plan.problem_of`
-- @treturn ?plan nil when the device cannot run it
-- @treturn ?string the reason
function plan.new(flat, problem)
  local request = plan.request(flat, problem)
  local handle, message = native.plan(request.cdata)
  native.keep(request)
  if not handle then return nil, message end
  local source = {problem = problem, nodes = request.nodes, base_order = request.cdata.schedule.tile_order, mask = flat.mask}
  local made = wrap(handle, source)
  local order = flat.schedule
  if not (order and order.fn) then return made end
  local indices, workers = schedule.apply(order, made:tasks(), made.workers)
  return made:reordered(indices, workers)
end

--- The same plan with its tasks in another order.
-- @tparam {int,...} order old indices, from 0
-- @tparam[opt] {int,...} workers a worker, from 0, per task of the new order
-- @treturn plan
-- @raise when order is not a permutation
function methods:reordered(order, workers)
  local count = tonumber(self.header.task_count)
  if #order ~= count then raise("plan: order: expected %d entries, got %d", count, #order) end
  local indices = native.new("int64_t[?]", math.max(count, 1))
  local owners = workers and native.new("int32_t[?]", math.max(count, 1)) or nil
  for i = 1, count do
    indices[i - 1] = errors.whole(("plan: order, entry %d"):format(i - 1), order[i], 0, count - 1)
    if owners then owners[i - 1] = errors.whole(("plan: workers, entry %d"):format(i - 1), workers[i], -1, 2 ^ 31 - 1) end
  end
  local source = {}
  for key, value in pairs(self.source) do source[key] = value end
  source.order, source.owners = order, workers
  return wrap(native.reorder(self.handle, indices, owners), source)
end

--- The tasks in the order in which they are handed out.
-- @treturn {table,...} `{batch =, head =, tiles = {first [, second]}, blocks =, split =, worker =}`, numbers from 0
function methods:tasks()
  return task_tables(self.handle, self.header)
end

local function list_of(self, batch, head, tile)
  local h = self.header
  errors.whole("plan: batch", batch, 0, tonumber(h.problem.batch) - 1)
  errors.whole("plan: head", head, 0, h.heads - 1)
  errors.whole("plan: tile", tile, 0, tonumber(h.tiles_per_head) - 1)
  local b = h.map_batches > 1 and batch or 0
  local g = h.map_heads > 1 and head or 0
  local base = native.cast("const char *", self.handle)
  local lists = native.cast("const fa4_block_list *", base + h.list_offset)
  local blocks = native.cast("const fa4_block *", base + h.block_offset)
  return lists[(b * tonumber(h.map_heads) + g) * tonumber(h.tiles_per_head) + tile], blocks
end

--- The key blocks that a tile visits, in order.
-- @tparam int batch, head, tile as tasks name them, from 0
-- @treturn {table,...} `{key_block =, class = "full" | "partial", bit_tile =}`
function methods:blocks(batch, head, tile)
  local list, blocks = list_of(self, batch, head, tile)
  local made = {}
  for i = 0, list.count - 1 do
    local block = blocks[tonumber(list.first) + i]
    made[i + 1] = {
      key_block = block.key_block, class = block.mask == -1 and "full" or "partial",
      bit_tile = block.mask >= 0 and block.mask or nil,
    }
  end
  return made
end

--- "skip", "full" or "partial" for each key block of a tile.
-- @tparam int batch, head, tile as tasks name them, from 0
-- @treturn {string,...} by key block, from 0: `classes[0]` is the first
function methods:classes(batch, head, tile)
  local made = {}
  for block = 0, tonumber(self.header.blocks_per_row) - 1 do made[block] = "skip" end
  for _, block in ipairs(self:blocks(batch, head, tile)) do made[block.key_block] = block.class end
  return made
end

--- Whether a query sees a key, by the plan's mask.
-- @tparam int batch, head_q, i, j from 0
-- @treturn boolean
function methods:visible(batch, head_q, i, j)
  return native.C.fa4_plan_visible(self.handle, batch, head_q, i, j) ~= 0
end

--- Plan rows as (query position, query head), when heads are packed or not.
-- @tparam int head as tasks name it, from 0
-- @tparam int tile query tile, from 0
-- @tparam int row row of the tile, from 0
-- @treturn int query position
-- @treturn int query head
function methods:row(head, tile, row)
  local h = self.header
  if h.packed == 1 then
    return tile * h.positions + math.floor(row / h.group), head * h.group + row % h.group
  end
  return tile * h.positions + row, head
end

local PICTURE_ROWS, PICTURE_COLUMNS = 24, 60

--- A picture of the block map of one head: a row per query tile, a column per key block; `#` full, `+` partial, `.` skipped.
-- @tparam[opt=0] int batch
-- @tparam[opt=0] int head as tasks name it
-- @treturn string
function methods:picture(batch, head)
  local h = self.header
  local tiles, columns = tonumber(h.tiles_per_head), tonumber(h.blocks_per_row)
  if tiles == 0 or h.heads == 0 or h.problem.batch == 0 then return "no tiles" end
  local rows = {}
  for tile = 0, math.min(tiles, PICTURE_ROWS) - 1 do
    local classes, cells = self:classes(batch or 0, head or 0, tile), {}
    for block = 0, math.min(columns, PICTURE_COLUMNS) - 1 do
      cells[#cells + 1] = ({full = "#", partial = "+", skip = "."})[classes[block]]
    end
    if columns > PICTURE_COLUMNS then cells[#cells + 1] = "..." end
    rows[#rows + 1] = ("tile %3d  %s"):format(tile, table.concat(cells))
  end
  if tiles > PICTURE_ROWS then rows[#rows + 1] = ("... %d more tiles"):format(tiles - PICTURE_ROWS) end
  return table.concat(rows, "\n")
end

--- Runs the plan. For people, `op(q, k, v)` is the way; this is for a plan that was parsed.
-- @tparam tensor q, k, v as for the operator
-- @tparam[opt] table outputs `o`, `lse`
-- @treturn table as the operator returns
function methods:run(q, k, v, outputs)
  return require("fa4.attention").run_plan(self, q, k, v, outputs)
end

local FIELDS = {
  hash = function(h) return report.hex(h.hash) end,
  device = function(h) return native.string(h.device) end,
  variant = function(h) return native.string(h.variant) end,
  backend = function(h) return BACKEND[h.backend] end,
  mask_class = function(h) return CLASS[h.mask_class] end,
  workers = function(h) return h.schedule.workers > 0 and h.schedule.workers or math.max(1, h.schedule.sms) end,
  threads = function(h) return h.schedule.threads end,
  packed = function(h) return h.packed == 1 end,
  group = function(h) return h.group end,
  heads = function(h) return h.heads end,
  on_gpu = function(h) return h.backend == native.C.FA4_BACKEND_CUDA_SM90 or h.backend == native.C.FA4_BACKEND_CUDA_SM100 end,
  positions = function(h) return h.positions end,
  tiles_per_head = function(h) return tonumber(h.tiles_per_head) end,
  blocks_per_row = function(h) return tonumber(h.blocks_per_row) end,
  task_count = function(h) return tonumber(h.task_count) end,
  block_count = function(h) return tonumber(h.block_count) end,
  bit_tile_count = function(h) return tonumber(h.bit_tile_count) end,
  bytes = function(h) return tonumber(h.bytes) end,
  smem_bytes = function(h) return tonumber(h.smem_bytes) end,
  tmem_columns = function(h) return tonumber(h.tmem_columns) end,
  registers = function(h) return tonumber(h.registers) end,
  scale_log2 = function(h) return h.scale_log2 end,
}

meta.fields = FIELDS

function meta.__index(self, key)
  local method = methods[key]
  if method then return method end
  local field = FIELDS[key]
  if field then return field(self.header) end
  if key == "config" or key == "problem" then
    local literal = plan.literal(self)
    return literal[key]
  end
end

function meta.__eq(a, b)
  local ha, hb = a.header, b.header
  if ha.hash ~= hb.hash or ha.bytes ~= hb.bytes then return false end
  return native.string(native.cast("const char *", a.handle), tonumber(ha.bytes))
    == native.string(native.cast("const char *", b.handle), tonumber(hb.bytes))
end

--- True for a plan.
-- @tparam any value anything
-- @treturn boolean
function plan.is(value)
  return getmetatable(value) == meta
end

-- ---- printing and replaying ------------------------------------------------------------------------------------------------

local function mask_words(self)
  local h = self.header
  local count = tonumber(h.mask_word_count)
  return native.cast("const uint32_t *", native.cast("const char *", self.handle) + h.mask_word_offset), count
end

-- The words as hex, runs of equal ones as "word*count".
local function words_list(words, count)
  local parts, i = {}, 0
  while i < count do
    local stop = i
    while stop + 1 < count and words[stop + 1] == words[i] do stop = stop + 1 end
    local run = stop - i + 1
    parts[#parts + 1] = bit.tohex(words[i]) .. (run > 1 and "*" .. run or "")
    i = stop + 1
  end
  return parts
end

-- From a list of strings of such words.
local function words_from(list, count)
  if type(list) ~= "table" then raise("plan.parse: mask_data: expected a list of strings, got %s", errors.show(list)) end
  for i, line in ipairs(list) do
    if type(line) ~= "string" then raise("plan.parse: mask_data: expected a list of strings, got %s in it", errors.show(line)) end
  end
  local text = table.concat(list, " ")
  local storage = native.storage(count * 4)
  local words = native.cast("int32_t *", native.C.fa4_storage_data(storage))
  local at = 0
  for word, run in text:gmatch("(%x+)%*?(%d*)") do
    run = run == "" and 1 or tonumber(run)
    if at + run > count then raise("plan.parse: mask_data holds more than %d words", count) end
    for _ = 1, run do
      words[at] = bit.tobit(tonumber(word, 16))
      at = at + 1
    end
  end
  if at ~= count then raise("plan.parse: mask_data: expected %d words, got %d", count, at) end
  return {storage = storage, words = words, count = count}
end

--- The request that makes this plan again, as plain tables with every field resolved.
-- @tparam plan self a plan
-- @treturn table `device`, `problem`, `mask`, `config`, and `order`, `workers` where a function made them
function plan.literal(self)
  local h = self.header
  local literal = {device = native.string(h.device), problem = {}, mask = {}, config = {}, order = self.source.order,
    owners = self.source.owners}
  for _, name in ipairs(PROBLEM) do
    local value = tonumber(h.problem[name])
    if name == "dtype" then value = tensor.dtypes[value + 1] end
    if name == "lse" then value = value == 1 end
    literal.problem[name] = value
  end
  for i = 1, h.problem.mask_nodes do
    local node = {}
    for _, field in ipairs(NODE) do
      local value = tonumber(h.problem.mask[i - 1][field])
      if value ~= 0 or field == "kind" then node[field] = value end
    end
    literal.mask[i] = node
  end
  for _, entry in ipairs(SCHEDULE) do
    local value = tonumber(h.schedule[entry[2]])
    local kind = config.field(entry[1]).kind
    if kind == "boolean" then value = value == 1 end
    if entry[1] == "row_max" then value = ROW_MAX[value] end
    if entry[1] == "kv_order" then value = KV_ORDER[value] end
    literal.config[entry[1]] = value
  end
  literal.tile_order = TILE_ORDER[self.source.base_order == 1 and 1 or (self.source.order and 0 or h.schedule.tile_order)]
  literal.l2_bytes = tonumber(h.schedule.l2_bytes)
  return literal
end

local function value_text(value)
  if type(value) == "number" then
    if value == math.floor(value) and math.abs(value) < 2 ^ 53 then return ("%.0f"):format(value) end
    return ("%.17g"):format(value)
  end
  return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

local WIDTH = 79

-- Short texts on lines of at most `width` columns.
local function filled(parts, indent, width)
  local lines, line = {}, indent
  for _, part in ipairs(parts) do
    if line ~= indent and #line + 1 + #part > width then
      lines[#lines + 1], line = line, indent
    end
    line = line .. (line == indent and "" or " ") .. part
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- A flat table of plain values on wrapped lines, in the order of `names`.
local function fields_text(values, names, indent)
  local parts = {}
  for _, name in ipairs(names) do
    if values[name] ~= nil then
      local key = name:find("%.") and ("[%q]"):format(name) or name
      parts[#parts + 1] = ("%s = %s,"):format(key, value_text(values[name]))
    end
  end
  return filled(parts, indent, WIDTH)
end

local SHOWN_TASKS, SHOWN_PARTS = 12, 400

-- The mask of a plan that was parsed, from its nodes: functions and documents are bits and ids by now.
local function mask_of_nodes(nodes)
  local stack = {}
  for _, node in ipairs(nodes) do
    local name, inside = MASK[node.kind], ""
    if name == "window" then inside = ("{left = %.0f, right = %.0f}"):format(node.left, node.right) end
    if name == "prefix" then inside = ("{length = %.0f}"):format(node.length) end
    if name == "document" then inside = "{ids = ...}" end
    if node.operands and node.operands > 0 then
      inside = "(" .. table.concat(stack, ", ", #stack - node.operands + 1) .. ")"
      for _ = 1, node.operands do stack[#stack] = nil end
    end
    stack[#stack + 1] = name == "bits" and "a function" or ("fa4.mask.%s%s"):format(name, inside == "" and "()" or inside)
  end
  return stack[1] or "fa4.mask.full()"
end

local function remarks(self)
  local h, lines = self.header, {}
  local function add(...)
    local line = "--"
    for word in (...):format(select(2, ...)):gmatch(" *[^ ]+") do
      if #line + 1 + #word > WIDTH and line ~= "--" then
        lines[#lines + 1], line = line, "--  "
      end
      line = line .. (line == "--" and " " or "") .. word
    end
    lines[#lines + 1] = line
  end
  local p = h.problem
  add("plan %s for %s%s", self.hash, self.device, self.variant ~= "" and (", kernel " .. self.variant) or "")
  add("q (%d, %d, %d, %d), k (%d, %d, %d, %d), v (.., %d), %s; mask %s (class %s)", tonumber(p.batch), tonumber(p.seqlen_q), p.heads_q,
    p.dim, tonumber(p.batch), tonumber(p.seqlen_kv), p.heads_kv, p.dim, p.dim_v, tensor.dtypes[p.dtype + 1],
    self.source.mask and tostring(self.source.mask):gsub("\n", " ") or mask_of_nodes(self.source.nodes), self.mask_class)
  add("tiles: %d a head of %d rows (%d query positions%s), %d heads; key blocks: %d of %d keys", self.tiles_per_head,
    h.schedule.tile_rows, self.positions, self.packed and (", %d heads packed"):format(self.group) or "", self.heads,
    self.blocks_per_row, h.schedule.tile_keys)
  if self.smem_bytes > 0 then
    add("budgets of a CTA: %d bytes of shared memory, %d tensor-memory columns, %d registers", self.smem_bytes,
      self.tmem_columns, self.registers)
    local tables = self:kernel "tables" -- roles, memories, barriers: as the kernel itself is compiled from them
    for line in (tables and "\n" .. tables or ""):gmatch("([^\n]*)\n") do
      lines[#lines + 1] = ("-- " .. line):gsub("%s+$", "")
    end
  end
  add("block map of batch 0, head 0 (# full, + partial, . skipped):")
  for line in self:picture():gmatch("[^\n]+") do add("%s", "  " .. line) end
  local tasks = self:tasks()
  add("tasks: %d for %d workers", #tasks, self.workers)
  for i = 1, math.min(#tasks, SHOWN_TASKS) do
    local task = tasks[i]
    add("  %4d: batch %d, head %d, tile%s %s, %d blocks%s", i - 1, task.batch, task.head, #task.tiles > 1 and "s" or "",
      table.concat(task.tiles, " and "), task.blocks, task.worker and (", worker %d"):format(task.worker) or "")
  end
  if #tasks > SHOWN_TASKS then add("  ... %d more", #tasks - SHOWN_TASKS) end
  return table.concat(lines, "\n")
end

-- A long list is left out of what the prompt shows; `print(plan)` has all of it.
local function list_text(parts, whole, quoted)
  if not whole and #parts > SHOWN_PARTS then return '"left out, see print(plan)"' end
  local text = {}
  for i, part in ipairs(parts) do text[i] = quoted and part or part .. "," end
  text = filled(text, quoted and "" or "    ", quoted and WIDTH - 7 or WIDTH)
  if quoted then text = '    "' .. text:gsub("\n", '",\n    "') .. '",' end
  return "{\n" .. text .. "\n  }"
end

local function literal_text(self, whole)
  local literal = plan.literal(self)
  local schedule_names = {}
  for i, entry in ipairs(SCHEDULE) do schedule_names[i] = entry[1] end
  local lines = {"return {"}
  local function add(...) lines[#lines + 1] = (...):format(select(2, ...)) end
  add("  hash = %q, device = %q,\n  tile_order = %q, l2_bytes = %.0f,", self.hash, literal.device, literal.tile_order, literal.l2_bytes)
  add("  problem = {\n%s\n  },", fields_text(literal.problem, PROBLEM, "    "))
  add("  config = {\n%s\n  },", fields_text(literal.config, schedule_names, "    "))
  for i, node in ipairs(literal.mask) do
    if i == 1 then add("  mask = {") end
    add("    {%s},", fields_text(node, NODE, ""):gsub(",$", ""))
    if i == #literal.mask then add("  },") end
  end
  local words, count = mask_words(self)
  if count > 0 then
    add("  mask_words = %d, mask_data = %s,", count, list_text(words_list(words, count), whole, true))
  end
  for _, name in ipairs{"order", "owners"} do
    if literal[name] then add("  %s = %s,", name, list_text(literal[name], whole, false)) end
  end
  add("}")
  return table.concat(lines, "\n")
end

--- The plan as a Lua chunk that holds everything, as `print(plan)` shows it: `fa4.plan.parse` makes the plan again from it.
-- @treturn string remarks, then `return {...}`
function methods:text()
  return remarks(self) .. "\n" .. literal_text(self, true)
end

meta.__tostring = methods.text

-- What the prompt shows: long lists are left out.
function meta.__short(self)
  return remarks(self) .. "\n" .. literal_text(self, false)
end

--- The kernel that this plan runs; see `fa4.kernel.source`.
-- @tparam[opt="cuda"] string kind "cuda", "ptx" or "sass"
-- @treturn ?string the text; nil when it cannot be had
-- @treturn ?string what is missing
-- @raise on a wrong kind
function methods:kernel(kind)
  return require("fa4.kernel").source(self, kind) -- here, since that module knows plans
end

--- What differs between two plans.
-- @tparam plan other another plan
-- @treturn {string,...} lines such as "rescale.threshold: 8 and 0"; empty when nothing does
function methods:differences(other)
  if not plan.is(other) then raise("plan: differences: expected a plan, got %s", errors.show(other)) end
  local a, b, lines = plan.literal(self), plan.literal(other), {}
  local function compare(name, x, y)
    if x ~= y then lines[#lines + 1] = ("%s: %s and %s"):format(name, value_text(x), value_text(y)) end
  end
  compare("device", a.device, b.device)
  compare("tile_order", a.tile_order, b.tile_order)
  for _, name in ipairs(PROBLEM) do compare(name, a.problem[name], b.problem[name]) end
  for _, entry in ipairs(SCHEDULE) do compare(entry[1], a.config[entry[1]], b.config[entry[1]]) end
  local words_a, count_a = mask_words(self)
  local words_b, count_b = mask_words(other)
  local function mask_text(literal, words, count)
    local parts = {table.concat(words_list(words, count), " ")}
    for i, node in ipairs(literal.mask) do parts[i + 1] = fields_text(node, NODE, "") end
    return table.concat(parts, "\n")
  end
  if mask_text(a, words_a, count_a) ~= mask_text(b, words_b, count_b) then lines[#lines + 1] = "mask: differs" end
  if table.concat(a.order or {}, " ") ~= table.concat(b.order or {}, " ")
    or table.concat(a.owners or {}, " ") ~= table.concat(b.owners or {}, " ") then
    lines[#lines + 1] = "order of tasks: differs"
  end
  return lines
end

-- Reads the chunk in an empty environment: it is data.
local function read_literal(text)
  if type(text) ~= "string" then raise("plan.parse: expected the text of a plan, got %s", errors.show(text)) end
  if text:byte(1) == 27 then raise("plan.parse: byte code is refused") end
  -- Without calls, functions and statements a chunk can only build a table.
  local bare = text:gsub("%-%-[^\n]*", ""):gsub('"[^"\n]*"', '""')
  if not bare:find("^%s*return%s*{[%w_%s%.,=%[%]{}\"%-+]*}%s*$") or bare:find("function", 1, true) then
    raise("plan.parse: expected the text that print(plan) gives")
  end
  local chunk, message = loadstring(text, "=plan")
  if not chunk then raise("plan.parse: %s", message) end
  local ok, literal = pcall(setfenv(chunk, {}))
  if not ok or type(literal) ~= "table" or type(literal.problem) ~= "table" or type(literal.config) ~= "table" then
    raise("plan.parse: expected the text that print(plan) gives")
  end
  for _, name in ipairs{"order", "owners", "mask_data"} do
    if type(literal[name]) == "string" and literal[name]:find("left out", 1, true) then
      raise("plan.parse: %s was left out of what the prompt shows; use print(plan)", name)
    end
  end
  return literal
end

local function check_problem(given)
  local problem = {}
  for _, name in ipairs(PROBLEM) do
    local value = given[name]
    if name == "dtype" then
      if not tensor.code[value] then raise("plan.parse: dtype: %s", errors.show(value)) end
    elseif name == "lse" then
      if type(value) ~= "boolean" then raise("plan.parse: lse: expected true or false, got %s", errors.show(value)) end
    elseif name == "scale" or name == "soft_cap" then
      if type(value) ~= "number" then raise("plan.parse: %s: expected a number, got %s", name, errors.show(value)) end
    else
      errors.whole("plan.parse: " .. name, value, 0, (name:find("heads") or name:find("dim")) and 2 ^ 31 - 1 or 2 ^ 53)
    end
    problem[name] = value
  end
  return problem
end

--- Makes a plan again from its printed form.
-- @tparam string text what `print(plan)` or `tostring(plan)` gave
-- @treturn ?plan nil when the device cannot run it here
-- @treturn ?string the reason
-- @raise when the text is something else
function plan.parse(text)
  local literal = read_literal(text)
  local problem = check_problem(literal.problem)
  local flat = config.check(literal.config)
  config.set(flat, "device", literal.device)
  local nodes = {}
  for i, node in ipairs(literal.mask or {}) do
    nodes[i] = {}
    for _, field in ipairs(NODE) do
      nodes[i][field] = errors.whole("plan.parse: mask " .. field, node[field] or 0, -2 ^ 53, 2 ^ 53)
    end
  end
  if #nodes > tonumber(native.C.FA4_MASK_NODES_MAX) then raise("plan.parse: mask: too many parts (%d)", #nodes) end
  local request = plan.request(flat, problem)
  fill_problem(request.cdata.problem, problem, nodes)
  local data = literal.mask_data and words_from(literal.mask_data, errors.whole("plan.parse: mask_words", literal.mask_words, 0, 2 ^ 28))
  if data then request.cdata.mask_data, request.cdata.mask_words = data.words, data.count end
  request.cdata.schedule.tile_order = literal.tile_order == "lpt" and 1 or 0
  request.cdata.schedule.l2_bytes = errors.whole("plan.parse: l2_bytes", literal.l2_bytes, -1, 2 ^ 53)
  local handle, message = native.plan(request.cdata)
  native.keep(request, data)
  if not handle then return nil, message end
  local made = wrap(handle, {problem = problem, nodes = nodes, base_order = request.cdata.schedule.tile_order})
  if literal.order then return made:reordered(literal.order, literal.owners) end
  return made
end

return plan
