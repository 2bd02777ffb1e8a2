local program = require "spec.support.program"

-- The last line and exit status of busted on a spec of its own.
local function run(text)
  local base = os.tmpname()
  local path = base .. "_spec.lua"
  program.write(path, text)
  -- The plain build whatever is under test: a plain luajit cannot load a library that a sanitizer guards.
  local result = program.shell("FA4_BUILD=build luajit /usr/bin/busted " .. path .. " 2>&1")
  os.remove(base)
  os.remove(path)
  return result.out:match("([^\n]*)\n$"), result.code, result.out
end

describe("a run of busted", function()
  it("ends with one line of totals, errors among the failures", function()
    local last, code, out = run [[
      it("a", function() end)
      it("b", function() assert.equal(1, 2) end)
      it("c", function() error("broken") end)
      pending("d")]]
    assert.equal("1 passed, 2 failed, 1 skipped", last, out)
    assert.not_equal(0, code)
  end)

  it("says nothing of skips when there are none", function()
    local last, code, out = run 'it("a", function() end)'
    assert.equal("1 passed, 0 failed", last, out)
    assert.equal(0, code)
  end)

  it("does not call a spec green that does not load", function()
    local last, code = run "it("
    assert.equal("0 passed, 1 failed", last)
    assert.not_equal(0, code)
  end)

  it("leaves parametrised FFI types alone", function()
    local last, _, out = run [[
      it("has sizes", function()
        local ffi = require "ffi"
        local a, b = ffi.typeof("int"), ffi.typeof("double")
        assert.equal(16, ffi.sizeof(ffi.typeof("$[4]", a)))
        assert.equal(32, ffi.sizeof(ffi.typeof("$[4]", b)))
      end)]]
    assert.equal("1 passed, 0 failed", last, out)
  end)
end)
