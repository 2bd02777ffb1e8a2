--- The emulator from Lua: modules, launches, tensor maps, reports, and a kernel stepped by hand.
local fa4 = require "fa4"

local HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
local ADD = HEAD .. [[
.visible .entry add(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 n, .param .f32 scale)
{
.reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %rd<8>;
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
mad.lo.s32 %r4, %r2, %r3, %r1;
ld.param.u32 %r5, [n];
setp.ge.u32 %p, %r4, %r5;
@%p bra DONE;
mul.wide.u32 %rd1, %r4, 4;
ld.param.u64 %rd2, [pa]; ld.param.u64 %rd3, [pb]; ld.param.u64 %rd4, [pc];
add.s64 %rd5, %rd2, %rd1; add.s64 %rd6, %rd3, %rd1; add.s64 %rd7, %rd4, %rd1;
ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];
ld.param.f32 %f3, [scale];
fma.rn.f32 %f4, %f1, %f3, %f2;
st.global.f32 [%rd7], %f4;
DONE:
ret;
}
]]

local TILE = "spec/support/tile.ptx"

local function ramp(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return fa4.from_table(list, {dtype = "f32"})
end

describe("the emulator", function()
  it("shows a module's entries and their parameters", function()
    local m = fa4.emu.load(ADD)
    assert.equal(1, #m.entries)
    assert.equal("add", m.entries[1].name)
    assert.same({"pa", "u64", 0, 8}, {m.entries[1].params[1].name, m.entries[1].params[1].type, m.entries[1].params[1].offset,
      m.entries[1].params[1].bytes})
    assert.equal("f32", m.entries[1].params[5].type)
    assert.truthy(tostring(m):find("add(u64 pa", 1, true))
  end)

  it("launches on tensors and numbers", function()
    local m = fa4.emu.load(ADD)
    local a, b, c = ramp(300), ramp(300), fa4.zeros({300}, {dtype = "f32"})
    local report = assert(m:launch{grid = 3, block = {128}, args = {a, b, c, 300, 2.5}})
    for _, i in ipairs{0, 1, 127, 128, 299} do assert.equal((i + 1) * 3.5, c:get(i)) end
    assert.equal(3, report.ctas)
    assert.is_true(report.instructions > 100 and report.classes.float > 0 and report.warps[0] > 0)
    assert.same({}, report.findings)
  end)

  it("starts the CTAs of a cluster together", function()
    local m = fa4.emu.load(HEAD .. [[
.visible .entry k(.param .u64 out)
{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .shared .b32 word[32];
mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; mov.u32 %r3, word; mapa.shared::cluster.u32 %r4, %r3, %r2;
mov.u32 %r5, %ctaid.x; st.shared::cluster.u32 [%r4], %r5;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.shared.u32 %r6, [word];
ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r6;
ret;
}
]])
    local out = fa4.zeros({4}, {dtype = "i32"})
    assert(m:launch{grid = 4, block = 32, cluster = 2, args = {out}})
    assert.same({1, 0, 3, 2}, {out:get(0), out:get(1), out:get(2), out:get(3)})
    assert.has_error(function() m:launch{grid = 3, block = 32, cluster = 2, args = {out}} end)
  end)

  it("returns what it found, with line and buffer", function()
    local m = fa4.emu.load(ADD)
    local a, c = ramp(300), fa4.zeros({300}, {dtype = "f32"})
    local ok, message, report = m:launch{grid = 4, block = 128, args = {a, a, c, 512, 1}}
    assert.is_nil(ok)
    assert.truthy(message:find("out of bounds", 1, true) and message:find("argument", 1, true))
    assert.equal("out of bounds", report.findings[1].kind)
    assert.is_true(report.findings[1].line > 10)
  end)

  it("names wrong arguments", function()
    local m = fa4.emu.load(ADD)
    local a = ramp(8)
    assert.error_matches(function() m:launch{grid = 1, block = 32, args = {a, a}} end, "args: add takes 5, got 2")
    assert.error_matches(function() m:launch{grid = 1, block = 32, args = {a, a, a, 2.5, 1}} end, "args%[4%]")
    assert.error_matches(function() m:launch{grid = 1, block = 32, args = {a, a, a, a, 1}} end, "args%[4%]")
    assert.error_matches(function() m:launch{grid = 0, block = 32, args = {a, a, a, 8, 1}} end, "grid")
    assert.error_matches(function() m:launch{grid = 1, block = 2048, args = {a, a, a, 8, 1}} end, "block")
    assert.error_matches(function() m:launch{entry = "mul", grid = 1, block = 32, args = {}} end, "entry")
    assert.error_matches(function() m:launch{grid = 1, blok = 32, args = {}} end, "blok")
  end)

  it("refuses foreign text and unknown instructions by line", function()
    assert.error_matches(function() fa4.emu.load("hello\nworld\n") end, "line 1")
    assert.error_matches(function() fa4.emu.load(HEAD .. ".visible .entry k()\n{\nfrobnicate.b32 a, b;\nret;\n}\n") end, "line 6")
    assert.error_matches(function() fa4.emu.load("/nowhere/at.all") end, "nowhere")
  end)

  it("disassembles with instruction numbers", function()
    local text = fa4.emu.load(ADD):disassemble("add")
    assert.truthy(text:find("DONE", 1, true) and text:find("fma.rn.f32", 1, true))
    assert.truthy(fa4.emu.load(ADD):disassemble():find("add(", 1, true))
  end)

  it("reports a deadlock instead of hanging", function()
    local m = fa4.emu.load(TILE)
    local x = fa4.zeros({32, 16}, {dtype = "f32"})
    local map = fa4.tensormap{tensor = x, box = {16, 4}} -- 256 bytes come, 512 are expected
    local ok, message = m:launch{grid = 1, block = 16, shared = 2048, args = {map, fa4.zeros({16}, {dtype = "f32"})}}
    assert.is_nil(ok)
    assert.truthy(message:find("deadlock", 1, true) and message:find("256 bytes expected", 1, true))
  end)

  it("is stepped: the barrier waits, the copy lands, the tile is there", function()
    local m = fa4.emu.load(TILE)
    local x, y = fa4.uniform({32, 16}, {dtype = "f32", seed = 5}), fa4.zeros({16}, {dtype = "f32"})
    local s = m:debug{grid = 1, block = 16, shared = 2048, args = {fa4.tensormap{tensor = x, box = {16, 8}}, y}}
    assert.equal("breakpoint", s:run{stop = "mbarrier.try_wait"})
    local b = s:barriers()[1]
    assert.same({1024, 0, 1}, {b.offset, b.phase, b.expected})
    assert.is_true(#s:where() >= 1)
    s.breakpoints = {}
    local _, before = s:shared(0, 512)
    assert.equal(0, before)
    assert.equal("breakpoint", s:run{stop = "ld.shared"})
    local _, written = s:shared(0, 512)
    assert.equal(512, written)
    assert.equal(1, s:barriers()[1].phase)
    local none, why = s:register("%f")
    assert.is_nil(none)
    assert.truthy(why:find("holds no value", 1, true))
    local address = s:register("%r5")
    assert.equal(32, address.bits)
    assert.equal(20, address[5] - address[0])
    s.breakpoints = {}
    assert.equal("end", s:run())
    for i = 0, 15 do assert.equal(x:get(0, i), y:get(i)) end
    assert.same({}, s:findings())
  end)
end)
