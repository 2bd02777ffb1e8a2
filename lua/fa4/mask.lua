--- Masks: which keys a query sees. Constructors make plain tables; `compile` turns one into the nodes that a request carries. A Lua
-- function is evaluated here, once per plan, into bits; the intervals of the built-in masks are C's.
-- Query i and key j count from 0; the diagonal of causal and window masks is aligned bottom right: key i + Skv - Sq.
local errors = require "fa4.errors"
local native = require "fa4.ffi"
local progress = require "fa4.progress"
local tensor = require "fa4.tensor"

local mask = {}
local raise, show = errors.raise, errors.show
local bor, lshift, tobit = bit.bor, bit.lshift, bit.tobit

local INT32_MAX = 2 ^ 31 - 1
-- Words of all function masks of one plan: 1 GiB of bits.
local WORDS_MAX = 2 ^ 28

local KIND = {full = 0, causal = 1, window = 2, prefix = 3, document = 4, bits = 5, all_of = 6, any_of = 7, none_of = 8}

local meta = {}
meta.__index = meta

local function new(t)
  return setmetatable(t, meta)
end

--- True for a mask made by this module.
-- @tparam any value anything
-- @treturn boolean
function mask.is(value)
  return getmetatable(value) == meta
end

local function check_keys(name, given, allowed)
  if type(given) ~= "table" or mask.is(given) or tensor.is(given) then
    raise("mask.%s: expected a table {%s =}, got %s", name, table.concat(allowed, " =, "), show(given))
  end
  for key in pairs(given) do
    local known = false
    for _, field in ipairs(allowed) do known = known or field == key end
    if not known then raise("mask.%s: %s", name, errors.unknown("unknown field", tostring(key), allowed)) end
  end
end

--- Every query sees every key.
-- @treturn mask
function mask.full()
  return new{kind = "full"}
end

--- Query i sees keys j <= i + Skv - Sq.
-- @treturn mask
function mask.causal()
  return new{kind = "causal"}
end

--- Query i sees keys from `left` before its diagonal key to `right` after it, both ends included.
-- @tparam table given `left`, `right`: whole numbers of keys; negative (the default, -1) is unbounded
-- @treturn mask
function mask.window(given)
  check_keys("window", given, {"left", "right"})
  local sides = {}
  for _, side in ipairs{"left", "right"} do
    local value = given[side]
    if value == nil then value = -1 end
    sides[side] = math.max(-1, errors.whole("mask.window: " .. side, value, -2 ^ 53, 2 ^ 53))
  end
  return new{kind = "window", left = sides.left, right = sides.right}
end

--- Keys j < length are seen by all queries, the rest causally.
-- @tparam table given `length`, 0..Skv
-- @treturn mask
function mask.prefix(given)
  check_keys("prefix", given, {"length"})
  return new{kind = "prefix", length = errors.whole("mask.prefix: length", given.length, 0, 2 ^ 53)}
end

-- A list of whole numbers from a Lua list or an i32 tensor of rank 1.
local function whole_list(name, list, low)
  if tensor.is(list) then
    if #list.shape ~= 1 then raise("%s: expected a tensor of rank 1, got rank %d", name, #list.shape) end
    list = list:table()
  end
  if type(list) ~= "table" then raise("%s: expected a list of whole numbers, got %s", name, show(list)) end
  local copy = {}
  for i = 1, #list do
    copy[i] = errors.whole(("%s, entry %d (entries count from 0)"):format(name, i - 1), list[i], low, INT32_MAX)
  end
  return copy
end

