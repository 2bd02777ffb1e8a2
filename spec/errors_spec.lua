local fa4 = require "fa4"
local formula = require "spec.support.formula"
local program = require "spec.support.program"

-- After every error a correct call must still work.
local function still_works()
  local q, k, v = formula.qkv({1, 9, 2, 64}, {1, 11, 2, 64})
  assert.valid(fa4.attention{device = "cpu", mask = fa4.mask.causal()}(q, k, v), q, k, v)
end

local function refuses(fn, ...)
  assert.raises_text(fn, "errors_spec.lua:", ...)
  still_works()
end

local function f16(...) return fa4.zeros({...}, {dtype = "f16"}) end

local function call(q, k, v, config)
  config = config or {}
  config.device = "cpu"
  return function() fa4.attention(config)(q, k, v) end
end

describe("a wrong tensor", function()
  local good = f16(1, 5, 2, 64)

  it("of another type is named", function()
    refuses(call(nil, good, good), "q: expected a tensor, got nil")
    refuses(call(good, {1, 2}, good), "k: expected a tensor, got a table")
    refuses(call(good, good, "v"), "v: expected a tensor", '"v"')
  end)

  it("of another rank or dtype is named", function()
    refuses(call(f16(5, 2, 64), good, good), "q: expected rank 4", "rank 3", "(5, 2, 64)")
    refuses(call(good, fa4.zeros({1, 5, 2, 64}, {dtype = "bf16"}), good), "k: expected f16 as q, got bf16")
    refuses(call(fa4.zeros({1, 5, 2, 64}, {dtype = "f64"}), good, good), "q: expected f16, bf16 or f32, got f64")
    refuses(call(fa4.zeros({1, 5, 2, 64}, {dtype = "i32"}), good, good), "i32")
  end)

  it("of another shape is named with its axis", function()
    refuses(call(good, f16(2, 5, 2, 64), good), "k: axis 0: expected 1 (batch of q), got 2")
    refuses(call(good, f16(1, 5, 2, 32), good), "k: axis 3: expected 64 (dim of q), got 32")
    refuses(call(good, good, f16(1, 6, 2, 64)), "v: axis 1: expected 5 (seqlen of k), got 6")
    refuses(call(good, good, f16(1, 5, 1, 64)), "v: axis 2: expected 2 (heads of k), got 1")
    refuses(call(good, f16(1, 5, 3, 64), f16(1, 5, 3, 64)), "2 query heads", "3 key heads")
    refuses(call(f16(1, 5, 0, 64), good, good), "q: heads: expected at least 1")
    refuses(call(good, f16(1, 5, 0, 64), f16(1, 5, 0, 64)), "k: heads: expected at least 1")
    refuses(call(f16(1, 5, 2, 0), f16(1, 5, 2, 0), good), "q: dim: expected at least 1")
    refuses(call(f16(1, 5, 2, 60), f16(1, 5, 2, 60), good), "dim", "60", "multiple of 8", "64")
    refuses(call(f16(1, 5, 2, 264), f16(1, 5, 2, 264), good), "dim", "264", "256")
  end)

  it("without a contiguous last axis is named", function()
    local q = f16(1, 5, 64, 2):permute(0, 1, 3, 2)
    refuses(call(q, good, good), "q: expected stride 1 on the last axis, got 2", "contiguous")
  end)

  it("that was freed is named", function()
    local k = f16(1, 5, 2, 64)
    k:free()
    refuses(call(good, k, good), "k: the tensor was freed")
  end)
end)

