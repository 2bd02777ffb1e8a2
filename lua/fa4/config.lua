--- The one schema: every field that `fa4.attention` takes, with its type, range, unit, default and a sentence. Checking, printing,
-- the prompt's help and the reference page all read it. Leaves to C what depends on the tensors or the device.
local errors = require "fa4.errors"
local page = require "fa4.page"

local config = {}
local raise, show = errors.raise, errors.show

local INT32_MAX = 2 ^ 31 - 1

-- kind: number, whole, choice, boolean, text, mask, schedule. `default_text` describes a default that depends on the problem.
config.fields = {
  {name = "device", kind = "text", default = "auto", group = "problem",
    doc = 'Where it runs: "cpu", "cuda", "cuda:N", "emu" (= "emu:sm_100a"), "emu:sm_90a", or "auto": a GPU with a kernel, else cpu.'},
  {name = "scale", kind = "number", default_text = "1/sqrt(dim)", group = "problem",
    doc = "What scores q.k are multiplied by; 0 and negative numbers included."},
  {name = "soft_cap", kind = "number", low = 0, default = 0, group = "problem",
    doc = "c > 0 turns a score s into c*tanh(s/c) before the mask; 0 is off."},
  {name = "mask", kind = "mask", default_text = "fa4.mask.full()", group = "problem",
    doc = "Which keys a query sees: a constructor of fa4.mask, or a function(i, j, h, b) that returns true or false."},
  {name = "lse", kind = "boolean", default = true, group = "problem",
    doc = "Whether the log of the sum of exponentials (natural log) is returned as out.lse."},
  {name = "report", kind = "boolean", default = true, group = "problem",
    doc = "Whether out.report is made. Without it a GPU call returns as soon as its work is queued; reading a tensor waits for it."},
  {name = "rescale.threshold", kind = "number", low = 0, high = 100, unit = "log2 units", group = "schedule",
    default_text = '8 (with row_max = "first_block": 14)',
    doc = "How far a row's maximum may pass the kept reference before the row is rescaled; 0: whenever it grows. f16: at most 15."},
  {name = "row_max", kind = "choice", choices = {"each_block", "first_block"}, default = "each_block", group = "schedule",
    doc = "Take a row's maximum at each key block, or only at a tile's first block with exact fix-ups when a sum passes 2^threshold."},
  {name = "kv_order", kind = "choice", choices = {"reverse", "forward", "sink_first"}, default = "reverse", group = "schedule",
    doc = "The order in which key blocks are visited: last to first, first to last, or block 0 and then last to first."},
  {name = "exp2.emulated_pairs", kind = "whole", low = 0, high = 8, unit = "pairs of every 8", group = "schedule",
    default_text = "2 for 16-bit inputs (0 on sm_90a with dim 128), 0 for f32",
    doc = "How many exponentials are a cubic polynomial on FMA units instead of hardware exp2."},
  {name = "exp2.first_fragment", kind = "whole", low = 0, high = 3, unit = "fragment of 32 columns", group = "schedule",
    default_text = "1 (0 when causal)", doc = "The first fragment of a block that may use the polynomial; the last never does."},
  {name = "p_split", kind = "whole", low = 16, high = 112, step = 16, unit = "keys", group = "schedule",
    default_text = "96 (64 when causal)", doc = "Keys in the first part of P that is handed to the second product."},
  {name = "schedule", kind = "schedule", default_text = "chosen for the device and mask", group = "schedule",
    doc = "The order of tiles: fa4.schedule.linear(), lpt{l2_bytes =} or list(fn), or a function that orders the tasks."},
  {name = "workers", kind = "whole", low = 0, high = 65535, unit = "CTAs or task lists", default_text = "0: the device's",
    group = "schedule",
    doc = "How many workers share the tasks."},
  {name = "threads", kind = "whole", low = 0, high = 1024, unit = "CPU threads", default_text = "0: FA4_NUM_THREADS, else all allowed",
    group = "schedule", doc = "CPU threads that compute; the bits of the answer do not depend on it."},
  {name = "gqa_packing", kind = "boolean", default_text = "true", group = "schedule",
    doc = "Pack the query heads of one key head into a tile's rows when their number divides the rows."},
  {name = "kv_splits", kind = "whole", low = 1, high = 1024, unit = "parts", group = "schedule",
    default_text = "1 (sm_90a with tiles of 64 rows: so that every SM has work)",
    doc = "Parts of the key range that are computed apart and combined in order."},
  {name = "integer_reference", kind = "boolean", default_text = 'true with row_max = "first_block", but not on sm_90a', group = "schedule",
    doc = "Keep the reference at a whole number of log2 units, so that moving it is exact."},
  {name = "tile.rows", kind = "whole", low = 64, high = 192, step = 64, unit = "query rows",
    default_text = "128 (sm_90a: 64 with up to 64 rows of queries, 192 for many queries of dim 64)", group = "kernel", doc = "Rows of a query tile."},
  {name = "tile.keys", kind = "whole", low = 128, high = 128, step = 128, unit = "keys", default_text = "128", group = "kernel",
    doc = "Keys of a key block."},
  {name = "pipeline.q_stages", kind = "whole", low = 1, high = 8, unit = "stages", default_text = "2", group = "kernel",
    doc = "Query tiles in shared memory at once."},
  {name = "pipeline.kv_stages", kind = "whole", low = 2, high = 16, unit = "stages", default_text = "3 (2 on sm_90a)", group = "kernel",
    doc = "Key and value blocks in shared memory at once."},
  {name = "registers.softmax", kind = "whole", low = 24, high = 256, step = 8, unit = "registers a thread", default_text = "200",
    group = "kernel", doc = "Register limit of the softmax warpgroups."},
  {name = "registers.correction", kind = "whole", low = 24, high = 256, step = 8, unit = "registers a thread", default_text = "64",
    group = "kernel", doc = "Register limit of the correction warpgroup."},
  {name = "registers.other", kind = "whole", low = 24, high = 256, step = 8, unit = "registers a thread", default_text = "48",
    group = "kernel", doc = "Register limit of the load, MMA and store warps."},
  {name = "order_barrier", kind = "boolean", default_text = "false", group = "kernel",
    doc = "Make the two softmax warpgroups take turns."},
  {name = "sms", kind = "whole", low = 0, high = 1024, unit = "resident CTAs", default_text = "0: the device's", group = "kernel",
    doc = "CTAs that the emulator keeps resident."},
  {name = "counters", kind = "boolean", default_text = "true (on a GPU a build of its own)", group = "kernel",
    doc = "Whether the report's counters are wanted."},
}

