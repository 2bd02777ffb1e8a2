--- The acceptance run of the chapter that the sm_100a kernel follows, on the emulator, and its causal twin.
local fa4 = require "fa4"
local program = require "spec.support.program"

describe("the chapter's acceptance run, 1,024 positions and 32 heads on 8", function()
  local function run(mask)
    local name, message = fa4.device("emu:sm_100a")
    if not name then return pending(message) end
    local q = fa4.randn({1, 1024, 32, 128}, {dtype = "f16", seed = 1})
    local k = fa4.randn({1, 1024, 8, 128}, {dtype = "f16", seed = 2})
    local v = fa4.randn({1, 1024, 8, 128}, {dtype = "f16", seed = 3})
    local op = fa4.attention{device = "emu:sm_100a", mask = mask}
    op:plan(q, k, v):kernel "ptx" -- compiled or unpacked: not part of the time
    local out = op(q, k, v)
    assert.equal(0, out.report.findings)
    assert.is_true(out.report.time_us < 1e6 * program.patience, out.report.time_us .. " us")
    -- The chapter's own tolerance, against f32.
    local f32 = {dtype = "f32"}
    local want = fa4.attention{device = "cpu", mask = mask}(q:to(f32), k:to(f32), v:to(f32)).o.data
    local got, wrong = out.o:to(f32).data, 0
    for i = 0, 1024 * 32 * 128 - 1 do
      local near = math.abs(got[i] - want[i]) <= 1e-2 + 1e-2 * math.abs(want[i]) -- false for NaN
      if not near then wrong = wrong + 1 end
    end
    assert.equal(0, wrong)
  end

  it("passes within 1e-2 of f32", function() run(fa4.mask.full()) end)
  it("passes causally too", function() run(fa4.mask.causal()) end)
end)