describe("a wrong number", function()
  local good = f16(1, 5, 2, 64)

  it("is refused for scale, cap and threshold", function()
    for _, value in ipairs{0 / 0, 1 / 0, -1 / 0} do
      refuses(call(good, good, good, {scale = value}), "scale", "finite number")
      refuses(call(good, good, good, {rescale = {threshold = value}}), "rescale.threshold", "0..100")
      refuses(call(good, good, good, {soft_cap = value}), "soft_cap")
    end
  end)

  it("is a threshold above 15 for f16, and the message says why", function()
    refuses(call(good, good, good, {rescale = {threshold = 15.5}}), "rescale.threshold", "0..15 for f16", "15.5", "2^16")
    local wide = fa4.zeros({1, 5, 2, 64}, {dtype = "bf16"})
    call(wide, wide, wide, {rescale = {threshold = 60}})()
  end)

  it("is a threshold below 7 without maxima", function()
    refuses(call(good, good, good, {row_max = "first_block", rescale = {threshold = 3}}), "at least 7", "3")
  end)

  it("is a size that is negative, broken or beyond the machine", function()
    refuses(function() f16(1, -5, 2, 64) end, "axis 1", "-5")
    refuses(function() f16(1, 2.5, 2, 64) end, "axis 1", "2.5")
    refuses(function() f16(2 ^ 31, 2 ^ 31, 2 ^ 31) end, "overflow")
    refuses(function() f16(2 ^ 45) end, "memory")
  end)

  it("is a prefix beyond the keys", function()
    refuses(call(good, good, good, {mask = fa4.mask.prefix{length = 6}}), "length", "0..5", "6")
  end)
end)

describe("a device", function()
  it("that is unknown or absent raises an error object of kind device", function()
    for _, name in ipairs{"gpu", "cuda:99", "emu:sm_20"} do
      local ok, failure = pcall(fa4.attention, {device = name})
      assert.is_false(ok)
      assert.equal("device", failure.kind)
      assert.is_truthy(tostring(failure):find(name, 1, true), tostring(failure))
      still_works()
    end
  end)

  it("can be asked for", function()
    assert.equal("cpu", fa4.device("cpu"))
    assert.is_nil((fa4.device("cpu:3")))
    local found, message = fa4.device("gpu")
    assert.is_nil(found)
    assert.is_truthy(message:find("gpu", 1, true))
    refuses(function() fa4.device(3) end, "device", "3")
  end)

  it("that is absent ends a script with status 3, and a script's own error with status 1", function()
    local absent = program.run{"-e", 'fa4.attention{device = "cuda:99"}'}
    assert.equal(3, absent.code)
    assert.is_truthy(absent.err:find("cuda:99", 1, true))
  end)
end)

describe("a script", function()
  it("that calls attention wrongly exits 1 and names file, line, message and traceback", function()
    program.with_script('local fa4 = require "fa4"\nlocal t, k = fa4.zeros({1, 5, 5, 128}, {dtype = "f16"}), '
      .. 'fa4.zeros({1, 5, 2, 128}, {dtype = "f16"})\nfa4.attention{device = "cpu"}(t, k, k)\n', function(path)
      local result = program.run{path}
      assert.equal(1, result.code)
      assert.is_truthy(result.err:find(path .. ":3:", 1, true), result.err)
      assert.is_truthy(result.err:find("5 query heads", 1, true))
      assert.is_truthy(result.err:find("traceback", 1, true))
    end)
  end)

  it("works without HOME", function()
    local result = program.run({"-e", 'print(fa4.zeros{2}:get(1))'}, {env = "-u HOME -u XDG_STATE_HOME -u XDG_CACHE_HOME"})
    assert.equal("0\n", result.out)
    assert.equal("", result.err)
  end)

  it("gets an error on a full disk, and leaves nothing half written", function()
    local folder = os.tmpname()
    os.remove(folder)
    program.shell("mkdir " .. folder)
    local code = ('local ok, m = pcall(fa4.save, "%s/x.safetensors", {a = fa4.zeros{100000}}) print(ok, m)'):format(folder)
    local result = program.shell("ulimit -f 8; exec " .. program.quote(program.fa4) .. " -e " .. program.quote(code))
    local left = program.shell("ls -A " .. folder).out
    program.shell("rm -rf " .. folder)
    assert.equal(0, result.code)
    assert.is_truthy(result.out:find("^false"), result.out .. result.err)
    assert.is_truthy(result.out:find("x.safetensors", 1, true), result.out)
    assert.equal("", left)
  end)

  it("gets an error where nothing can be written", function()
    for _, path in ipairs{"/proc/fa4.npy", "/no/such/folder/x.npy"} do
      refuses(function() fa4.save(path, fa4.zeros{2}) end, path)
    end
  end)

  it("gets an error when memory is short, and goes on", function()
    local code = 'local ok, m = pcall(fa4.zeros, {400, 1024, 1024}) print(ok, m) print(fa4.zeros{3}:get(2))'
    -- The address space is the limit; a sanitizer needs all of it for itself and has a limit of its own.
    local limit = program.build:find("san", 1, true) and 'export ASAN_OPTIONS="$ASAN_OPTIONS:allocator_may_return_null=1:max_allocation_size_mb=1500"; '
      or "ulimit -v 1500000; "
    local result = program.shell(limit .. "exec " .. program.quote(program.fa4) .. " -e " .. program.quote(code))
    assert.is_truthy(result.out:find("^false.*memory.*\n0\n$"), result.out .. result.err)
  end)
end)

