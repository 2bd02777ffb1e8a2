--- Plots on a terminal: points of several series on a grid of characters, within 80 columns, plain ASCII where the locale has no UTF-8.
local axis = require "fa4.axis"
local errors = require "fa4.errors"
local page = require "fa4.page"

local plot = {}

local WIDTH, HEIGHT = 60, 15
local MARKS = {utf8 = {"●", "○", "▲", "△", "■", "□", "◆", "◇"}, ascii = {"*", "o", "x", "+", "#", "@", "%", "&"}}
local LINES = {utf8 = {"│", "┤", "└", "─", "┬"}, ascii = {"|", "+", "+", "-", "+"}}

local function is_utf8()
  for _, name in ipairs{"LC_ALL", "LC_CTYPE", "LANG"} do
    local value = os.getenv(name)
    if value and value ~= "" then return value:lower():find("utf%-?8") ~= nil end
  end
  return false
end

local function check_series(series)
  if type(series) ~= "table" or #series == 0 then errors.raise("plot: expected a list of series, got %s", errors.show(series)) end
  for i, one in ipairs(series) do
    if type(one) ~= "table" or type(one.x) ~= "table" or type(one.y) ~= "table" or #one.x ~= #one.y then
      errors.raise("plot: series %d: expected {name =, x = {...}, y = {...}} with lists of one length", i)
    end
  end
end

local function columns_of(series, key)
  local lists = {}
  for i, one in ipairs(series) do lists[i] = one[key] end
  return lists
end

local function draw(series, marks, x_ticks, y_ticks)
  local grid = {}
  for row = 1, HEIGHT do grid[row] = {} end
  local x_low, x_high = x_ticks[1], x_ticks[#x_ticks]
  local y_low, y_high = y_ticks[1], y_ticks[#y_ticks]
  for index, one in ipairs(series) do
    for i = 1, #one.x do
      local x, y = one.x[i], one.y[i]
      if x == x and y == y and math.abs(x) < math.huge and math.abs(y) < math.huge then
        local column = 1 + math.floor((x - x_low) / (x_high - x_low) * (WIDTH - 1) + 0.5)
        local row = HEIGHT - math.floor((y - y_low) / (y_high - y_low) * (HEIGHT - 1) + 0.5)
        grid[row][column] = marks[(index - 1) % #marks + 1]
      end
    end
  end
  return grid
end

-- Row (from the top) -> the label of the tick that lies there.
local function row_labels(ticks)
  local labels, low, high = {}, ticks[1], ticks[#ticks]
  for _, tick in ipairs(ticks) do
    labels[HEIGHT - math.floor((tick - low) / (high - low) * (HEIGHT - 1) + 0.5)] = axis.label(tick)
  end
  return labels
end

local function x_lines(ticks, lines, margin)
  local rule, text, used = {}, {}, 0
  for column = 1, WIDTH do rule[column] = lines[4] end
  local low, high = ticks[1], ticks[#ticks]
  local line = ""
  for _, tick in ipairs(ticks) do
    local column = 1 + math.floor((tick - low) / (high - low) * (WIDTH - 1) + 0.5)
    rule[column] = lines[5]
    local label = axis.label(tick)
    local start = math.max(0, column - 1 - math.floor(#label / 2))
    if start >= used then
      line = line .. (" "):rep(start - #line) .. label
      used = start + #label + 1
    end
  end
  text[1] = (" "):rep(margin) .. lines[3] .. table.concat(rule)
  text[2] = (" "):rep(margin + 1) .. line
  return text
end

--- A plot as text.
-- @tparam {table,...} series each `{name =, x = {numbers}, y = {numbers}}`
-- @tparam[opt] table opts `title`, `x_label`, `y_label`, `ascii` (true: no UTF-8 whatever the locale says)
-- @treturn string lines of at most 80 columns
-- @raise when a series is not of that form
function plot.text(series, opts)
  check_series(series)
  opts = opts or {}
  local set = (opts.ascii or not is_utf8()) and "ascii" or "utf8"
  local marks, lines = MARKS[set], LINES[set]
  local x_low, x_high = axis.range(columns_of(series, "x"))
  local y_low, y_high = axis.range(columns_of(series, "y"))
  if not x_low or not y_low then return "nothing to plot: no finite number" end
  local x_ticks, y_ticks = axis.ticks(x_low, x_high, 8), axis.ticks(math.min(0, y_low), y_high, 5)
  local grid, labels = draw(series, marks, x_ticks, y_ticks), row_labels(y_ticks)
  local margin = 1
  for _, label in pairs(labels) do margin = math.max(margin, #label + 1) end
  local text = {}
  if opts.title then text[#text + 1] = opts.title end
  if opts.y_label then text[#text + 1] = opts.y_label end
  for row = 1, HEIGHT do
    local cells, last = {}, 0
    for column = 1, WIDTH do
      cells[column] = grid[row][column] or " "
      if grid[row][column] then last = column end
    end
    local label = labels[row]
    text[#text + 1] = (" "):rep(margin - 1 - #(label or "")) .. (label or "") .. " " .. (label and lines[2] or lines[1])
      .. table.concat(cells, "", 1, last)
  end
  for _, line in ipairs(x_lines(x_ticks, lines, margin)) do text[#text + 1] = line end
  if opts.x_label then text[#text + 1] = (" "):rep(margin + 1 + math.max(0, math.floor((WIDTH - #opts.x_label) / 2))) .. opts.x_label end
  for index, one in ipairs(series) do
    text[#text + 1] = page.wrap(tostring(one.name or ""), ("  %s "):format(marks[(index - 1) % #marks + 1]))
  end
  return table.concat(text, "\n")
end

return plot
