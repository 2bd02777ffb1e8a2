--- Kernels and their cache as people meet them: `fa4 cache`, and the text behind a plan.
local program = require "spec.support.program"

local function temporary()
  local path = os.tmpname()
  os.remove(path)
  return path
end

local function fa4(environment, arguments)
  return program.shell(environment .. " " .. program.quote(program.fa4) .. " " .. arguments)
end

describe("fa4 cache", function()
  local folder

  before_each(function() folder = temporary() end)
  after_each(function() program.shell("rm -rf " .. program.quote(folder)) end)

  it("lists an empty cache and says where it is", function()
    local got = fa4("FA4_CACHE_DIR=" .. folder, "cache ls")
    assert.equal(0, got.code)
    assert.equal("0 kernels, 0 of 268 435 456 bytes, in " .. folder .. "\n", got.out)
  end)

  it("says that it was turned off", function()
    assert.equal("the kernel cache is off (FA4_CACHE=0)\n", fa4("FA4_CACHE=0", "cache ls").out)
  end)

  it("warns once, and goes on, when no folder can be used", function()
    local got = fa4("FA4_CACHE_DIR=/dev/null/x", "cache ls")
    assert.equal(0, got.code)
    local _, warnings = got.err:gsub("no kernel cache", "")
    assert.equal(1, warnings)
  end)

  it("clears", function()
    local got = fa4("FA4_CACHE_DIR=" .. folder, "cache clear")
    assert.equal("0 kernels removed, 0 bytes\n", got.out)
  end)

  it("explains itself when the word is wrong", function()
    local got = fa4("FA4_CACHE_DIR=" .. folder, "cache empty")
    assert.equal(2, got.code)
    assert.equal("usage: fa4 cache ls|clear\n", got.err)
  end)
end)

describe("a run without a kernel cache", function()
  it("warns once", function()
    local name, message = require("fa4").device("emu:sm_100a")
    if not name then pending(message) end
    local info = require("fa4.cache").get()
    if info.catalogue == 0 and not info.compiler then pending(info.compiler_missing) end
    program.with_script([[
      local fa4 = require "fa4"
      local q = fa4.randn({1, 128, 1, 128}, {dtype = "f16"})
      local op = fa4.attention{device = "emu:sm_100a"}
      op(q, q, q)
      op(q, q, q)
    ]], function(path)
      local got = fa4("env -u HOME -u XDG_CACHE_HOME -u FA4_CACHE_DIR", program.quote(path))
      assert.equal(0, got.code, got.err)
      local _, warnings = got.err:gsub("no kernel cache", "")
      assert.equal(1, warnings)
    end)
  end)
end)