describe("a hostile file", function()
  local path

  before_each(function() path = os.tmpname() end)
  after_each(function() os.remove(path) end)

  local function refuses_bytes(bytes, ...)
    program.write(path, bytes)
    collectgarbage()
    local before, started = fa4.memory().host_bytes_max, os.clock()
    refuses(function() fa4.load(path) end, path, ...)
    assert.is_true(os.clock() - started < 0.1 * program.patience)
    assert.is_true(fa4.memory().host_bytes_max <= before + 2 ^ 20 + #bytes)
  end

  local function npy(header, data)
    header = header .. (" "):rep(128 - 10 - #header - 1) .. "\n"
    return "\147NUMPY\1\0" .. string.char(#header % 256, math.floor(#header / 256)) .. header .. (data or "")
  end

  it("is an .npy whose header or size lies (known answer 15)", function()
    refuses_bytes("\147NUMPY\2\0\240\255\255\255")
    refuses_bytes(npy "{'descr': '<f2', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }")
    refuses_bytes(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 1000), }", "0123456789"))
    for _, descr in ipairs{"<ixy", "", "|O"} do
      refuses_bytes(npy("{'descr': '" .. descr .. "', 'fortran_order': False, 'shape': (1,), }", "01234567"))
    end
  end)

  -- A safetensors file with this header text.
  local function safetensors(header, data)
    local length, bytes = #header, {}
    for i = 1, 8 do
      bytes[i] = string.char(length % 256)
      length = math.floor(length / 256)
    end
    return table.concat(bytes) .. header .. (data or "")
  end

  it("is a safetensors whose header lies", function()
    local function tensor(offsets) return '{"dtype":"F32","shape":[2],"data_offsets":' .. offsets .. "}" end
    refuses_bytes("\255\255\255\63\0\0\0\0{}")
    refuses_bytes(safetensors('{"a":' .. tensor("[0,8]") .. ',"b":' .. tensor("[4,12]") .. "}", ("x"):rep(12)))
    refuses_bytes(safetensors('{"a":' .. tensor("[0,8]") .. ',"a":' .. tensor("[8,16]") .. "}", ("x"):rep(16)), "a")
    refuses_bytes(safetensors('{"a":' .. tensor("[0,8]") .. "}", "1234"))
    refuses_bytes(safetensors('{"a":' .. tensor("[8,0]") .. "}", ("x"):rep(8)))
    refuses_bytes(safetensors('{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}'))
    refuses_bytes(safetensors('{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}', "x"), "F8_E4M3")
    refuses_bytes(safetensors(("["):rep(100000)))
    refuses_bytes(safetensors("{"))
    refuses_bytes("")
  end)
end)

describe("a schedule or mask function that goes wrong", function()
  local good = f16(1, 300, 2, 64)

  it("is named, and nothing is written", function()
    refuses(call(good, good, good, {schedule = function(tasks) table.remove(tasks) return tasks end}), "is lost")
    refuses(call(good, good, good, {schedule = function(tasks) tasks[2] = tasks[1] return tasks end}), "returned twice")
    refuses(call(good, good, good, {mask = function() return 1 end}), "expected true or false")
    local o = fa4.full({1, 300, 2, 64}, 7, {dtype = "f16"})
    local op = fa4.attention{device = "cpu", schedule = function() error("no") end}
    refuses(function() op(good, good, good, {o = o}) end, "no")
    assert.close(o, fa4.full({1, 300, 2, 64}, 7))
  end)

  it("may overflow the stack", function()
    local function deep(i, j) return deep(i, j) and true end
    refuses(call(good, good, good, {mask = deep}), "stack overflow")
  end)
end)
