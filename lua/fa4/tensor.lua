--- Tensors: C memory with a shape, strides and a dtype, and views of it. Coordinates count from 0; only a Lua list, such as a shape,
-- starts at 1. Checks every argument before C sees it; conversion, random numbers and memory itself are C's.
local errors = require "fa4.errors"
local native = require "fa4.ffi"

local tensor = {}
local C = native.C
local raise, show = errors.raise, errors.show

local RANK_MAX = 8
local SIZE_MAX = 2 ^ 53

local DTYPES = {"f16", "bf16", "f32", "f64", "i32"}
local CODE, BYTES, POINTER = {}, {}, {}
do
  local pointers = {"uint16_t *", "uint16_t *", "float *", "double *", "int32_t *"}
  local bytes = {2, 2, 4, 8, 4}
  for i, name in ipairs(DTYPES) do
    CODE[name], BYTES[name], POINTER[name] = i - 1, bytes[i], pointers[i]
  end
end
tensor.dtypes, tensor.code, tensor.bytes = DTYPES, CODE, BYTES

local methods = {}
-- `data` and `nbytes` are made when asked for, so that a freed tensor raises instead of handing out an old address.
local meta = {methods = methods, fields = {shape = true, strides = true, dtype = true, device = true, data = true, nbytes = true}}

local index_scratch = native.new("int64_t[?]", RANK_MAX)
local value_scratch = native.new("double[1]")
local elements_scratch = native.new("int64_t[1]")

--- True for a tensor.
-- @tparam any value anything
-- @treturn boolean
function tensor.is(value)
  return getmetatable(value) == meta
end

-- ---- checks ----------------------------------------------------------------------------------------------------------------

local function check_dtype(name, dtype)
  if CODE[dtype] == nil then
    if type(dtype) == "string" then raise("%s: %s", name, errors.unknown("unknown dtype", dtype, DTYPES)) end
    raise("%s: expected one of %s, got %s", name, table.concat(DTYPES, ", "), show(dtype))
  end
  return dtype
end

-- A shape as a fresh list, or an error naming the axis.
local function check_shape(name, shape)
  if type(shape) ~= "table" or tensor.is(shape) then
    raise("%s: expected a list of sizes such as {2, 3}, got %s", name, tensor.is(shape) and "a tensor" or show(shape))
  end
  local rank = #shape
  for key in pairs(shape) do
    if not errors.is_whole(key) or key < 1 or key > rank then
      raise("%s: expected a list of sizes, got the key %s", name, show(key))
    end
  end
  if rank > RANK_MAX then raise("%s: expected at most %d axes, got %d", name, RANK_MAX, rank) end
  local copy = {}
  for axis = 1, rank do
    copy[axis] = errors.whole(("%s, axis %d"):format(name, axis - 1), shape[axis], 0, SIZE_MAX)
  end
  return copy
end

