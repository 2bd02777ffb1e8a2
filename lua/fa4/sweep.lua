--- Sweeps: one attention config over the product of some fields' values and inputs; each combination is run, held to the reference and
-- becomes a row. The result prints as a table, plots on the terminal and saves as JSON, CSV or SVG.
local attention = require "fa4.attention"
local config = require "fa4.config"
local errors = require "fa4.errors"
local files = require "fa4.files"
local json = require "fa4.json"
local native = require "fa4.ffi"
local page = require "fa4.page"
local plot = require "fa4.plot"
local progress = require "fa4.progress"
local report = require "fa4.report"
local svg = require "fa4.svg"
local tensor = require "fa4.tensor"
local validate = require "fa4.validate"

local sweep = {}
local raise, show = errors.raise, errors.show

local methods = {}
local meta = {__index = methods, methods = methods}

-- Saved keys, in this order; fields of the sweep that are not among them follow.
local KEYS = {"input", "device", "threshold", "kv_order", "row_max", "rescaled_rows", "row_steps", "rescaled_warps", "warp_steps",
  "exponent_max", "p_max", "error_ratio", "o_rms_error", "time_us", "pass"}
local SPEC = {"config", "over", "order", "inputs", "runs"}
-- A field that changes the answer needs a reference of its own.
local PROBLEM = {"mask", "scale", "soft_cap", "lse"}

-- ---- arguments -------------------------------------------------------------------------------------------------------------

local function is_triple(t)
  return type(t) == "table" and tensor.is(t.q) and tensor.is(t.k) and tensor.is(t.v)
end

local function input_of(given, name)
  return {name = given.name or name, q = given.q, k = given.k, v = given.v, config = config.overlay({}, given.config or {})}
end

