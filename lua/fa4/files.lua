--- Files of tensors (.npy, .npz, safetensors) and of text: what C read or will write, as Lua values.
local errors = require "fa4.errors"
local native = require "fa4.ffi"
local tensor = require "fa4.tensor"

local files = {}
local C = native.C
local raise, show = errors.raise, errors.show

local function check_path(name, path)
  if type(path) ~= "string" or path == "" then raise("%s: path: expected a file name, got %s", name, show(path)) end
  if path:find("\0", 1, true) then raise("%s: path: a file name holds no zero byte", name) end
  return path
end

local view = native.new("fa4_tensor")
local storage = native.new("fa4_storage *[1]")

local function take(file, i, path)
  native.check_file(C.fa4_file_tensor(file, i, view, storage, native.err), path)
  return tensor.adopt(native.adopt_storage(storage[0]), view)
end

local function metadata_of(file)
  local metadata = {}
  for i = 0, tonumber(C.fa4_file_metadata_count(file)) - 1 do
    metadata[native.string(C.fa4_file_metadata_key(file, i))] = native.string(C.fa4_file_metadata_value(file, i))
  end
  return metadata
end

local function options_of(name, opts)
  if opts ~= nil and type(opts) ~= "table" then raise("load: options: expected a table, got %s", show(opts)) end
  for key, value in pairs(opts or {}) do
    if key ~= "mmap" then raise("load: options: %s", errors.unknown("unknown option", tostring(key), {"mmap"})) end
    if type(value) ~= "boolean" then raise("load: mmap: expected true or false, got %s", show(value)) end
  end
  if name ~= nil and type(name) ~= "string" then raise("load: name: expected a string, got %s", show(name)) end
end

--- Reads a file of tensors; the kind is found by content.
-- @tparam string path .npy, .npz or safetensors
-- @tparam[opt] string name one tensor of the file
-- @tparam[opt] table opts `mmap = true` maps the file privately instead of reading it (truncating it meanwhile is undefined)
-- @return a tensor (.npy, or when `name` is given), else a table of tensors by name
-- @treturn table the file's metadata, strings by key
-- @raise on a missing, truncated or hostile file, or an unknown name
function files.load(path, name, opts)
  check_path("load", path)
  if type(name) == "table" and opts == nil then name, opts = nil, name end
  options_of(name, opts)
  local file = native.file(path, opts and opts.mmap)
  local metadata = metadata_of(file)
  local count = tonumber(C.fa4_file_count(file))
  local names = {}
  for i = 0, count - 1 do names[i + 1] = native.string(C.fa4_file_name(file, i)) end
  if name then
    for i = 1, count do
      if names[i] == name then return take(file, i - 1, path), metadata end
    end
    if count == 0 then raise("load: %s holds no tensor", path) end
    if names[1] == "" then raise("load: %s: an .npy file holds one tensor without a name, not %s", path, show(name)) end
    raise("load: %s: %s", path, errors.unknown("no such tensor", name, names))
  end
  if native.string(C.fa4_file_kind(file)) == "npy" then return take(file, 0, path), metadata end
  local tensors = {}
  for i = 1, count do tensors[names[i]] = take(file, i - 1, path) end
  return tensors, metadata
end

-- C reads up to a zero byte: what lies behind it would vanish.
local function sorted_keys(what, t)
  local keys = {}
  for key in pairs(t) do
    if type(key) ~= "string" then raise("save: %s: expected names as keys, got %s", what, show(key)) end
    if key:find("\0", 1, true) then raise("save: %s: a name holds no zero byte, got %s", what, show(key)) end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

local function metadata_for(opts)
  if opts ~= nil and type(opts) ~= "table" then raise("save: options: expected a table {metadata =}, got %s", show(opts)) end
  for key in pairs(opts or {}) do
    if key ~= "metadata" then raise("save: options: %s", errors.unknown("unknown option", tostring(key), {"metadata"})) end
  end
  local metadata = opts and opts.metadata or {}
  if type(metadata) ~= "table" then raise("save: metadata: expected a table of strings, got %s", show(metadata)) end
  local keys = sorted_keys("metadata", metadata)
  for _, key in ipairs(keys) do
    if type(metadata[key]) ~= "string" or metadata[key]:find("\0", 1, true) then
      raise("save: metadata %s: expected a string without zero bytes, got %s", key, show(metadata[key]))
    end
  end
  return metadata, keys
end

--- Writes tensors to a file; the kind follows from the ending of its name. It is written beside its place and renamed.
-- @tparam string path ends in .npy (one tensor), .npz or .safetensors
-- @tparam tensor|table tensors one tensor, or tensors by name
-- @tparam[opt] table opts `metadata`, strings by key (safetensors only)
-- @raise on a wrong argument, a full disk, a missing folder
function files.save(path, tensors, opts)
  check_path("save", path)
  if tensor.is(tensors) then
    tensors = {[path:find("%.npy$") and "" or "tensor"] = tensors}
  elseif type(tensors) ~= "table" then
    raise("save: expected a tensor or a table of tensors, got %s", show(tensors))
  end
  local metadata, keys = metadata_for(opts)
  local keep, names = {}, sorted_keys("tensors", tensors)
  local list = native.new("fa4_named_tensor[?]", math.max(#names, 1))
  for i, name in ipairs(names) do
    local t = tensor.check(tensors[name], ("save: tensor %q"):format(name))
    if t.device ~= "cpu" then t = t:to{device = "cpu"} end
    keep[i] = t
    list[i - 1].name, list[i - 1].tensor = name, t.view
  end
  local pairs_list = native.new("fa4_metadata[?]", math.max(#keys, 1))
  for i, key in ipairs(keys) do pairs_list[i - 1].key, pairs_list[i - 1].value = key, metadata[key] end
  local status = C.fa4_file_write(path, list, #names, pairs_list, #keys, native.err)
  native.keep(keep) -- The list points into these tensors until here.
  native.check(status)
end

--- Writes bytes to a file, beside its place and then renamed.
-- @tparam string path where
-- @tparam string text what
-- @raise when the system refuses
function files.write_text(path, text)
  check_path("save", path)
  native.check(C.fa4_file_write_bytes(path, text, #text, native.err))
end

return files