local function count_elements(shape, dtype)
  for axis = 1, #shape do index_scratch[axis - 1] = shape[axis] end
  native.check(C.fa4_shape_elements(index_scratch, #shape, CODE[dtype], elements_scratch, native.err))
  return tonumber(elements_scratch[0])
end

local OPTIONS = {"dtype", "seed", "scale", "device"}
local function check_options(opts, name)
  if opts == nil then return {} end
  if type(opts) ~= "table" then raise("%s: options: expected a table, got %s", name, show(opts)) end
  for key in pairs(opts) do
    local known = false
    for _, option in ipairs(OPTIONS) do known = known or option == key end
    if not known then raise("%s: options: %s", name, errors.unknown("unknown option", tostring(key), OPTIONS)) end
  end
  return opts
end

-- Raises unless t is a live tensor.
local function check_live(t, name)
  if not tensor.is(t) then
    raise("%s: expected a tensor, got %s", name, show(t))
  end
  if C.fa4_storage_freed(t.storage) ~= 0 then
    raise("%s: the tensor was freed", name)
  end
  return t
end
tensor.check = check_live

local function check_host(t, name)
  check_live(t, name)
  if t.device ~= "cpu" then
    raise("%s: the tensor is on %s; copy it with t:to{device = \"cpu\"}", name, t.device)
  end
  return t
end

-- ---- making ----------------------------------------------------------------------------------------------------------------

local function dense_strides(shape)
  local strides, step = {}, 1
  for axis = #shape, 1, -1 do
    strides[axis] = step
    step = step * math.max(shape[axis], 1)
  end
  return strides
end

local ordinals = {} -- by device name

local function device_of(name)
  local ordinal = ordinals[name]
  if not ordinal then
    ordinal = tonumber(name:match("^cuda:(%d+)$") or -1)
    ordinals[name] = ordinal
  end
  return ordinal >= 0 and 1 or 0, ordinal >= 0 and ordinal or 0
end

local view_type = native.typeof("fa4_tensor")

-- A tensor over memory that a storage holds; keeps the storage. The view is what C is given.
local function wrap(storage, data, dtype, shape, strides, device)
  local view = view_type()
  view.data = data
  view.dtype, view.rank = CODE[dtype], #shape
  view.device, view.device_index = device_of(device)
  for axis = 1, #shape do
    view.shape[axis - 1], view.strides[axis - 1] = shape[axis], strides[axis]
  end
  return setmetatable({storage = storage, view = view, dtype = dtype, shape = shape, strides = strides, device = device}, meta)
end

-- A script may have written into t.shape or t.strides, which are plain lists: a view made of them stays within the memory.
local function check_reach(t, data, shape, strides)
  local low, high = 0, 0
  for axis = 1, #shape do
    if shape[axis] == 0 then return end
    local reach = (shape[axis] - 1) * strides[axis]
    low, high = low + math.min(reach, 0), high + math.max(reach, 0)
  end
  local size, first = BYTES[t.dtype], tonumber(data - native.cast("char *", C.fa4_storage_data(t.storage)))
  if first + low * size < 0 or first + (high + 1) * size > tonumber(C.fa4_storage_bytes(t.storage)) then
    raise("the tensor's shape or strides were changed: they reach beyond its memory")
  end
end

-- Element `offset` of a tensor's own first element, with another shape.
local function view_of(t, offset, shape, strides)
  local data = native.cast("char *", t.view.data)
  if data ~= nil then
    data = data + offset * BYTES[t.dtype]
    check_reach(t, data, shape, strides)
  end
  return wrap(t.storage, data, t.dtype, shape, strides, t.device)
end

local function check_device(name, device)
  if type(device) ~= "string" then raise("%s: expected a device name, got %s", name, show(device)) end
  if device == "cuda" then return "cuda:0" end
  if device == "cpu" or device:find("^cuda:%d+$") then return device end
  raise("%s: expected \"cpu\", \"cuda\" or \"cuda:N\", got %q", name, device)
end

local function make(shape, opts, name)
  opts = check_options(opts, name)
  shape = check_shape(name .. ": shape", shape)
  local dtype = check_dtype(name .. ": dtype", opts.dtype == nil and "f32" or opts.dtype)
  local device = check_device(name .. ": device", opts.device == nil and "cpu" or opts.device)
  local bytes = count_elements(shape, dtype) * BYTES[dtype]
  local storage = native.storage(bytes, device)
  return wrap(storage, C.fa4_storage_data(storage), dtype, shape, dense_strides(shape), device), opts
end

-- Fills through host memory when the tensor is elsewhere.
local function filled(shape, opts, name, fill)
  local device = type(opts) == "table" and opts.device or nil
  if device == nil or device == "cpu" then
    local t, checked = make(shape, opts, name)
    fill(t, checked)
    return t
  end
  local host = {}
  for key, value in pairs(opts) do host[key] = value end
  host.device = "cpu"
  local t, checked = make(shape, host, name)
  fill(t, checked)
  return t:to{device = check_device(name .. ": device", device)}
end

--- A tensor whose memory is not touched: it holds anything.
-- @tparam {int,...} shape sizes, rank 0..8; a size may be 0
-- @tparam[opt] table opts `dtype` ("f32"), `device` ("cpu")
-- @treturn tensor contiguous, 64-byte aligned
-- @raise on a bad shape, dtype or device, or when memory is short
function tensor.empty(shape, opts)
  return (make(shape, opts, "empty"))
end

--- A dense tensor whose shape, dtype and device are known to be right. For the library's own modules.
-- @tparam {int,...} shape kept
-- @tparam string dtype
-- @tparam string device "cpu" or "cuda:N"
-- @tparam number elements of the shape
-- @treturn tensor
function tensor.dense(shape, dtype, device, elements)
  local storage = native.storage(elements * BYTES[dtype], device)
  return wrap(storage, C.fa4_storage_data(storage), dtype, shape, dense_strides(shape), device)
end

--- A tensor of zeros.
-- @tparam {int,...} shape sizes, rank 0..8
-- @tparam[opt] table opts `dtype` ("f32"), `device` ("cpu")
-- @treturn tensor
-- @raise as `fa4.empty`
function tensor.zeros(shape, opts)
  return filled(shape, opts, "zeros", function(t) t:fill(0) end)
end

--- A tensor of one value.
-- @tparam {int,...} shape sizes, rank 0..8
-- @tparam number value rounded to nearest even
-- @tparam[opt] table opts `dtype` ("f32"), `device` ("cpu")
-- @treturn tensor
-- @raise as `fa4.empty`
function tensor.full(shape, value, opts)
  if type(value) ~= "number" then raise("full: value: expected a number, got %s", show(value)) end
  return filled(shape, opts, "full", function(t) t:fill(value) end)
end

-- Random tensors made so far, those with a seed of their own included.
local random_count = 0

--- Restarts the count that gives random tensors their default seeds.
-- @tparam[opt=0] int n the seed of the next random tensor that names none
function tensor.seed(n)
  random_count = errors.whole("seed", n == nil and 0 or n, 0, SIZE_MAX)
end

local function random(shape, opts, name, distribution)
  return filled(shape, opts, name, function(t, checked)
    local seed, scale = checked.seed, checked.scale
    if scale == nil then scale = 1 end
    if type(scale) ~= "number" or scale ~= scale or math.abs(scale) == math.huge then
      raise("%s: scale: expected a finite number, got %s", name, show(scale))
    end
    if t.dtype == "i32" then raise("%s: dtype: expected f16, bf16, f32 or f64, got i32", name) end
    seed = seed == nil and random_count or errors.whole(name .. ": seed", seed, 0, SIZE_MAX)
    native.check(C.fa4_tensor_random(t.view, distribution, seed, scale, native.err))
    random_count = random_count + 1
  end)
end

--- Normal random numbers of mean 0: the same seed gives the same bits on every machine.
-- @tparam {int,...} shape sizes, rank 0..8
-- @tparam[opt] table opts `dtype` ("f32"), `seed` (default: the number of random tensors made so far), `scale` (deviation, 1),
-- `device` ("cpu")
-- @treturn tensor
-- @raise as `fa4.empty`
function tensor.randn(shape, opts)
  return random(shape, opts, "randn", 0)
end

--- Uniform random numbers in [-scale, scale).
-- @tparam {int,...} shape sizes, rank 0..8
-- @tparam[opt] table opts as for `fa4.randn`
-- @treturn tensor
-- @raise as `fa4.empty`
function tensor.uniform(shape, opts)
  return random(shape, opts, "uniform", 1)
end

-- The shape of a nested list, from its first elements; later ones must agree.
local function nested_shape(nested)
  local shape, level = {}, nested
  while type(level) == "table" do
    if #shape == RANK_MAX then raise("from_table: nested deeper than %d", RANK_MAX) end
    shape[#shape + 1] = #level
    level = level[1]
  end
  return shape
end

local function place(t, nested, shape, axis, index)
  local where = table.concat(index, ", ", 1, axis - 1)
  if axis > #shape then
    if type(nested) ~= "number" then
      raise("from_table: element (%s): expected a number, got %s", where, show(nested))
    end
    for i = 1, #shape do index_scratch[i - 1] = index[i] end
    native.check(C.fa4_tensor_set(t.view, index_scratch, nested, native.err))
    return
  end
  if type(nested) ~= "table" or #nested ~= shape[axis] then
    raise("from_table: element (%s): expected a list of %d, got %s", where, shape[axis],
      type(nested) == "table" and ("a list of %d"):format(#nested) or show(nested))
  end
  for i = 1, shape[axis] do
    index[axis] = i - 1
    place(t, nested[i], shape, axis + 1, index)
  end
end

--- A tensor from nested Lua lists.
-- @tparam table|number nested lists of lists of numbers, all of one length per level; a number gives rank 0
-- @tparam[opt] table opts `dtype` ("f32"), `device` ("cpu")
-- @treturn tensor
-- @raise when the lists are ragged or hold something else, naming the coordinate (from 0)
function tensor.from_table(nested, opts)
  if type(nested) ~= "number" and (type(nested) ~= "table" or tensor.is(nested)) then
    raise("from_table: expected nested lists of numbers, got %s", show(nested))
  end
  local shape = nested_shape(nested)
  return filled(shape, opts, "from_table", function(t) place(t, nested, shape, 1, {}) end)
end

--- A tensor over a storage and a view that C handed out. For the library's own modules.
-- @tparam cdata storage fa4_storage *, adopted
-- @tparam cdata view fa4_tensor
-- @treturn tensor
function tensor.adopt(storage, view)
  local shape, strides = {}, {}
  for axis = 1, view.rank do
    shape[axis], strides[axis] = tonumber(view.shape[axis - 1]), tonumber(view.strides[axis - 1])
  end
  return wrap(storage, view.data, DTYPES[view.dtype + 1], shape, strides, "cpu")
end

-- ---- reading and writing ---------------------------------------------------------------------------------------------------

local function load_index(t, name, ...)
  local count = select("#", ...)
  if count ~= #t.shape then
    raise("%s: expected %d coordinates (they count from 0), got %d", name, #t.shape, count)
  end
  for axis = 1, count do
    local i = (select(axis, ...))
    if not errors.is_whole(i) or i < 0 or i >= t.shape[axis] then
      raise("%s: axis %d: expected %s (coordinates count from 0), got %s", name, axis - 1,
        errors.whole_range(0, t.shape[axis] - 1), show(i))
    end
    index_scratch[axis - 1] = i
  end
end

--- One element. Coordinates count from 0.
-- @tparam int ... one coordinate per axis
-- @treturn number
-- @raise on a wrong count, a coordinate out of range, a freed tensor or one on a GPU
function methods:get(...)
  check_host(self, "get")
  load_index(self, "get", ...)
  native.check(C.fa4_tensor_get(self.view, index_scratch, value_scratch, native.err))
  return value_scratch[0]
end

--- Sets one element: `t:set(i, ..., value)`. Coordinates count from 0.
-- @tparam int ... one coordinate per axis, then the value (rounded to nearest even)
-- @treturn tensor itself
-- @raise as `get`
function methods:set(...)
  check_host(self, "set")
  local count = select("#", ...)
  local value = count > 0 and (select(count, ...)) or nil
  if type(value) ~= "number" then raise("set: value: expected a number, got %s", show(value)) end
  local index = {...}
  load_index(self, "set", unpack(index, 1, count - 1))
  native.check(C.fa4_tensor_set(self.view, index_scratch, value, native.err))
  return self
end

--- The elements as nested Lua lists (which start at 1, as Lua lists do).
-- @treturn table|number a number for rank 0
-- @raise on a freed tensor
function methods:table()
  check_live(self, "table")
  local dense = self:to{dtype = "f64", device = "cpu"}:contiguous()
  local data, shape = dense.data, dense.shape
  local at = 0
  local function level(axis)
    if axis > #shape then
      at = at + 1
      return data[at - 1]
    end
    local list = {}
    for i = 1, shape[axis] do list[i] = level(axis + 1) end
    return list
  end
  local nested = level(1)
  native.keep(dense) -- data points into it until here.
  return nested
end

--- Sets every element.
-- @tparam number value rounded to nearest even
-- @treturn tensor itself
function methods:fill(value)
  check_live(self, "fill")
  if type(value) ~= "number" then raise("fill: value: expected a number, got %s", show(value)) end
  if self.device ~= "cpu" then
    return self:copy(tensor.full(self.shape, value, {dtype = self.dtype}))
  end
  native.check(C.fa4_tensor_fill(self.view, value, native.err))
  return self
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for axis = 1, #a do
    if a[axis] ~= b[axis] then return false end
  end
  return true
end

local function shape_text(shape)
  return "(" .. table.concat(shape, ", ") .. ")"
end
tensor.shape_text = shape_text

local function is_dense(t)
  local step = 1
  for axis = #t.shape, 1, -1 do
    if t.shape[axis] == 0 then return true end
    if t.shape[axis] > 1 and t.strides[axis] ~= step then return false end
    step = step * t.shape[axis]
  end
  return true
end

-- Elements of device memory as a host tensor of the same strides.
local function download(t)
  local bytes = tonumber(C.fa4_storage_bytes(t.storage))
  local storage = native.storage(bytes)
  local base = native.cast("char *", C.fa4_storage_data(storage))
  native.check(C.fa4_storage_read(t.storage, 0, base, bytes, native.err))
  local offset = native.cast("char *", t.view.data) - native.cast("char *", C.fa4_storage_data(t.storage))
  return wrap(storage, base + offset, t.dtype, t.shape, t.strides, "cpu")
end

local function upload(t, device)
  local dense = t:contiguous()
  local bytes = count_elements(dense.shape, dense.dtype) * BYTES[dense.dtype]
  local storage = native.storage(bytes, device)
  native.check(C.fa4_storage_write(storage, 0, dense.view.data, bytes, native.err))
  return wrap(storage, C.fa4_storage_data(storage), dense.dtype, dense.shape, dense_strides(dense.shape), device)
end

--- Copies from a tensor of the same shape, converting the dtype (rounding once, to nearest even).
-- @tparam tensor source same shape; any dtype, any device
-- @treturn tensor itself
-- @raise when the shapes differ or this tensor has two coordinates at one address
function methods:copy(source)
  check_live(self, "copy")
  check_live(source, "copy: source")
  if not same_shape(self.shape, source.shape) then
    raise("copy: source: expected shape %s, got %s", shape_text(self.shape), shape_text(source.shape))
  end
  if source.device ~= "cpu" then source = download(source) end
  if self.device == "cpu" then
    native.check(C.fa4_tensor_copy(self.view, source.view, native.err))
    return self
  end
  if not is_dense(self) then raise("copy: a view on %s must be contiguous to be written", self.device) end
  local dense = source:to{dtype = self.dtype}:contiguous()
  local offset = native.cast("char *", self.view.data) - native.cast("char *", C.fa4_storage_data(self.storage))
  native.check(C.fa4_storage_write(self.storage, offset, dense.view.data, dense.nbytes, native.err))
  return self
end

--- The same values in another dtype or on another device; itself when nothing changes.
-- @tparam table opts `dtype`, `device`
-- @treturn tensor
-- @raise on an unknown option, dtype or device
function methods:to(opts)
  check_live(self, "to")
  if type(opts) ~= "table" then raise("to: expected {dtype =, device =}, got %s", show(opts)) end
  opts = check_options(opts, "to")
  local dtype = check_dtype("to: dtype", opts.dtype == nil and self.dtype or opts.dtype)
  local device = check_device("to: device", opts.device == nil and self.device or opts.device)
  if dtype == self.dtype and device == self.device then return self end
  local host = self.device == "cpu" and self or download(self)
  if dtype ~= host.dtype then
    host = make(host.shape, {dtype = dtype}, "to"):copy(host)
  end
  if device ~= "cpu" then return upload(host, device) end
  return host
end

--- A contiguous copy in memory of its own.
-- @treturn tensor same shape, dtype and device
function methods:clone()
  check_live(self, "clone")
  if self.device ~= "cpu" then return upload(download(self), self.device) end
  return make(self.shape, {dtype = self.dtype}, "clone"):copy(self)
end

--- Itself when its elements lie one after another in order, else a contiguous copy.
-- @treturn tensor
function methods:contiguous()
  check_live(self, "contiguous")
  if is_dense(self) then return self end
  return self:clone()
end

--- True when the elements lie one after another in order.
-- @treturn boolean
function methods:is_contiguous()
  return is_dense(self)
end

--- Frees the memory at once; this tensor and every view of it raise when used afterwards.
function methods:free()
  check_live(self, "free")
  C.fa4_storage_free(self.storage)
end

-- ---- views -----------------------------------------------------------------------------------------------------------------

--- A view with the axes in another order: `t:permute(0, 2, 1, 3)`. Axes count from 0.
-- @tparam int ... each axis once
-- @treturn tensor a view
function methods:permute(...)
  check_live(self, "permute")
  local rank, axes = #self.shape, {...}
  if select("#", ...) ~= rank then raise("permute: expected %d axes, got %d", rank, select("#", ...)) end
  local shape, strides, seen = {}, {}, {}
  for i = 1, rank do
    local axis = errors.whole("permute: axis", axes[i], 0, rank - 1)
    if seen[axis] then raise("permute: axis %d is named twice", axis) end
    seen[axis] = true
    shape[i], strides[i] = self.shape[axis + 1], self.strides[axis + 1]
  end
  return view_of(self, 0, shape, strides)
end

--- A view of part of one axis: coordinates start .. start + length - 1. Axes and coordinates count from 0.
-- @tparam int axis which axis
-- @tparam int start first coordinate
-- @tparam int length how many
-- @treturn tensor a view
function methods:narrow(axis, start, length)
  check_live(self, "narrow")
  errors.whole("narrow: axis", axis, 0, #self.shape - 1)
  local size = self.shape[axis + 1]
  errors.whole("narrow: start", start, 0, size)
  errors.whole("narrow: length", length, 0, size - start)
  local shape, strides = {unpack(self.shape)}, {unpack(self.strides)}
  shape[axis + 1] = length
  return view_of(self, length == 0 and 0 or start * strides[axis + 1], shape, strides)
end

--- A view in which axes of size 1 (and new leading axes) are repeated without copying: their stride is 0.
-- @tparam {int,...} shape at least as many axes
-- @treturn tensor a view
function methods:expand(shape)
  check_live(self, "expand")
  shape = check_shape("expand: shape", shape)
  local extra = #shape - #self.shape
  if extra < 0 then
    raise("expand: shape: expected at least %d axes, got %d", #self.shape, #shape)
  end
  local strides = {}
  for axis = 1, #shape do
    local size = axis > extra and self.shape[axis - extra] or 1
    if shape[axis] == size and axis > extra then
      strides[axis] = self.strides[axis - extra]
    elseif size == 1 then
      strides[axis] = 0
    else
      raise("expand: axis %d: expected %d, got %d", axis - 1, size, shape[axis])
    end
  end
  return view_of(self, 0, shape, strides)
end

local function infer_shape(t, shape)
  if type(shape) ~= "table" then raise("reshape: expected a list of sizes, got %s", show(shape)) end
  local copy, hole, product = {}, nil, 1
  for axis = 1, #shape do
    copy[axis] = shape[axis]
    if shape[axis] == -1 then
      if hole then raise("reshape: shape: only one axis may be -1") end
      hole, copy[axis] = axis, 1
    end
  end
  copy = check_shape("reshape: shape", copy)
  for axis = 1, #copy do product = product * copy[axis] end
  local total = count_elements(t.shape, t.dtype)
  if hole and product > 0 and total % product == 0 then copy[hole] = total / product end
  local new_total = count_elements(copy, t.dtype)
  if new_total ~= total then
    raise("reshape: shape %s has %.0f elements, the tensor has %.0f", shape_text(shape), new_total, total)
  end
  return copy, total
end

--- A view of another shape with the same elements in the same order. One size may be -1: it follows from the others.
-- @tparam {int,...} shape sizes
-- @treturn tensor a view
-- @raise when the count differs, or when the strides allow no view (then use `t:contiguous():reshape(...)`)
function methods:reshape(shape)
  check_live(self, "reshape")
  local new, total = infer_shape(self, shape)
  if total == 0 then return view_of(self, 0, new, dense_strides(new)) end
  -- Walk both shapes from the last axis; a run of old axes that lie one after another may be cut up anew.
  local strides, axis = {}, #new
  local chunk, base = 1, self.strides[#self.strides] or 1
  for old = #self.shape, 1, -1 do
    chunk = chunk * self.shape[old]
    local joined = old > 1 and (self.shape[old - 1] == 1 or self.strides[old - 1] == chunk * base)
    if not joined then
      local filled_count = 1
      while axis >= 1 and (filled_count < chunk or new[axis] == 1) do
        strides[axis] = filled_count * base
        filled_count = filled_count * new[axis]
        axis = axis - 1
      end
      if filled_count ~= chunk then
        raise("reshape: strides {%s} of shape %s allow no view of shape %s; use t:contiguous():reshape(...)",
          table.concat(self.strides, ", "), shape_text(self.shape), shape_text(new))
      end
      if old > 1 then chunk, base = 1, self.strides[old - 1] end
    end
  end
  while axis >= 1 do
    strides[axis] = 1
    axis = axis - 1
  end
  return view_of(self, 0, new, strides)
end

-- ---- fields and printing ---------------------------------------------------------------------------------------------------

local POINTER_TYPES = POINTER

--- Fields beside shape, strides (elements), dtype and device: `data`, a typed pointer to element 0 that does not keep the tensor
-- alive (16-bit floats as uint16_t), and `nbytes`, the bytes of the elements.
function meta.__index(t, key)
  local method = methods[key]
  if method then return method end
  if key == "nbytes" then
    return count_elements(t.shape, t.dtype) * BYTES[t.dtype]
  elseif key == "data" then
    check_live(t, "data")
    return native.cast(POINTER_TYPES[t.dtype], t.view.data)
  end
end

local EDGE = 3

-- Coordinates of an axis that are shown: the first and last few, with a gap between.
local function shown(size)
  local list = {}
  if size <= 2 * EDGE then
    for i = 0, size - 1 do list[#list + 1] = i end
    return list
  end
  for i = 0, EDGE - 1 do list[#list + 1] = i end
  list[#list + 1] = "..."
  for i = size - EDGE, size - 1 do list[#list + 1] = i end
  return list
end

local function bytes_text(bytes)
  for _, unit in ipairs{{2 ^ 30, "GiB"}, {2 ^ 20, "MiB"}, {2 ^ 10, "KiB"}} do
    if bytes >= unit[1] then return ("%.1f %s"):format(bytes / unit[1], unit[2]) end
  end
  return ("%.0f bytes"):format(bytes)
end

local function corner(t)
  local rank = #t.shape
  local index = {}
  for axis = 1, rank do index[axis] = 0 end
  local function row()
    local cells = {}
    for _, j in ipairs(rank > 0 and shown(t.shape[rank]) or {0}) do
      if j == "..." then
        cells[#cells + 1] = "..."
      else
        if rank > 0 then index[rank] = j end
        cells[#cells + 1] = ("%10.4g"):format(t:get(unpack(index, 1, rank)))
      end
    end
    return "  " .. table.concat(cells, " ")
  end
  if rank < 2 then return row() end
  local rows = {}
  for _, i in ipairs(shown(t.shape[rank - 1])) do
    if i == "..." then
      rows[#rows + 1] = "         ..."
    else
      index[rank - 1] = i
      rows[#rows + 1] = row()
    end
  end
  return table.concat(rows, "\n")
end

function meta.__tostring(t)
  local head = ("%s tensor %s on %s"):format(t.dtype, shape_text(t.shape), t.device)
  if C.fa4_storage_freed(t.storage) ~= 0 then return head .. ", freed" end
  head = head .. ", " .. bytes_text(t.nbytes)
  if not is_dense(t) then head = head .. ", strides {" .. table.concat(t.strides, ", ") .. "}" end
  if t.device ~= "cpu" or t.nbytes == 0 then return head end
  local rank = #t.shape
  if rank > 2 then head = head .. "; shown: [" .. ("0, "):rep(rank - 2) .. ":, :]" end
  return head .. "\n" .. corner(t)
end

return tensor