describe("the kernel behind a plan", function()
  local fa4_module = require "fa4"
  local kernel = require "fa4.kernel"

  local function plan_for(device)
    local name, message = fa4_module.device(device)
    if not name then pending(message) end
    local q = fa4_module.randn({1, 256, 2, 128}, {dtype = "f16"})
    return name and assert(fa4_module.attention{device = device}:plan(q, q, q))
  end

  it("does not exist on the CPU", function()
    local text, message = kernel.source(plan_for("cpu"), "ptx")
    assert.is_nil(text)
    assert.truthy(message:find("cpu", 1, true))
  end)

  it("is named by its kind", function()
    local ok, message = pcall(kernel.source, plan_for("cpu"), "fortran")
    assert.is_false(ok)
    assert.truthy(tostring(message):find("fortran", 1, true))
  end)

  it("shows its CUDA source after the compiler's options", function()
    local p = plan_for("emu:sm_100a")
    local text = assert(kernel.source(p))
    assert.truthy(text:find("^// fwd_sm100a_f16_d128_full"))
    assert.truthy(text:find("//   %-DFA4_DIM=128"))
    assert.truthy(text:find("======== kernels/fwd_sm100.cu ========", 1, true))
    assert.truthy(text:find("======== kernels/params.h ========", 1, true))
    assert.is_nil(text:find("#line", 1, true))
  end)

  it("shows its PTX", function()
    local p = plan_for("emu:sm_100a")
    local info = require("fa4.cache").get()
    if info.catalogue == 0 and not info.compiler then pending(info.compiler_missing) end
    local text = assert(p:kernel "ptx")
    assert.truthy(text:find(".target sm_100a", 1, true))
    assert.truthy(text:find("tcgen05.mma", 1, true))
  end)

  it("comes from the library's catalogue where there is no compiler", function()
    if require("fa4.cache").get().catalogue == 0 then pending("this build has no catalogue: it was made without NVRTC") end
    program.with_script([[
      local fa4 = require "fa4"
      for _, mask in ipairs{fa4.mask.full(), fa4.mask.causal()} do
        local q = fa4.randn({1, 256, 2, 128}, {dtype = "f16"})
        io.write(#assert(fa4.attention{device = "emu:sm_100a", mask = mask}:plan(q, q, q):kernel "ptx"), "\n")
      end
      local q = fa4.randn({1, 256, 2, 128}, {dtype = "f16"})
      print(fa4.attention{device = "emu:sm_100a", soft_cap = 30}:plan(q, q, q):kernel "ptx")
    ]], function(path)
      local got = fa4("FA4_NVRTC=/nonexistent FA4_CACHE=0", program.quote(path))
      assert.equal(0, got.code, got.err)
      local full, causal, rest = got.out:match("^(%d+)\n(%d+)\n(.*)$")
      assert.is_true(tonumber(full) > 100000 and tonumber(causal) > 100000)
      assert.truthy(rest:find("not in the library's catalogue", 1, true))
    end)
  end)

  it("comes from the catalogue for every default plan of sm_100a", function()
    if require("fa4.cache").get().catalogue == 0 then pending("this build has no catalogue: it was made without NVRTC") end
    program.with_script([[
      local fa4 = require "fa4"
      local masks = {full = fa4.mask.full(), causal = fa4.mask.causal(), window = fa4.mask.window{left = 40, right = 3},
        lua = function(i, j) return (i + j) % 3 > 0 end}
      local found = 0
      for _, counters in ipairs{true, false} do
        for _, row_max in ipairs{"each_block", "first_block"} do
          for name, mask in pairs(masks) do
            local op = fa4.attention{device = "emu:sm_100a", mask = mask, row_max = row_max, counters = counters}
            for _, dtype in ipairs{"f16", "bf16"} do
              for _, dim in ipairs{64, 128, 40, 96} do
                for _, heads in ipairs{2, 8} do
                  local q = fa4.zeros({1, 130, heads, dim}, {dtype = dtype})
                  local k = fa4.zeros({1, 150, 2, dim}, {dtype = dtype})
                  local text, message = op:plan(q, k, k):kernel "ptx"
                  if not text then print(counters, row_max, name, dtype, dim, heads, message) end
                  found = found + (text and 1 or 0)
                end
              end
            end
          end
        end
      end
      print(found)
    ]], function(path)
      local got = fa4("FA4_NVRTC=/nonexistent FA4_CACHE=0", program.quote(path))
      assert.equal(0, got.code, got.err)
      assert.equal("256\n", got.out)
    end)
  end)

  it("is the same text from the catalogue and from a compiler", function()
    local info = require("fa4.cache").get()
    if info.catalogue == 0 or not info.compiler then pending("it needs a catalogue and a compiler") end
    program.with_script([[
      local fa4 = require "fa4"
      local q = fa4.zeros({1, 256, 2, 128}, {dtype = "f16"})
      io.write((fa4.attention{device = "emu:sm_100a", counters = false}:plan(q, q, q):kernel "ptx"))
    ]], function(path)
      local packed = fa4("FA4_NVRTC=/nonexistent FA4_CACHE=0", program.quote(path))
      local compiled = program.shell("FA4_CACHE=0 " .. program.quote(program.build .. "/tests/kernel_static_test") .. " ptx")
      assert.equal(0, compiled.code, compiled.err)
      assert.is_true(#packed.out > 100000)
      assert.is_true(packed.out == compiled.out, "other text")
    end)
  end)

  it("is shown for the operator's latest plan", function()
    local op = fa4_module.attention{device = "cpu"}
    local ok, message = pcall(op.source, op, "cuda")
    assert.is_false(ok)
    assert.truthy(tostring(message):find("no plan was made yet", 1, true))
    local q = fa4_module.randn({1, 16, 1, 8}, {dtype = "f16"})
    op:plan(q, q, q)
    assert.is_nil((op:source "cuda"))
  end)
end)
