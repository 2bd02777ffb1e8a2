--- What the sm_100a kernel spends its instructions on, beside two peers: machine instructions of the softmax loop by class, and warp
-- instructions of every role, counted on the emulator.
--   fa4 scripts/instructions.lua [--all]
local fa4 = require "fa4"
local cache = require "fa4.cache"
local kernel = require "fa4.kernel"

local usage = [[
usage: fa4 scripts/instructions.lua [--all]

Prints, for the sm_100a kernel:
  machine instructions of the softmax loop for a row of 128 scores, by class;
    needs NVRTC, nvdisasm (FA4_NVDISASM) and the built tests
  --all  every variant of the catalogue instead of a few
  warp instructions of each role, from the emulator
]]

local CLASSES = {"MUFU", "FFMA2", "FADD2", "F2FP", "FMNMX3", "FMNMX", "FFMA", "IMAD", "LDTM", "STTM", "SYNCS", "FSEL", "NOP", "other"}
-- Peers, read the same way; their shapes, scale and threshold are compiled in. Where two classes were read as one, the other is "-".
local PEERS = {
  {"TIRx, full", 494, {113, 88, 87, 64, 62, 20, "-", 13, 4, 4, "-", 1, "-", 38}},
  {"TIRx, causal", 527, {105, 100, 99, 64, 62, 28, "-", 36, 4, 4, "-", 1, "-", 24}},
  {"FA4 CuTe, full", 500, {113, 88, 88, 64, 62, 20, "-", 19, 4, 4, "-", 4, "-", 34}},
}

local function row(name, total, counts)
  local cells = {}
  for i, count in ipairs(counts) do cells[i] = ("%" .. math.max(3, #CLASSES[i]) .. "s"):format(count) end
  print(("%-28s %4d %5.2f"):format(name, total, total / 128))
  print("    " .. table.concat(cells, " "))
end

local function machine_code(all)
  local info = cache.get()
  if not info.compiler then return print("not compiled: " .. info.compiler_missing) end
  local tests = arg[-1]:gsub("[^/]*$", "") .. "tests/kernel_static_test" -- beside the executable
  local pipe = io.popen("'" .. tests .. "'" .. (all and " all" or "") .. " 2>&1")
  local text = pipe:read("*a")
  pipe:close()
  if not text:find("\n| fwd_sm100a") then
    return print("no machine code: tests/kernel_static_test printed no table;\nis nvdisasm there? FA4_NVDISASM names it")
  end
  local head = {}
  for i, class in ipairs(CLASSES) do head[i] = ("%" .. math.max(3, #class) .. "s"):format(class) end
  print("machine instructions of the softmax loop for 128 scores: in all, a score")
  print("    " .. table.concat(head, " "))
  for name, total, counts in text:gmatch("\n| fwd_sm100a_(%S+) | (%d+) | [%d.]+ | ([%d ]+)") do
    local list = {}
    for count in counts:gmatch("%d+") do list[#list + 1] = count end
    row(name, tonumber(total), list)
  end
  for _, peer in ipairs(PEERS) do row(peer[1], peer[2], peer[3]) end
end

-- Two tiles of queries over 1,024 keys, one CTA. `rise`: the keys grow along the walk, so that every block moves the reference.
local function warp_counts(name, config, rise)
  config.device, config.counters = "emu:sm_100a", false
  local q = fa4.full({1, 256, 1, 128}, rise and 1 or 0, {dtype = "f16"})
  local k = fa4.zeros({1, 1024, 1, 128}, {dtype = "f16"})
  for block = 0, rise and 7 or -1 do k:narrow(1, 128 * block, 128):fill(7 - block) end
  local plan = assert(fa4.attention(config):plan(q, k, k))
  local o, lse = fa4.zeros({1, 256, 1, 128}, {dtype = "f16"}), fa4.zeros({1, 1, 256})
  local report, message = kernel.launch(plan, {q = q, k = k, v = k, o = o, lse = lse})
  if not report then return print(name .. ": " .. message) end
  local function most(first, last)
    local n = 0
    for warp = first, last do n = math.max(n, report.warps[warp] or 0) end
    return n
  end
  print(("%-28s %8d %11d %6d %6d %6d %9d"):format(name, most(0, 7) / 8, most(8, 11), most(12, 12), most(13, 13), most(14, 14),
    most(15, 15)))
end

local function roles()
  local name, message = fa4.device("emu:sm_100a")
  if not name then return print(message) end
  print("\nPTX instructions of a role's busiest warp: 256 queries, 1,024 keys, D 128;")
  print("softmax a block (8 of them), the others for both tiles together")
  print(("%-28s %8s %11s %6s %6s %6s %9s"):format("", "softmax", "correction", "mma", "load", "store", "schedule"))
  warp_counts("full", {})
  warp_counts("full, every block rescaled", {rescale = {threshold = 0}}, true)
  warp_counts("max-free", {row_max = "first_block"})
  warp_counts("causal", {mask = fa4.mask.causal()})
  print(("%-28s %8d %11s %6d %6d"):format("TIRx, full", 1023, "981-3,800", 6067, 709))
  print(("%-28s %8d %11s %6d %6d"):format("FA4 CuTe, full", 989, "1184-4,100", 2191, 983))
end

if arg[1] == "--help" or (arg[1] ~= nil and arg[1] ~= "--all") then
  io.stdout:write(usage)
  os.exit(arg[1] == "--help" and 0 or 2)
end
machine_code(arg[1] == "--all")
roles()
