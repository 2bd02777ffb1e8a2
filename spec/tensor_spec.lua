local fa4 = require "fa4"
local program = require "spec.support.program"

local function shape_of(t) return t.shape, t.strides end

describe("a tensor", function()
  it("counts coordinates from 0, and Lua lists from 1", function()
    local t = fa4.from_table({{1, 2, 3}, {4, 5, 6}})
    assert.equal(1, t:get(0, 0))
    assert.equal(6, t:get(1, 2))
    assert.equal(6, t:table()[2][3])
    assert.equal(2, t.shape[1])
    t:set(1, 0, 40)
    assert.same({{1, 2, 3}, {40, 5, 6}}, t:table())
    assert.equal(40, t.data[3])
  end)

  it("has shape, strides, dtype, device and bytes", function()
    local t = fa4.zeros({2, 3, 4}, {dtype = "bf16"})
    assert.same({2, 3, 4}, t.shape)
    assert.same({12, 4, 1}, t.strides)
    assert.equal("bf16", t.dtype)
    assert.equal("cpu", t.device)
    assert.equal(48, t.nbytes)
  end)

  it("may be of rank 0 or hold nothing", function()
    local scalar = fa4.full({}, 2.5)
    assert.equal(2.5, scalar:get())
    assert.equal(2.5, scalar:table())
    assert.equal(4, scalar.nbytes)
    local empty = fa4.randn{3, 0, 2}
    assert.same({{}, {}, {}}, empty:table())
    assert.equal(0, empty.nbytes)
    assert.same({0}, fa4.from_table({}).shape)
  end)

  it("rounds to nearest even and keeps NaN and infinities", function()
    local t = fa4.from_table({1 + 2 ^ -11, 1 + 3 * 2 ^ -11, 65520, 2 ^ -25, 1e6, -1 / 0}, {dtype = "f16"})
    assert.same({1, 1 + 2 ^ -9, 1 / 0, 0, 1 / 0, -1 / 0}, t:table())
    local b = fa4.from_table({1 + 2 ^ -8, 1 + 3 * 2 ^ -8}, {dtype = "bf16"})
    assert.same({1, 1 + 2 ^ -6}, b:table())
    local nan = fa4.full({1}, 0 / 0, {dtype = "f16"}):get(0)
    assert.is_true(nan ~= nan)
  end)

  it("prints shape, dtype, device and a corner", function()
    local text = tostring(fa4.full({1, 1000, 9, 64}, 0.5, {dtype = "f16"}))
    assert.is_truthy(text:find("f16 tensor (1, 1000, 9, 64) on cpu, 1.1 MiB", 1, true))
    assert.is_truthy(text:find("0.5 ... ", 1, true))
    for line in text:gmatch("[^\n]+") do assert.is_true(#line <= 80, line) end
    local _, lines = text:gsub("\n", "")
    assert.is_true(lines < 12)
  end)
end)

describe("random tensors", function()
  it("differ by default, and start again after a seed", function()
    fa4.seed(5)
    local a, b = fa4.randn{100}, fa4.randn{100}
    fa4.seed(5)
    assert.same_bits(fa4.randn{100}, a)
    assert.same_bits(fa4.randn({100}, {seed = 6}), b)
    assert.is_false(fa4.compare(a, b).pass)
  end)

  it("count those with a seed of their own, but not those that failed", function()
    fa4.seed(0)
    fa4.randn({2}, {seed = 77})
    fa4.uniform{2}
    for _, opts in ipairs{{scale = -1}, {seed = 0.5}, {dtype = "i32"}} do assert.is_false(pcall(fa4.randn, {2}, opts)) end
    local third = fa4.randn{100}
    assert.same_bits(fa4.randn({100}, {seed = 2}), third)
  end)

  it("have the mean and deviation asked for", function()
    local count = 100000
    local sum, squares, data = 0, 0, fa4.randn({count}, {dtype = "f64", seed = 1, scale = 2}).data
    for i = 0, count - 1 do sum, squares = sum + data[i], squares + data[i] ^ 2 end
    -- Five standard errors: 2 / sqrt(n) for the mean, 4 * sqrt(2 / n) for the variance.
    assert.near_to(sum / count, 0, 5 * 2 / math.sqrt(count))
    assert.near_to(squares / count, 4, 5 * 4 * math.sqrt(2 / count))
    local low, high = math.huge, -math.huge
    data = fa4.uniform({count}, {dtype = "f64", seed = 1, scale = 3}).data
    for i = 0, count - 1 do low, high = math.min(low, data[i]), math.max(high, data[i]) end
    assert.is_true(low >= -3 and low < -2.99 and high < 3 and high > 2.99)
  end)
end)

describe("a view", function()
  local t

  before_each(function() t = fa4.from_table{{{0, 1, 2, 3}, {4, 5, 6, 7}}, {{8, 9, 10, 11}, {12, 13, 14, 15}}} end)

  it("permutes axes", function()
    local p = t:permute(2, 0, 1)
    assert.same({{4, 2, 2}, {1, 8, 4}}, {shape_of(p)})
    assert.equal(t:get(1, 0, 3), p:get(3, 1, 0))
  end)

  it("narrows an axis", function()
    local n = t:narrow(2, 1, 2):narrow(0, 1, 1)
    assert.same({{{9, 10}, {13, 14}}}, n:table())
    assert.same({2, 2, 0}, t:narrow(2, 4, 0).shape)
  end)

  it("expands axes of size 1 with stride 0", function()
    local e = t:narrow(1, 0, 1):expand{3, 2, 5, 4}
    assert.same({0, 8, 0, 1}, e.strides)
    assert.equal(9, e:get(2, 1, 4, 1))
    assert.raises_text(function() t:expand{2, 3, 4} end, "axis 1", "expected 2, got 3")
    assert.raises_text(function() t:expand{4} end, "at least 3 axes")
  end)

  it("reshapes where the strides allow it", function()
    assert.same({{4, 4}, {4, 1}}, {shape_of(t:reshape{4, -1})})
    assert.same({{2, 1, 8}, {8, 8, 1}}, {shape_of(t:reshape{2, 1, 8})})
    assert.same({{2, 2, 2, 2}, {8, 4, 2, 1}}, {shape_of(t:reshape{2, 2, 2, 2})})
    assert.same({{2, 2, 2, 2}, {4, 2, 1, 8}}, {shape_of(t:permute(1, 2, 0):reshape{2, 2, 2, 2})})
    assert.raises_text(function() t:permute(2, 0, 1):reshape{16} end, "allow no view", "contiguous")
    assert.raises_text(function() t:reshape{3, 5} end, "15 elements", "16")
    assert.raises_text(function() t:reshape{-1, -1} end, "only one")
    assert.raises_text(function() t:reshape{3, -1} end, "elements")
    assert.same({0, 7}, fa4.zeros{7, 0}:reshape{0, 7}.shape)
  end)

  it("shares its storage and keeps it alive", function()
    local v = t:narrow(0, 1, 1)
    t:set(1, 0, 0, 99)
    t = nil
    collectgarbage()
    collectgarbage()
    assert.equal(99, v:get(0, 0, 0))
  end)

  it("raises once the storage is freed", function()
    local v = t:permute(0, 2, 1)
    t:free()
    for _, use in ipairs{
      function() v:get(0, 0, 0) end, function() v:set(0, 0, 0, 1) end, function() v:fill(0) end, function() v:clone() end,
      function() v:table() end, function() return v.data end, function() t:free() end, function() v:reshape{16} end,
      function() fa4.attention{device = "cpu"}(t:reshape{1, 2, 2, 4}, t, t) end, function() fa4.compare(t, t) end,
    } do
      assert.raises_text(use, "freed")
    end
    assert.is_truthy(tostring(v):find("freed"))
  end)
end)

describe("copying", function()
  it("converts, through any strides", function()
    local t = fa4.randn({3, 4, 5}, {dtype = "f64", seed = 3})
    local p = fa4.empty({5, 3, 4}, {dtype = "f16"}):permute(1, 2, 0):copy(t)
    assert.close(p, t:to{dtype = "f16"})
    assert.same_bits(p:contiguous(), t:to{dtype = "f16"})
  end)

  it("refuses another shape, and a target with stride 0", function()
    local t = fa4.zeros{2, 3}
    assert.raises_text(function() t:copy(fa4.zeros{3, 2}) end, "expected shape (2, 3), got (3, 2)")
    assert.raises_text(function() t:copy(3) end, "source", "got 3")
    assert.raises_text(function() fa4.zeros{1, 3}:expand{2, 3}:copy(t) end, "stride")
  end)

  it("is none when nothing changes", function()
    local t = fa4.zeros{2}
    assert.equal(t, t:to{dtype = "f32"})
    assert.equal(t, t:contiguous())
    assert.not_equal(t, t:clone())
  end)
end)

describe("memory", function()
  it("is counted, and comes back at once with free or later with the collector", function()
    collectgarbage()
    collectgarbage()
    local before = fa4.memory().host_bytes
    local t = fa4.zeros{1000}
    assert.equal(before + 4000, fa4.memory().host_bytes)
    t:free()
    assert.equal(before, fa4.memory().host_bytes)
    fa4.zeros{1000}
    collectgarbage()
    collectgarbage()
    assert.equal(before, fa4.memory().host_bytes)
  end)

  it("lives while its elements become a Lua list, which makes the collector run", function()
    local code = "local t, wrong = fa4.full({1000, 1000}, 7):table(), 0 "
      .. "for i = 1, 1000 do for j = 1, 1000 do if t[i][j] ~= 7 then wrong = wrong + 1 end end end print(wrong)"
    for _, mode in ipairs{"", "jit.off() "} do
      local result = program.run{"-e", mode .. code}
      assert.equal("0\n", result.out, result.err)
      assert.equal(0, result.code)
    end
  end)

  it("does not pile up in a loop that makes a tensor per step", function()
    collectgarbage()
    collectgarbage()
    for _ = 1, 200 do fa4.empty({16, 2 ^ 20}) end
    assert.is_true(fa4.memory().host_bytes < 1.5 * 2 ^ 30)
  end)
end)

describe("a wrong argument of a tensor function", function()
  it("is named with its value and what is allowed", function()
    local t = fa4.zeros{2, 3}
    for _, case in ipairs{
      {function() fa4.zeros{2.7} end, "shape, axis 0", "2.7"}, {function() fa4.zeros{-1} end, "axis 0", "-1"},
      {function() fa4.zeros{2 ^ 53 + 2} end, "axis 0"}, {function() fa4.zeros{2 ^ 40, 2 ^ 40} end, "overflow"},
      {function() fa4.zeros(5) end, "list of sizes", "5"}, {function() fa4.zeros{1, 1, 1, 1, 1, 1, 1, 1, 1} end, "at most 8", "9"},
      {function() fa4.zeros({2}, {dtype = "f17"}) end, "dtype", "f17", "did you mean"},
      {function() fa4.zeros({2}, {dtypes = "f16"}) end, "did you mean dtype"},
      {function() fa4.zeros({2}, {device = "gpu"}) end, "device", "gpu"}, {function() fa4.zeros({2}, 3) end, "options", "3"},
      {function() fa4.full({2}, "x") end, "value", "x"}, {function() fa4.randn({2}, {seed = -1}) end, "seed", "-1"},
      {function() fa4.randn({2}, {seed = 1e300}) end, "seed: expected a whole number >= 0 up to 2^53 in size, got 1"},
      {function() fa4.randn({2}, {scale = 0 / 0}) end, "scale", "nan"}, {function() fa4.randn({2}, {dtype = "i32"}) end, "i32"},
      {function() t:get(0) end, "expected 2 coordinates", "got 1"}, {function() t:get(2, 0) end, "axis 0", "0..1", "count from 0", "got 2"},
      {function() t:get(0, 1.5) end, "axis 1", "1.5"}, {function() t:set(0, 0, "x") end, "value", "x"},
      {function() t:permute(0, 0) end, "twice"}, {function() t:permute(0) end, "expected 2 axes"},
      {function() t:narrow(2, 0, 1) end, "axis", "2"}, {function() t:narrow(1, 2, 2) end, "length", "2"},
      {function() t:to("f16") end, "to", "f16"}, {function() t:to{dtype = "f8"} end, "f8"},
      {function() fa4.from_table{{1}, {1, 2}} end, "element (1)", "a list of 1"},
      {function() fa4.from_table{{1, "a"}} end, "element (0, 1)", '"a"'},
      {function() fa4.from_table("x") end, "nested lists"}, {function() fa4.seed(0.5) end, "seed", "0.5"},
      {function() t.get({}, 0) end, "expected a tensor"}, {function() fa4.compare(t, t, {rtoll = 1}) end, "did you mean rtol"},
    } do
      assert.raises_text(case[1], "tensor_spec.lua:", unpack(case, 2))
    end
  end)

  it("is too much memory: an error, and the process goes on", function()
    assert.raises_text(function() fa4.empty({2 ^ 46}, {dtype = "f32"}) end, "memory")
    assert.equal(0, fa4.zeros{2}:get(1))
  end)
end)

describe("files", function()
  local path

  before_each(function() path = os.tmpname() end)
  after_each(function()
    for _, ending in ipairs{"", ".npy", ".npz", ".safetensors"} do os.remove(path .. ending) end
  end)

  it("keep tensors, dtypes and metadata", function()
    local a, b = fa4.randn({2, 3}, {dtype = "bf16", seed = 1}), fa4.randn({4}, {dtype = "f16", seed = 2})
    fa4.save(path .. ".safetensors", {a = a, b = b}, {metadata = {model = "tiny", note = 'with "quotes"'}})
    local tensors, metadata = fa4.load(path .. ".safetensors")
    assert.same_bits(tensors.a, a)
    assert.same_bits(tensors.b, b)
    assert.same({model = "tiny", note = 'with "quotes"'}, metadata)
    assert.same_bits(fa4.load(path .. ".safetensors", "b"), b)
    assert.same_bits(fa4.load(path .. ".safetensors", {mmap = true}).a, a)
  end)

  it("hold one tensor in npy, several in npz, views as they look", function()
    local t = fa4.randn({3, 4}, {seed = 5})
    fa4.save(path .. ".npy", t:permute(1, 0))
    assert.same_bits(fa4.load(path .. ".npy"), t:permute(1, 0):contiguous())
    fa4.save(path .. ".npz", {x = t, y = t:narrow(1, 1, 2)})
    local tensors = fa4.load(path .. ".npz")
    assert.same_bits(tensors.x, t)
    assert.same_bits(tensors.y, t:narrow(1, 1, 2):contiguous())
  end)

  it("refuse names and texts that C would cut at a zero byte, and options that do not exist", function()
    local t = fa4.zeros{1}
    assert.raises_text(function() fa4.save(path .. ".npz", {["a\0b"] = t}) end, "tensors", "zero byte", "a\\0b")
    assert.raises_text(function() fa4.save(path .. ".safetensors", t, {metadata = {["a\0b"] = ""}}) end, "metadata", "zero byte")
    assert.raises_text(function() fa4.save(path .. ".safetensors", t, {metadata = {a = "b\0c"}}) end, "metadata a", "zero byte")
    assert.raises_text(function() fa4.save(path .. ".safetensors", t, {metdata = {}}) end, "metdata", "metadata")
    assert.raises_text(function() fa4.save(path .. ".safetensors", t, 5) end, "tensor_spec.lua:", "options", "5")
    assert.is_nil(io.open(path .. ".npz"))
    fa4.save(path .. ".npy", t)
    assert.raises_text(function() fa4.load(path .. ".npy", "weights") end, "without a name", "weights")
  end)

  it("name what is wrong", function()
    assert.raises_text(function() fa4.load(path .. "/nothing.npy") end, "tensor_spec.lua:", path)
    assert.raises_text(function() fa4.load(3) end, "path", "3")
    assert.raises_text(function() fa4.save(path .. ".npy", {a = fa4.zeros{1}, b = fa4.zeros{1}}) end, "npy")
    assert.raises_text(function() fa4.save(path .. ".npy", fa4.zeros({1}, {dtype = "bf16"})) end, "bf16", "safetensors")
    assert.raises_text(function() fa4.save(path .. ".tensors", {a = fa4.zeros{1}}) end, ".tensors")
    assert.raises_text(function() fa4.save(path .. ".npz", {3}) end, "names")
    fa4.save(path .. ".safetensors", {weight = fa4.zeros{1}})
    assert.raises_text(function() fa4.load(path .. ".safetensors", "wieght") end, "did you mean weight")
    assert.raises_text(function() fa4.save("/no/such/folder/x.npy", fa4.zeros{1}) end, "/no/such/folder")
  end)
end)

describe("a shape that a script wrote into", function()
  it("leads nobody beyond the memory", function()
    local function changed(field, value)
      local t = fa4.zeros{4, 4}
      t[field][1] = value
      return t
    end
    for _, use in ipairs{
      function() return changed("shape", 1e9):narrow(0, 5e8, 10) end, function() return changed("shape", 1e6):reshape{4e6} end,
      function() return changed("strides", 1e8):permute(1, 0) end, function() return changed("shape", 1e9):get(9e8, 0) end,
      function() return changed("shape", 1e6):clone() end,
    } do
      assert.is_false((pcall(use)))
    end
  end)
end)