local function check_inputs(given)
  if is_triple(given) then return {input_of(given, "input")} end
  if type(given) ~= "table" or next(given) == nil then
    raise("sweep: inputs: expected {q =, k =, v =}, a list of these, or these by name, got %s", show(given))
  end
  local names = {}
  for name in pairs(given) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  local list = {}
  for _, name in ipairs(names) do
    local one = given[name]
    if not is_triple(one) then raise("sweep: inputs: %s: expected {q =, k =, v =}, got %s", tostring(name), show(one)) end
    list[#list + 1] = input_of(one, tostring(name))
  end
  return list
end

-- A field's values, checked, so that a function is one mask or schedule for all rows.
local function checked_values(field, given)
  if type(given) ~= "table" then raise("sweep: over: %s: expected a list of values, got %s", field.name, show(given)) end
  if #given == 0 then raise("sweep: over: %s: expected at least one value, got an empty list", field.name) end
  local values, flat = {}, {}
  for i = 1, #given do
    config.set(flat, field.name, given[i])
    values[i] = flat[field.name]
  end
  return values
end

-- What rows say of each value: a number, string or boolean itself, else its words, numbered where those of another are the same.
local function labels_of(values)
  local labels, count = {}, {}
  for _, value in ipairs(values) do
    if type(value) ~= "table" then
      labels[value] = value
    elseif not labels[value] then
      local text = tostring(value)
      count[text] = (count[text] or 0) + 1
      labels[value] = count[text] > 1 and ("%s #%d"):format(text, count[text]) or text
    end
  end
  return labels
end

-- The swept fields in the schema's order, whatever order the table gave them in.
local function check_over(over)
  if over == nil then return {} end
  if type(over) ~= "table" then raise("sweep: over: expected a table of lists by field, got %s", show(over)) end
  local list = {}
  for _, field in ipairs(config.fields) do
    if over[field.name] ~= nil then
      local values = checked_values(field, over[field.name])
      list[#list + 1] = {name = field.name, short = field.name:match("[^%.]+$"), values = values, labels = labels_of(values)}
    end
  end
  for name in pairs(over) do
    if not config.field(name) then raise("sweep: over: %s", config.unknown(name)) end
  end
  return list
end

-- The swept fields with those of `order` first, outermost first.
local function ordered(list, order)
  if order == nil then return list end
  if type(order) ~= "table" then raise("sweep: order: expected a list of swept fields, got %s", show(order)) end
  local result, taken = {}, {}
  for i = 1, #order do
    for _, field in ipairs(list) do
      if field.name == order[i] and not taken[field] then
        result[#result + 1] = field
        taken[field] = true
      end
    end
    if #result ~= i then raise("sweep: order: entry %d: expected a swept field once, got %s", i - 1, show(order[i])) end
  end
  for _, field in ipairs(list) do
    if not taken[field] then result[#result + 1] = field end
  end
  return result
end

local function check_spec(given)
  if type(given) ~= "table" then raise("sweep: expected a table {config =, over =, inputs =}, got %s", show(given)) end
  for key in pairs(given) do
    local known = false
    for _, name in ipairs(SPEC) do known = known or name == key end
    if not known then raise("sweep: %s", errors.unknown("unknown field", tostring(key), SPEC)) end
  end
  local runs = given.runs == nil and 1 or errors.whole("sweep: runs", given.runs, 1, 1000)
  local over = ordered(check_over(given.over), given.order)
  return {config = config.check(given.config), over = over, inputs = check_inputs(given.inputs), runs = runs}
end

-- ---- running ---------------------------------------------------------------------------------------------------------------

-- Calls fn with every combination of the swept values, the last field fastest.
local function combinations(over, fn)
  local chosen = {}
  local function level(i)
    if i > #over then return fn(chosen) end
    for _, value in ipairs(over[i].values) do
      chosen[i] = value
      level(i + 1)
    end
  end
  level(1)
end

-- The fields of an input's own config, the sweep's values on top.
local function config_of(spec, input, chosen)
  local flat = {}
  for key, value in pairs(spec.config) do flat[key] = value end
  for key, value in pairs(input.config) do flat[key] = value end
  for i, field in ipairs(spec.over) do flat[field.name] = chosen[i] end
  return flat
end

local function inside(cache, key)
  cache[key] = cache[key] or {}
  return cache[key]
end

-- One reference per input and problem. Inputs and masks are told apart by what they are: two of them may have the same words.
local function oracle_for(cache, input, flat)
  local problem, at = {}, inside(cache, input)
  for _, name in ipairs(PROBLEM) do
    problem[name] = flat[name]
    at = inside(at, flat[name] == nil and "" or flat[name])
  end
  at.oracle = at.oracle or validate.prepare(input.q, input.k, input.v, problem)
  return at.oracle
end

local function median(list)
  table.sort(list)
  local middle = math.floor((#list + 1) / 2)
  return #list % 2 == 1 and list[middle] or (list[middle] + list[middle + 1]) / 2
end

-- Inputs where the device wants them.
local function placed(input, device, cache)
  if not device:find("^cuda") then return input end
  local on = inside(inside(cache, input), device)
  for _, name in ipairs{"q", "k", "v"} do on[name] = on[name] or input[name]:to{device = device} end
  return on
end

local function run_row(spec, input, flat, chosen, caches)
  local row = {input = input.name, device = flat.device}
  for i, field in ipairs(spec.over) do row[field.short] = field.labels[chosen[i]] end
  local op = attention.new(flat)
  local on = placed(input, flat.device, caches.placed)
  local made, message = op:plan(on.q, on.k, on.v)
  if not made then
    row.pass, row.message = false, message
    return row
  end
  local times, out = {}, nil
  for i = 1, spec.runs do
    out = op(on.q, on.k, on.v)
    times[i] = out.report.time_us
  end
  local schedule = made.config
  row.device, row.threshold, row.kv_order = out.report.device, schedule["rescale.threshold"], schedule.kv_order
  row.row_max, row.emulated_pairs, row.time_us = schedule.row_max, schedule["exp2.emulated_pairs"], median(times)
  for _, name in ipairs(report.counts) do row[name] = out.report[name] end
  row.exponent_max, row.p_max = out.report.exponent_max, out.report.p_max
  local oracle = oracle_for(caches.oracles, input, flat)
  local checked = oracle:check(out)
  row.error_ratio, row.o_error, row.lse_error, row.pass = checked.ratio, checked.o_error, checked.lse_error, checked.pass
  row.bound, row.o_rms_error = checked.bound, checked.o_rms_error
  if input.q.dtype ~= "f32" then
    -- The rounding of O to 16 bits hides what the schedule did: the RMS error is taken before it.
    local wide = tensor.empty(out.o.shape, {dtype = "f32", device = out.o.device})
    local unrounded = oracle:check(op(on.q, on.k, on.v, {o = wide}))
    row.o_rms_error, row.pass = unrounded.o_rms_error, row.pass and unrounded.pass
  end
  row.rescaled_rows_percent = 100 * row.rescaled_rows / math.max(1, row.row_steps)
  row.rescaled_warps_percent = 100 * row.rescaled_warps / math.max(1, row.warp_steps)
  return row
end

--- Runs a config over the product of some fields' values and inputs. A combination that the device cannot run becomes a row with
-- `pass = false` and a `message`.
-- @tparam table given `config` (as for `fa4.attention`), `over` (lists of values by dotted field), `inputs` (`{q =, k =, v =}`, a
-- list of these with `name` and maybe a `config` of their own, or these by name), `runs` (1; the time is the median), `order` (swept
-- fields, the outermost loop first; the schema's order otherwise)
-- @treturn result a Lua list of rows with `:print()`, `:plot(x, y)`, `:save(path)`, `.pass`
-- @raise on a wrong argument; Ctrl-C raises too
function sweep.new(given)
  local spec = check_spec(given)
  local result = setmetatable({over = spec.over, pass = true}, meta)
  local total, done = #spec.inputs, 0
  for _, field in ipairs(spec.over) do total = total * #field.values end
  local bar, caches = progress.bar("sweep"), {oracles = {}, placed = {}}
  for _, input in ipairs(spec.inputs) do
    combinations(spec.over, function(chosen)
      native.poll()
      local ok, row = pcall(run_row, spec, input, config_of(spec, input, chosen), chosen, caches)
      if not ok then
        bar(nil)
        error(row, 0)
      end
      result[#result + 1] = row
      result.pass = result.pass and row.pass
      done = done + 1
      bar(done / total)
    end)
  end
  bar(nil)
  return result
end

-- ---- showing ---------------------------------------------------------------------------------------------------------------

-- The row's key for a dotted or a short name.
local function key_of(name)
  return tostring(name):match("[^%.]+$")
end

local function varies(rows, key)
  for i = 2, #rows do
    if rows[i][key] ~= rows[1][key] then return true end
  end
  return false
end

local TABLE = {
  {"rescaled_rows_percent", "rows %", "%.3f"}, {"rescaled_warps_percent", "warps %", "%.2f"}, {"exponent_max", "exponent", "%.2f"},
  {"p_max", "P max", "%.5g"}, {"o_rms_error", "RMS err", "%.3g"}, {"error_ratio", "ratio", "%.3f"}, {"time_us", "time us", "%.0f"},
}

-- The table's columns, and how many of the first may stand above rows: those that say what was run, the last only when it has words.
local function table_columns(self)
  local columns = {}
  local function add(key, heading, format)
    local plain = type(self[1][key]) == "string"
    columns[#columns + 1] = {key = key, heading = heading, format = format or "%.6g", left = plain, label = not plain and heading or nil}
  end
  if varies(self, "input") then add("input", "input") end
  if varies(self, "device") then add("device", "device") end
  for _, field in ipairs(self.over) do
    if field.name ~= "device" then add(field.short, field.short) end
  end
  local last = self.over[#self.over]
  local movable = last and type(last.values[1]) == "table" and #columns or #columns - 1
  for _, column in ipairs(TABLE) do add(unpack(column)) end
  columns[#columns + 1] = {key = "pass", heading = "", left = true}
  return columns, movable
end

local function cell_text(row, column)
  local value = row[column.key]
  if column.key == "pass" then return value and "PASS" or "FAIL" end
  if value == nil then return "" end
  return type(value) == "number" and column.format:format(value) or tostring(value)
end

function meta.__tostring(self)
  if #self == 0 then return "no rows" end
  local columns, movable = table_columns(self)
  local rows = {}
  for i, row in ipairs(self) do
    rows[i] = {note = row.message}
    for c, column in ipairs(columns) do rows[i][c] = cell_text(row, column) end
  end
  return page.table(columns, rows, movable)
end

--- Prints the rows as a table. Returns nothing: the prompt would print it again.
function methods:print()
  print(tostring(self))
end

-- What a series is called: the values of everything that varies besides x.
local function series_name(self, row, keys, y)
  local parts = {}
  for _, key in ipairs(keys) do
    if varies(self, key) then
      local plain = key == "input" or key == "device" or type(row[key]) == "string"
      parts[#parts + 1] = (plain and "" or key .. " ") .. tostring(row[key])
    end
  end
  return #parts > 0 and table.concat(parts, ", ") or y
end

-- Rows as series: one per combination of everything that varies besides x.
local function series_of(self, x, y)
  local by_name, list = {}, {}
  local keys = {"input", "device"}
  for _, field in ipairs(self.over) do
    if field.name ~= "device" and field.short ~= x then keys[#keys + 1] = field.short end
  end
  for _, row in ipairs(self) do
    if type(row[x]) == "number" and type(row[y]) == "number" then
      local name = series_name(self, row, keys, y)
      if not by_name[name] then
        by_name[name] = {name = name, x = {}, y = {}}
        list[#list + 1] = by_name[name]
      end
      table.insert(by_name[name].x, row[x])
      table.insert(by_name[name].y, row[y])
    end
  end
  return list
end

local LABELS = {
  threshold = "rescale threshold (log2 units)", rescaled_rows_percent = "rows rescaled (% of row steps)",
  rescaled_warps_percent = "warps rescaled (% of warp steps)", o_rms_error = "RMS error of O (relative)", time_us = "time (us)",
  error_ratio = "largest error / naive error", exponent_max = "largest exponent (log2 units)", p_max = "largest P",
  emulated_pairs = "polynomial pairs of every 8",
}

local function first_number_field(self)
  for _, field in ipairs(self.over) do
    if type(field.values[1]) == "number" and #field.values > 1 then return field.short end
  end
  for _, field in ipairs(self.over) do
    if type(field.values[1]) == "number" then return field.short end
  end
  raise("sweep: nothing to plot over: no swept field is a number")
end

local function check_series(self, x, y)
  local series = series_of(self, x, y)
  if #series == 0 then raise("sweep: plot: no row has numbers for %s and %s", x, y) end
  return series
end

--- The plot of one column over another, as text; a series for everything else that varies.
-- @tparam[opt] string x a swept field, dotted or short; default: the first that is a number
-- @tparam[opt="rescaled_rows_percent"] string y a column
-- @tparam[opt] table opts as for `plot.text`
-- @treturn string
function methods:plot_text(x, y, opts)
  x, y = x and key_of(x) or first_number_field(self), y and key_of(y) or "rescaled_rows_percent"
  local all = {title = opts and opts.title, ascii = opts and opts.ascii, x_label = LABELS[x] or x, y_label = LABELS[y] or y}
  return plot.text(check_series(self, x, y), all)
end

--- Plots one column over another on the terminal.
-- @tparam[opt] string x a swept field, dotted or short; default: the first that is a number
-- @tparam[opt="rescaled_rows_percent"] string y a column
function methods:plot(x, y)
  print(self:plot_text(x, y))
end

-- ---- saving ----------------------------------------------------------------------------------------------------------------

local function saved_keys(self)
  local keys, known = {}, {}
  for _, key in ipairs(KEYS) do
    keys[#keys + 1] = key
    known[key] = true
  end
  for _, field in ipairs(self.over) do
    if not known[field.short] then keys[#keys + 1] = field.short end
  end
  return keys
end

local function saved_rows(self)
  local keys, rows = saved_keys(self), {}
  for i, row in ipairs(self) do
    rows[i] = {}
    for _, key in ipairs(keys) do rows[i][key] = row[key] end
  end
  return rows, keys
end

local function csv_text(self)
  local rows, keys = saved_rows(self)
  local lines = {table.concat(keys, ",")}
  for _, row in ipairs(rows) do
    local cells = {}
    for c, key in ipairs(keys) do
      local value = row[key]
      local text = type(value) == "number" and (value == value and math.abs(value) < math.huge and json.number(value) or tostring(value))
        or value == nil and "" or tostring(value)
      if text:find('[,"\n]') then text = '"' .. text:gsub('"', '""') .. '"' end
      cells[c] = text
    end
    lines[#lines + 1] = table.concat(cells, ",")
  end
  return table.concat(lines, "\n") .. "\n"
end

local function svg_text(self, opts)
  local x = opts.x and key_of(opts.x) or first_number_field(self)
  local panels = {}
  for _, y in ipairs(opts.y and (type(opts.y) == "table" and opts.y or {opts.y}) or {"rescaled_rows_percent", "o_rms_error"}) do
    y = key_of(y)
    panels[#panels + 1] = {x_label = LABELS[x] or x, y_label = LABELS[y] or y, series = check_series(self, x, y)}
  end
  return svg.chart{title = opts.title or "fa4 sweep", panels = panels}
end

--- Saves the rows as JSON (a list of objects; NaN and infinities are null) or CSV, or a picture as SVG, by the path's ending.
-- @tparam string path ends in .json, .csv or .svg
-- @tparam[opt] table opts for SVG: `x` (a swept field), `y` (a column or a list of columns, one panel each), `title`
-- @treturn result itself
-- @raise on another ending, or when the system refuses
function methods:save(path, opts)
  if type(path) ~= "string" then raise("save: path: expected a file name, got %s", show(path)) end
  local ending = path:match("%.(%w+)$")
  if ending == "json" then
    local rows, keys = saved_rows(self)
    files.write_text(path, json.write(rows, keys))
  elseif ending == "csv" then
    files.write_text(path, csv_text(self))
  elseif ending == "svg" then
    files.write_text(path, svg_text(self, opts or {}))
  else
    raise("save: path: expected a name that ends in .json, .csv or .svg, got %s", show(path))
  end
  return self
end

--- True for the result of a sweep.
-- @tparam any value anything
-- @treturn boolean
function sweep.is(value)
  return getmetatable(value) == meta
end


return sweep