--- Queries see the keys of their own document; query i has the position of key i + Skv - Sq. Not causal by itself.
-- @tparam table given `ids`, one whole number per key (a list or an i32 tensor), or `lengths`, the documents' lengths in order
-- @treturn mask
function mask.document(given)
  check_keys("document", given, {"ids", "lengths"})
  if (given.ids == nil) == (given.lengths == nil) then
    raise("mask.document: expected either ids or lengths, got %s", given.ids and "both" or "neither")
  end
  if given.ids then return new{kind = "document", ids = whole_list("mask.document: ids", given.ids, -2 ^ 31)} end
  local ids, total = {}, 0
  for document, length in ipairs(whole_list("mask.document: lengths", given.lengths, 0)) do
    total = total + length
    if total > INT32_MAX then raise("mask.document: lengths: expected a sum below 2^31, got %.0f", total) end
    for _ = 1, length do ids[#ids + 1] = document - 1 end
  end
  return new{kind = "document", ids = ids}
end

local function is_callable(value)
  return type(value) == "function"
end

--- Makes a mask of what a config may hold: a mask, or a function.
-- @tparam any value what came
-- @tparam string name the argument, as messages call it
-- @treturn mask
function mask.check(value, name)
  if mask.is(value) then return value end
  if is_callable(value) then return mask.lua{value} end
  if type(value) == "string" and rawget(mask, value) and KIND[value] then
    raise("%s: expected a mask, got the string %q; write fa4.mask.%s()", name, value, value)
  end
  raise("%s: expected a mask of fa4.mask or a function(i, j, h, b), got %s", name, show(value))
end

local function combination(kind, ...)
  local count = select("#", ...)
  if count == 0 then raise("mask.%s: expected at least one mask", kind) end
  local list = {}
  for i = 1, count do list[i] = mask.check((select(i, ...)), ("mask.%s: argument %d"):format(kind, i)) end
  return new{kind = kind, masks = list}
end

--- Keys that every one of the masks shows.
-- @tparam mask|function ... at least one
-- @treturn mask
function mask.all_of(...) return combination("all_of", ...) end

--- Keys that at least one of the masks shows.
-- @tparam mask|function ... at least one
-- @treturn mask
function mask.any_of(...) return combination("any_of", ...) end

--- Keys that none of the masks shows.
-- @tparam mask|function ... at least one
-- @treturn mask
function mask.none_of(...) return combination("none_of", ...) end

--- A mask from a Lua function of raw indices (all count from 0): query i, key j, query head h, batch b; it returns true when seen.
-- It is called once per element when a plan is made. What it depends on follows from its parameters, or is said here.
-- @tparam table given `[1]` the function, `per_head`, `per_batch`: whether it depends on h and b (else it is given nil for them)
-- @treturn mask
function mask.lua(given)
  if is_callable(given) then given = {given} end
  if type(given) ~= "table" or mask.is(given) then raise("mask.lua: expected a table {function}, got %s", show(given)) end
  local rest = {}
  for key, value in pairs(given) do
    if key ~= 1 then rest[key] = value end
  end
  check_keys("lua", rest, {"per_head", "per_batch"})
  local fn = given[1]
  if not is_callable(fn) then raise("mask.lua: expected a function as the first entry, got %s", show(fn)) end
  local info = debug.getinfo(fn, "Su")
  local arity = (info.isvararg or info.what == "C") and 4 or info.nparams
  local made = new{kind = "lua", fn = fn, per_head = arity >= 3, per_batch = arity >= 4}
  for _, key in ipairs{"per_head", "per_batch"} do
    if given[key] ~= nil then
      if type(given[key]) ~= "boolean" then raise("mask.lua: %s: expected true or false, got %s", key, show(given[key])) end
      made[key] = given[key]
    end
  end
  return made
end

-- ---- from a mask to the nodes of a request ---------------------------------------------------------------------------------

local function type_of_result(value)
  if value ~= value then return "nan (a number)" end
  if type(value) == "nil" then return "nil" end
  return ("%s (a %s)"):format(show(value):gsub("^a ", ""), type(value))
end

-- Evaluates one head's rows into words, noting in `at` where it is, so that an error can say.
local function fill_bits(m, size, words, base, h, b, at)
  local fn, row_words = m.fn, size.row_words
  local queries, keys = size.seqlen_q, size.seqlen_kv
  at.h, at.b = h, b
  for i = 0, queries - 1 do
    at.i = i
    native.poll()
    for word = 0, row_words - 1 do
      local bits = 0
      local first = word * 32
      for j = first, math.min(first + 31, keys - 1) do
        at.j = j
        local seen = fn(i, j, h, b)
        if seen == true then
          bits = bor(bits, lshift(1, j - first))
        elseif seen ~= false then
          error({wrong_result = type_of_result(seen)}, 0)
        end
      end
      words[base + i * row_words + word] = tobit(bits)
    end
    at.rows = at.rows + 1
    if at.rows % 64 == 0 then at.bar(at.rows / at.rows_all) end
  end
end

local function where_text(m, at)
  local text = ("query %d, key %d"):format(at.i or 0, at.j or 0)
  if at.h then text = text .. (", head %d"):format(at.h) end
  if at.b then text = text .. (", batch %d"):format(at.b) end
  local info = debug.getinfo(m.fn, "S")
  return text, ("%s:%d"):format(info.short_src, info.linedefined)
end

-- An error inside a mask function keeps its own text (which names the script's line) and gains the coordinates.
local function raise_inside(m, at, failure)
  local text, origin = where_text(m, at)
  if type(failure) == "table" and failure.wrong_result then
    raise("mask: the function of %s returned %s at %s (coordinates count from 0); expected true or false", origin,
      failure.wrong_result, text)
  end
  if type(failure) ~= "string" then error(failure, 0) end
  error(("%s\n  in the mask function of %s at %s (coordinates count from 0)"):format(failure, origin, text), 0)
end

-- The bits of a function mask: [batch or 1][head or 1][Sq][row_words] words in host memory.
local function evaluate(m, problem)
  local size = {seqlen_q = problem.seqlen_q, seqlen_kv = problem.seqlen_kv, row_words = 4 * math.ceil(problem.seqlen_kv / 128)}
  local heads = m.per_head and problem.heads_q or 1
  local batches = m.per_batch and problem.batch or 1
  local count = batches * heads * size.seqlen_q * size.row_words
  if count > WORDS_MAX then
    raise("mask: a function over %.0f queries x %.0f keys x %d heads x %.0f batches needs %.0f MiB of bits; allowed are %d",
      size.seqlen_q, size.seqlen_kv, heads, batches, count / 2 ^ 18, WORDS_MAX / 2 ^ 18)
  end
  local storage = native.storage(count * 4)
  local words = native.cast("int32_t *", native.C.fa4_storage_data(storage))
  local at = {rows = 0, rows_all = batches * heads * size.seqlen_q, bar = progress.bar("mask")}
  local ok, failure = pcall(function()
    for b = 0, batches - 1 do
      for h = 0, heads - 1 do
        fill_bits(m, size, words, (b * heads + h) * size.seqlen_q * size.row_words, m.per_head and h or nil,
          m.per_batch and b or nil, at)
      end
    end
  end)
  at.bar(nil)
  if not ok then raise_inside(m, at, failure) end
  return {storage = storage, words = words, count = count}
end

local function ids_of(m, problem)
  if #m.ids ~= problem.seqlen_kv then
    raise("mask.document: expected one id per key (%.0f keys), got %d", problem.seqlen_kv, #m.ids)
  end
  local storage = native.storage(#m.ids * 4)
  local words = native.cast("int32_t *", native.C.fa4_storage_data(storage))
  for i, id in ipairs(m.ids) do words[i - 1] = id end
  return {storage = storage, words = words, count = #m.ids}
end

local function add(m, problem, nodes, pieces)
  local node = {kind = KIND[m.kind == "lua" and "bits" or m.kind]}
  local piece
  if m.kind == "window" then
    node.left, node.right = m.left, m.right
  elseif m.kind == "prefix" then
    if m.length > problem.seqlen_kv then
      raise("mask.prefix: length: expected %s (the keys), got %.0f", errors.whole_range(0, problem.seqlen_kv), m.length)
    end
    node.length = m.length
  elseif m.kind == "document" then
    piece = ids_of(m, problem)
  elseif m.kind == "lua" then
    piece = evaluate(m, problem)
    node.per_head, node.per_batch = m.per_head and 1 or 0, m.per_batch and 1 or 0
  elseif m.kind == "bits" then
    piece = {words = m.words, count = m.count, storage = m.storage}
    node.per_head, node.per_batch = m.per_head and 1 or 0, m.per_batch and 1 or 0
  elseif m.masks then
    for _, inner in ipairs(m.masks) do add(inner, problem, nodes, pieces) end
    node.operands = #m.masks
  end
  if piece then
    node.data_offset = pieces.words
    pieces.words = pieces.words + piece.count
    pieces[#pieces + 1] = piece
  end
  nodes[#nodes + 1] = node
end

--- The nodes of a mask in postfix order, and their data. Evaluates Lua functions, which may take a while (Ctrl-C is honoured).
-- @tparam mask m the mask
-- @tparam table problem `batch`, `seqlen_q`, `seqlen_kv`, `heads_q`
-- @treturn {table,...} nodes with the fields of fa4_mask_node
-- @treturn ?table `words` (an int32_t pointer), `count`, and what keeps them alive; nil when no node has data
function mask.compile(m, problem)
  local nodes, pieces = {}, {words = 0}
  if m.kind == "full" then return nodes end
  add(m, problem, nodes, pieces)
  local most = tonumber(native.C.FA4_MASK_NODES_MAX)
  if #nodes > most then raise("mask: expected at most %d parts, got %d", most, #nodes) end
  if #pieces == 0 then return nodes end
  if #pieces == 1 then return nodes, pieces[1] end
  local storage = native.storage(pieces.words * 4)
  local words = native.cast("int32_t *", native.C.fa4_storage_data(storage))
  local at = 0
  for _, piece in ipairs(pieces) do
    native.copy(words + at, piece.words, piece.count * 4)
    at = at + piece.count
  end
  return nodes, {storage = storage, words = words, count = pieces.words}
end

--- True when the mask has a Lua function in it, so that compiling it takes time.
-- @treturn boolean
function meta:has_function()
  if self.kind == "lua" then return true end
  for _, inner in ipairs(self.masks or {}) do
    if inner:has_function() then return true end
  end
  return false
end

local function list_text(list)
  local runs, i = {}, 1
  while i <= #list and #runs < 5 do
    local stop = i
    while list[stop + 1] == list[i] do stop = stop + 1 end
    runs[#runs + 1] = stop > i and ("%d (%d times)"):format(list[i], stop - i + 1) or tostring(list[i])
    i = stop + 1
  end
  return table.concat(runs, ", ") .. (i <= #list and ", ..." or "")
end

function meta:__tostring()
  if self.kind == "window" then return ("fa4.mask.window{left = %.0f, right = %.0f}"):format(self.left, self.right) end
  if self.kind == "prefix" then return ("fa4.mask.prefix{length = %.0f}"):format(self.length) end
  if self.kind == "document" then return ("fa4.mask.document{ids = {%s}}"):format(list_text(self.ids)) end
  if self.kind == "lua" then
    local info = debug.getinfo(self.fn, "S")
    return ("function mask of %s:%d"):format(info.short_src, info.linedefined)
  end
  if self.kind == "bits" then return ("mask of %.0f bits"):format(self.count * 32) end
  if self.masks then
    local parts = {}
    for i, inner in ipairs(self.masks) do parts[i] = tostring(inner) end
    return ("fa4.mask.%s(%s)"):format(self.kind, table.concat(parts, ", "))
  end
  return ("fa4.mask.%s()"):format(self.kind)
end

--- A mask from words that were evaluated before. For `fa4.plan.parse`.
-- @tparam table given `words`, `count`, `storage`, `per_head`, `per_batch`
-- @treturn mask
function mask.from_bits(given)
  given.kind = "bits"
  return new(given)
end

return mask
