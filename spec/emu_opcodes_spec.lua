--- Every opcode that the PTX reader knows is spelled in a test that runs the emulator, or is refused there by name.
local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local function texts()
  local list = {}
  local pipe = assert(io.popen("ls spec/emu_*_test.c spec/support/emu_probes.inc spec/support/tile.ptx spec/probes/probes.ptx"))
  for path in pipe:lines() do list[#list + 1] = read(path) end
  pipe:close()
  return table.concat(list, "\n")
end

describe("the emulator's tests", function()
  it("spell every opcode of the list", function()
    local all, missing, count = texts(), {}, 0
    for opcode in read("engine/ptx/opcodes.h"):gmatch('_%([A-Z0-9_]+,%s*"([^"]+)"') do
      count = count + 1
      local pattern = "[^%w_.]" .. opcode:gsub("%p", "%%%0") .. "[^%w_:]"
      if not all:find(pattern) then missing[#missing + 1] = opcode end
    end
    assert.is_true(count > 150)
    assert.same({}, missing)
  end)
end)
