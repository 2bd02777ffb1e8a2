-- The README's session with the emulator: what it prints is what it says.
local fa4 = require "fa4"

describe("the kernel of the README's page", function()
  local function open()
    local m = fa4.emu.load("scripts/data/tile.ptx")
    local x, y = fa4.uniform({128}, {seed = 1}), fa4.zeros({128})
    return m, x, y
  end

  it("stops at its wait before the tile is there, and past it with the tile", function()
    local m, x, y = open()
    local s = m:debug{grid = 1, block = 128, shared = 1024, args = {x, y}}
    assert.equal("breakpoint", s:run{stop = "mbarrier.try_wait"})
    local bar = s:barriers()[1]
    assert.same({512, 1, 0, 0, 512}, {bar.offset, bar.expected, bar.pending, bar.phase, bar.tx})
    assert.equal(0, (select(2, s:shared(0, 512))))
    assert.equal("breakpoint", s:run{stop = "ld.shared"})
    bar = s:barriers()[1]
    assert.same({512, 1, 1, 1, 0}, {bar.offset, bar.expected, bar.pending, bar.phase, bar.tx})
    assert.equal(512, (select(2, s:shared(0, 512))))
  end)

  it("doubles every number", function()
    local m, x, y = open()
    local report = assert(m:launch{grid = 1, block = 128, shared = 1024, args = {x, y}})
    assert.equal(0, #report.findings)
    for i = 0, 127 do assert.equal(2 * x:get(i), y:get(i)) end
  end)

  it("is found out of bounds with too little shared memory", function()
    local m, x, y = open()
    local report, found = m:launch{grid = 1, block = 128, shared = 512, args = {x, y}}
    assert.is_nil(report)
    assert.matches("out of bounds", found)
  end)
end)
