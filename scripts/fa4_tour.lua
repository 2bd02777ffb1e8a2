--- The story of one pair of query tiles, told by the machine: the sm_100a kernel runs on the emulator, and every barrier that completes
-- is a line.
-- Names come from the kernel's own tables, numbers from its memories.
--   fa4 scripts/fa4_tour.lua [key blocks, default 2] [causal]
local fa4 = require "fa4"
local kernel = require "fa4.kernel"

local usage = [[
usage: fa4 scripts/fa4_tour.lua [key blocks, 1..64, default 2] [causal]

Runs one pair of query tiles of the Blackwell kernel on the emulator and prints
a line for every barrier that completes.
]]

local blocks, causal = tonumber(arg[1] or 2), arg[2] == "causal"
if arg[1] == "--help" then
  io.stdout:write(usage)
  return
elseif not blocks or blocks % 1 ~= 0 or blocks < 1 or blocks > 64 or (arg[2] and not causal) or arg[3] then
  io.stderr:write(usage)
  os.exit(2)
end
local keys, dim = 128 * blocks, 64
local q = fa4.randn({1, 256, 1, dim}, {dtype = "f16", seed = 1})
local k = fa4.randn({1, keys, 1, dim}, {dtype = "f16", seed = 2})
local v = fa4.randn({1, keys, 1, dim}, {dtype = "f16", seed = 3})
local o = fa4.zeros({1, 256, 1, dim}, {dtype = "f16"})
local lse = fa4.zeros({1, 1, 256}, {dtype = "f32"})
local attention = fa4.attention{device = "emu", mask = causal and fa4.mask.causal() or fa4.mask.full(), counters = false}
local plan = assert(attention:plan(q, k, v))

print("The kernel's tables\n")
local tables = assert(plan:kernel("tables"))
print(tables)

-- What a completed barrier means, one line each.
local MEANING = {
  ["task.full"] = "the schedule warp has posted a task", ["task.empty"] = "all 15 warps have taken it",
  ["q_load.full"] = "the query tile is in shared memory", ["q_load.empty"] = "no product will read that query tile again",
  ["kv_load.full"] = "a block of K or V is in shared memory", ["kv_load.empty"] = "both stages have read that block: its slot is free",
  s_ready = "S = Q K^T of the stage is in tensor memory", p_o_rescale = "the first part of P is written and O may be added to",
  p_ready_2 = "the rest of P is written", o_ready = "O of the stage is final", corr_empty = "correction has read the row statistics",
  ["corr_epi.full"] = "the finished tile is staged in shared memory", ["corr_epi.empty"] = "TMA has read the staged tile",
}

-- Byte offset -> name and copy, from the table's lines "name copies at arrivals ...".
local names = {}
for name, copies, at in tables:gmatch("\n([%w_.]+)%s+(%d+)%s+(%d+)%s+%d+%s+%a") do
  for copy = 0, copies - 1 do names[tonumber(at) + 8 * copy] = {name = name, copy = copy} end
end

local function f32(word)
  if word == 0 then return 0 end
  local sign = word >= 2 ^ 31 and -1 or 1
  local exponent, fraction = math.floor(word / 2 ^ 23) % 256, word % 2 ^ 23
  if exponent == 255 then return fraction == 0 and sign * math.huge or 0 / 0 end
  return sign * (1 + fraction / 2 ^ 23) * 2 ^ (exponent - 127)
end

local function f16(half)
  local sign = half >= 2 ^ 15 and -1 or 1
  local exponent, fraction = math.floor(half / 1024) % 32, half % 1024
  if exponent == 0 then return sign * fraction * 2 ^ -24 end
  return sign * (1 + fraction / 1024) * 2 ^ (exponent - 15)
end

-- The first numbers of a row, read from tensor memory.
local function row_of(session, first, row)
  local texts = {}
  for column = first, first + 3 do texts[#texts + 1] = ("%.4f"):format(f32(session:tmem(column)[row])) end
  return table.concat(texts, "  ")
end

local function weights_of(session, first, row)
  local texts = {}
  for column = first, first + 1 do
    local word = session:tmem(column)[row]
    texts[#texts + 1] = ("%.4f  %.4f"):format(f16(word % 65536), f16(math.floor(word / 65536)))
  end
  return table.concat(texts, "  ")
end

local ROW = 5
local function show_values(session, name, stage)
  if name == "s_ready" then
    print(("        S%d row %d, columns %d..: %s"):format(stage, ROW, 128 * stage, row_of(session, 128 * stage, ROW)))
  elseif name == "p_o_rescale" then
    local first = 128 * stage + 64
    print(("        P%d row %d, columns %d.. (two each): %s"):format(stage, ROW, first, weights_of(session, first, ROW)))
  elseif name == "o_ready" then
    print(("        O%d row %d, columns %d..: %s"):format(stage, ROW, 256 + 128 * stage, row_of(session, 256 + 128 * stage, ROW)))
  end
end

print("The run\n")
local session = assert(kernel.debug(plan, {q = q, k = k, v = v, o = o, lse = lse}))
local phases, steps = {}, 0
repeat
  local stop = session:step(20)
  steps = steps + 20
  for _, barrier in ipairs(session:barriers()) do
    local known = barrier.offset and names[barrier.offset]
    if known and barrier.phase ~= (phases[barrier.offset] or 0) then
      phases[barrier.offset] = barrier.phase
      local title = ("%s[%d]"):format(known.name, known.copy)
      print(("%7d %-18s %s"):format(steps, title, MEANING[known.name] or ""))
      show_values(session, known.name, known.copy)
    end
  end
until stop == "end" or stop == "finding" or steps > 2e6

for _, finding in ipairs(session:findings()) do print(finding.severity .. ": " .. finding.text) end
print()
print(fa4.validate({o = o, lse = lse, plan = plan}, q, k, v))