local by_name, groups, names = {}, {}, {}
for _, field in ipairs(config.fields) do
  by_name[field.name] = field
  names[#names + 1] = field.name
  local group = field.name:match("^(.-)%.")
  if group and not groups[group] then
    groups[group] = {}
    names[#names + 1] = group
  end
  if group then table.insert(groups[group], field.name:match("%.(.*)$")) end
end
config.names = names

--- The schema's entry of a field.
-- @tparam string name dotted, such as "rescale.threshold"
-- @treturn ?table `name`, `kind`, `low`, `high`, `unit`, `default`, `doc`; nil when there is none
function config.field(name)
  return by_name[name]
end

--- The keys that a config table takes.
-- @tparam[opt=""] string path "" for the config itself, or a group such as "rescale"
-- @treturn ?{string,...} names; nil when there is no such group
function config.keys(path)
  if path ~= nil and path ~= "" then return groups[path] end
  local keys = {}
  for _, name in ipairs(names) do
    if not name:find(".", 1, true) then keys[#keys + 1] = name end
  end
  return keys
end

-- ---- describing ------------------------------------------------------------------------------------------------------------

local function allowed(field)
  local unit = field.unit and (" (" .. field.unit .. ")") or ""
  if field.kind == "choice" then return "one of \"" .. table.concat(field.choices, "\", \"") .. "\"" end
  if field.kind == "boolean" then return "true or false" end
  if field.kind == "text" then return "a string" end
  if field.kind == "mask" then return "a mask of fa4.mask or a function" end
  if field.kind == "schedule" then return "a schedule of fa4.schedule or a function" end
  local what = field.kind == "whole" and "a whole number" or "a finite number"
  if field.step then what = ("a multiple of %d"):format(field.step) end
  if field.low and field.low == field.high then return show(field.low) .. unit end
  if field.low and field.high then return ("%s in %s..%s%s"):format(what, show(field.low), show(field.high), unit) end
  if field.low then return ("%s >= %s%s"):format(what, show(field.low), unit) end
  return what .. unit
end

local function default_of(field)
  if field.default_text then return field.default_text end
  return show(field.default)
end

--- A field's documentation, from the schema.
-- @tparam string name dotted, such as "rescale.threshold", or a group such as "rescale"
-- @treturn ?string several lines; nil for an unknown name
function config.describe(name)
  local field = by_name[name]
  if field then
    return page.wrap(("config field %s: %s; default %s"):format(name, allowed(field), default_of(field))) .. "\n"
      .. page.wrap(field.doc, "  ")
  end
  if groups[name] then
    local lines = {("config group %s = {%s = ...}"):format(name, table.concat(groups[name], " = ..., "))}
    for _, member in ipairs(groups[name]) do lines[#lines + 1] = config.describe(name .. "." .. member) end
    return table.concat(lines, "\n")
  end
end

-- ---- checking --------------------------------------------------------------------------------------------------------------

local function check_number(field, value)
  local ok = type(value) == "number" and value == value and math.abs(value) < math.huge
  ok = ok and (field.kind == "number" or value == math.floor(value))
  ok = ok and (not field.low or value >= field.low) and (not field.high or value <= field.high)
  ok = ok and (not field.step or value % field.step == 0) and (field.kind == "number" or math.abs(value) <= INT32_MAX)
  return ok
end

local function check_value(field, value)
  local kind, ok = field.kind, false
  if kind == "number" or kind == "whole" then
    ok = check_number(field, value)
  elseif kind == "choice" then
    for _, choice in ipairs(field.choices) do ok = ok or value == choice end
    if not ok and type(value) == "string" then
      local near = errors.nearest(value, field.choices)
      raise("%s: expected %s, got %q%s", field.name, allowed(field), value, near and (", did you mean \"" .. near .. "\"?") or "")
    end
  elseif kind == "boolean" then
    ok = type(value) == "boolean"
  elseif kind == "text" then
    ok = type(value) == "string" and not value:find("\0", 1, true)
  elseif kind == "mask" then
    -- Here and below: required when needed, so that the modules may refer to each other.
    return require("fa4.mask").check(value, field.name)
  elseif kind == "schedule" then
    return require("fa4.schedule").check(value, field.name)
  end
  if not ok then raise("%s: expected %s, got %s", field.name, allowed(field), show(value)) end
  return value
end

--- The message for a field that does not exist: the nearest name, dotted or by its last part.
-- @tparam any name what was written
-- @treturn string
function config.unknown(name)
  name = tostring(name)
  local group, member = name:match("^(.-)%.(.*)$")
  if groups[group] then return group .. "." .. errors.unknown("unknown field", member, groups[group]) end
  if groups[name] then
    return ("%s: a group of fields, not one: %s.%s"):format(name, name, table.concat(groups[name], ", " .. name .. "."))
  end
  if not errors.nearest(name, names) then
    local shorts, full = {}, {}
    for _, field in ipairs(config.fields) do
      local short = field.name:match("[^%.]+$")
      shorts[#shorts + 1], full[short] = short, field.name
    end
    local near = errors.nearest(name, shorts)
    if near then return ("%s: unknown field, did you mean %s?"):format(name, full[near]) end
  end
  return errors.unknown("unknown field", name, names)
end

--- Sets one dotted field of a flat config, checked.
-- @tparam table flat what `config.check` returned
-- @tparam string name dotted
-- @tparam any value the new value; nil restores the default
-- @raise naming the field, the value and what is allowed
function config.set(flat, name, value)
  local field = by_name[name]
  if not field then raise("%s", config.unknown(name)) end
  if value == nil then
    flat[name] = field.default
  else
    flat[name] = check_value(field, value)
  end
end

--- Sets the fields of a config in a flat one, checked. For the library's own modules.
-- @tparam table flat values by dotted name
-- @tparam table given nested (`{rescale = {threshold = 8}}`); dotted keys are taken too
-- @treturn table flat
-- @raise on an unknown field, naming the nearest one, or a wrong value
function config.overlay(flat, given)
  if type(given) ~= "table" then raise("config: expected a table, got %s", show(given)) end
  for key, value in pairs(given) do
    if type(key) ~= "string" then raise("config: expected field names as keys, got %s", show(key)) end
    if groups[key] then
      if type(value) ~= "table" then
        raise("%s: expected a table {%s = ...}, got %s", key, table.concat(groups[key], " = ..., "), show(value))
      end
      for member, inner in pairs(value) do
        config.set(flat, key .. "." .. tostring(member), inner)
      end
    else
      config.set(flat, key, value)
    end
  end
  return flat
end

--- Checks a config and gives it back flat, with defaults filled in.
-- @tparam ?table given as for `config.overlay`
-- @treturn table values by dotted name; a field whose default depends on the problem is absent
-- @raise as `config.overlay`
function config.check(given)
  local flat = {}
  for _, field in ipairs(config.fields) do flat[field.name] = field.default end
  return config.overlay(flat, given == nil and {} or given)
end

return setmetatable(config, {
  __tostring = function()
    local lines = {}
    for _, field in ipairs(config.fields) do
      lines[#lines + 1] = page.wrap(("%s: %s; default %s"):format(field.name, allowed(field), default_of(field)))
      lines[#lines + 1] = page.wrap(field.doc, "    ")
    end
    return table.concat(lines, "\n")
  end,
})
