--- Text that stays readable at 80 columns: wrapped sentences and tables. Lengths are counted in characters of UTF-8.
local page = {}

page.width = 80

--- The characters of a string.
-- @tparam string s UTF-8
-- @treturn int continuation bytes do not count
function page.length(s)
  local _, count = s:gsub("[^\128-\191]", "")
  return count
end

--- Words in lines of at most 80 columns. A word is never cut.
-- @tparam string words blanks between them count once
-- @tparam[opt=""] string lead what the first line begins with, kept as it is
-- @tparam[opt] int hang columns that the other lines are indented by; default: the length of lead
-- @treturn string
function page.wrap(words, lead, hang)
  local line, empty, lines = lead or "", true, {}
  local indent = (" "):rep(hang or page.length(line))
  for word in words:gmatch("%S+") do
    if not empty and page.length(line) + 1 + page.length(word) > page.width then
      lines[#lines + 1] = line
      line, empty = indent, true
    end
    line = line .. (empty and "" or " ") .. word
    empty = false
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- ---- tables ----------------------------------------------------------------------------------------------------------------

local GAP = "  "

-- The widest cell of each column.
local function cell_widths(columns, rows)
  local widths = {}
  for c in ipairs(columns) do
    widths[c] = 0
    for _, row in ipairs(rows) do widths[c] = math.max(widths[c], page.length(row[c])) end
  end
  return widths
end

local function words_of(heading)
  local words = {}
  for word in heading:gmatch("[^%s_]+_?") do words[#words + 1] = word end
  return words
end

local function widths_of(cells, heads, first)
  local widths, total = {}, 0
  for c = first, #cells do
    widths[c] = cells[c]
    for _, part in ipairs(heads[c]) do widths[c] = math.max(widths[c], page.length(part)) end
    total = total + widths[c] + (c > first and #GAP or 0)
  end
  return widths, total
end

local function join(cells, columns, widths, first)
  local parts = {}
  for c = first, #columns do
    local blank = (" "):rep(widths[c] - page.length(cells[c]))
    parts[#parts + 1] = columns[c].left and cells[c] .. blank or blank .. cells[c]
  end
  return (table.concat(parts, GAP):gsub("%s+$", ""))
end

local function heading_lines(lines, columns, heads, widths, first)
  local height = 1
  for c = first, #columns do height = math.max(height, #heads[c]) end
  for row = 1, height do
    local cells = {}
    for c = first, #columns do cells[c] = heads[c][row - height + #heads[c]] or "" end
    lines[#lines + 1] = join(cells, columns, widths, first)
  end
end

--- A table of at most 80 columns. One that would be wider has the values of its first columns on a line above the rows that share
-- them, and then headings of a word a line.
-- @tparam {table,...} columns `heading`, `left` (aligned to the left), `label` (what goes before a value on a line above rows)
-- @tparam {table,...} rows lists of strings, one a column; `note` is a sentence below the row
-- @tparam int movable how many of the first columns may go above the rows
-- @treturn string
function page.table(columns, rows, movable)
  local cells, heads, first = cell_widths(columns, rows), {}, 1
  for c, column in ipairs(columns) do heads[c] = {column.heading} end
  local widths, total = widths_of(cells, heads, first)
  while total > page.width and first <= movable do
    first = first + 1
    widths, total = widths_of(cells, heads, first)
  end
  for c = first, #columns do
    if total > page.width and page.length(columns[c].heading) > cells[c] then
      heads[c] = words_of(columns[c].heading)
      widths, total = widths_of(cells, heads, first)
    end
  end
  local lines, above = {}, nil
  heading_lines(lines, columns, heads, widths, first)
  for _, row in ipairs(rows) do
    local values = {}
    for c = 1, first - 1 do values[c] = (columns[c].label and columns[c].label .. " " or "") .. row[c] end
    local title = table.concat(values, ", ")
    if title ~= (above or "") then lines[#lines + 1] = page.wrap(title) end
    above = title
    lines[#lines + 1] = join(row, columns, widths, first)
    if row.note then lines[#lines + 1] = page.wrap(row.note, "    ") end
  end
  return table.concat(lines, "\n")
end

return page
