-- Prints the table of NOTES.md: which probes show an opcode on the device. Usage: FA4_PROBES_TABLE=t build/tests/probes_test; fa4 spec/probes/table.lua t

local opcodes, order, results = {}, {}, {}
local lines = {}
for line in io.lines(arg[1]) do lines[#lines + 1] = line end
for _, line in ipairs(lines) do
  local kind, name = line:match("^(%a+) (%S+) |")
  if kind == "refused" or kind == "stopped" or kind == "near" then results[name] = kind end
end
for _, line in ipairs(lines) do
  local opcode, name, n = line:match("^opcode (%S+) | (%S+) | (%d+)$")
  if opcode then
    if not opcodes[opcode] then
      opcodes[opcode] = { probes = {}, count = 0, inputs = 0, results = {} }
      order[#order + 1] = opcode
    end
    local row = opcodes[opcode]
    local result = results[name] or "equal"
    row.count = row.count + 1
    row.inputs = row.inputs + tonumber(n)
    -- The probes that say the most come first: those named after the opcode.
    local named = name:find(opcode:match("^[^.]+"), 1, true) or name:find(opcode, 1, true)
    table.insert(row.probes, named and 1 or #row.probes + 1, name)
    row.results[result] = (row.results[result] or 0) + 1
  end
end
table.sort(order)
print("| opcode | probes | inputs | on the H200 against the emulator |\n| --- | --- | --- | --- |")
for _, opcode in ipairs(order) do
  local row, texts = opcodes[opcode], {}
  for _, kind in ipairs({ "equal", "near", "refused", "stopped" }) do
    local label = ({ equal = "bit-equal", near = "within bounds", refused = "recorded, not modelled", stopped = "stopped on both" })[kind]
    if row.results[kind] then texts[#texts + 1] = row.results[kind] .. " " .. label end
  end
  local shown = table.concat(row.probes, ", ", 1, math.min(2, #row.probes))
  print(("| `%s` | %s%s | %d | %s |"):format(opcode, shown, row.count > 2 and " and " .. row.count - 2 .. " more" or "", row.inputs, table.concat(texts, ", ")))
end
