--- Pictures: line charts as SVG, one panel above another, with axes, units, ticks, a legend and a title. No program is needed to
-- write one, and any browser shows it.
local axis = require "fa4.axis"
local errors = require "fa4.errors"

local svg = {}

local WIDTH, PANEL_HEIGHT, LEFT, RIGHT, TOP, GAP = 860, 250, 78, 230, 56, 62
-- Distinct also in grey and for most colour-blind eyes (Okabe and Ito).
local COLOURS = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d00"}
local FONT = 'font-family="Helvetica, Arial, sans-serif"'

local function escaped(text)
  return (tostring(text):gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}))
end

local function text_at(x, y, text, size, extra)
  return ('<text x="%.1f" y="%.1f" font-size="%d" fill="#222" %s%s>%s</text>'):format(x, y, size, FONT, extra and " " .. extra or "",
    escaped(text))
end

local function line_at(x1, y1, x2, y2, colour)
  return ('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>'):format(x1, y1, x2, y2, colour)
end

-- A marker of one of four shapes, so that series differ without colour too.
local function marker(index, x, y, colour)
  local shape = (index - 1) % 4
  if shape == 0 then return ('<circle cx="%.1f" cy="%.1f" r="3.6" fill="%s"/>'):format(x, y, colour) end
  if shape == 1 then return ('<rect x="%.1f" y="%.1f" width="6.6" height="6.6" fill="%s"/>'):format(x - 3.3, y - 3.3, colour) end
  if shape == 2 then
    return ('<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1fZ" fill="%s"/>'):format(x, y - 4.4, x + 4.2, y + 3.2, x - 4.2, y + 3.2, colour)
  end
  return ('<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fZ" fill="%s"/>'):format(x, y - 4.6, x + 4.6, y, x, y + 4.6, x - 4.6, y, colour)
end

local function lists(series, key)
  local all = {}
  for i, one in ipairs(series) do all[i] = one[key] end
  return all
end

-- Grid lines, ticks and axis titles of one panel whose plot area is `box`.
local function frame(out, panel, box, x_ticks, y_ticks, place_x, place_y)
  for _, tick in ipairs(y_ticks) do
    out[#out + 1] = line_at(box.x, place_y(tick), box.x + box.width, place_y(tick), "#e3e3e3")
    out[#out + 1] = text_at(box.x - 8, place_y(tick) + 4, axis.label(tick), 12, 'text-anchor="end"')
  end
  for _, tick in ipairs(x_ticks) do
    out[#out + 1] = line_at(place_x(tick), box.y + box.height, place_x(tick), box.y + box.height + 5, "#222")
    out[#out + 1] = text_at(place_x(tick), box.y + box.height + 19, axis.label(tick), 12, 'text-anchor="middle"')
  end
  out[#out + 1] = line_at(box.x, box.y, box.x, box.y + box.height, "#222")
  out[#out + 1] = line_at(box.x, box.y + box.height, box.x + box.width, box.y + box.height, "#222")
  if panel.x_label then
    out[#out + 1] = text_at(box.x + box.width / 2, box.y + box.height + 38, panel.x_label, 13, 'text-anchor="middle"')
  end
  if panel.y_label then
    local x, y = 18, box.y + box.height / 2
    out[#out + 1] = text_at(x, y, panel.y_label, 13, ('text-anchor="middle" transform="rotate(-90 %.1f %.1f)"'):format(x, y))
  end
end

local function is_finite(value)
  return value == value and math.abs(value) < math.huge
end

local function curve(out, one, index, place_x, place_y)
  local colour = COLOURS[(index - 1) % #COLOURS + 1]
  local points = {}
  for i = 1, #one.x do
    if is_finite(one.x[i]) and is_finite(one.y[i]) then
      points[#points + 1] = ("%.1f,%.1f"):format(place_x(one.x[i]), place_y(one.y[i]))
    end
  end
  if not one.points_only then
    out[#out + 1] = ('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8"/>'):format(table.concat(points, " "), colour)
  end
  for i = 1, #one.x do
    if is_finite(one.x[i]) and is_finite(one.y[i]) then
      out[#out + 1] = marker(index, place_x(one.x[i]), place_y(one.y[i]), colour)
    end
  end
end

-- Words of a series' name on lines that fit beside the panel.
local function name_lines(name)
  local lines, line = {}, ""
  for word in tostring(name or ""):gmatch("%S+") do
    if #line + #word + 1 > 30 and line ~= "" then
      lines[#lines + 1] = line
      line = ""
    end
    line = line .. (line == "" and "" or " ") .. word
  end
  lines[#lines + 1] = line
  return lines
end

local function legend(out, panel, box)
  local y = box.y + 8
  for index, one in ipairs(panel.series) do
    local colour = COLOURS[(index - 1) % #COLOURS + 1]
    local x = box.x + box.width + 18
    out[#out + 1] = line_at(x, y, x + 22, y, colour)
    out[#out + 1] = marker(index, x + 11, y, colour)
    for i, line in ipairs(name_lines(one.name)) do
      out[#out + 1] = text_at(x + 28, y + 4 + (i - 1) * 14, line, 12)
    end
    y = y + 6 + 14 * #name_lines(one.name)
  end
end

local function draw_panel(out, panel, top)
  local box = {x = LEFT, y = top, width = WIDTH - LEFT - RIGHT, height = PANEL_HEIGHT - 10}
  local x_low, x_high = axis.range(lists(panel.series, "x"))
  local y_low, y_high = axis.range(lists(panel.series, "y"))
  if not x_low or not y_low then
    out[#out + 1] = text_at(box.x + 20, box.y + 30, "nothing to draw: no finite number", 13)
    return
  end
  local x_ticks, y_ticks = axis.ticks(x_low, x_high, 8), axis.ticks(math.min(0, y_low), y_high, 5)
  local function place_x(x) return box.x + (x - x_ticks[1]) / (x_ticks[#x_ticks] - x_ticks[1]) * box.width end
  local function place_y(y) return box.y + box.height - (y - y_ticks[1]) / (y_ticks[#y_ticks] - y_ticks[1]) * box.height end
  frame(out, panel, box, x_ticks, y_ticks, place_x, place_y)
  for index, one in ipairs(panel.series) do curve(out, one, index, place_x, place_y) end
  legend(out, panel, box)
end

--- A chart as the text of an SVG file.
-- @tparam table chart `title`, and `panels`: a list of `{x_label =, y_label =, series = {{name =, x =, y =, points_only =}, ...}}`
-- @treturn string
-- @raise when a panel has no series or lists of two lengths
function svg.chart(chart)
  if type(chart) ~= "table" or type(chart.panels) ~= "table" or #chart.panels == 0 then
    errors.raise("svg: expected {title =, panels = {...}}, got %s", errors.show(chart))
  end
  local height = TOP + #chart.panels * (PANEL_HEIGHT + GAP) - 8
  local out = {
    ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">'):format(WIDTH, height, WIDTH, height),
    ('<title>%s</title>'):format(escaped(chart.title or "")),
    ('<rect width="%d" height="%d" fill="#ffffff"/>'):format(WIDTH, height),
    text_at(LEFT, 30, chart.title or "", 17, 'font-weight="bold"'),
  }
  for i, panel in ipairs(chart.panels) do
    for index, one in ipairs(panel.series or {}) do
      if type(one.x) ~= "table" or type(one.y) ~= "table" or #one.x ~= #one.y then
        errors.raise("svg: panel %d, series %d: expected lists x and y of one length", i, index)
      end
    end
    if not panel.series or #panel.series == 0 then errors.raise("svg: panel %d has no series", i) end
    draw_panel(out, panel, TOP + (i - 1) * (PANEL_HEIGHT + GAP))
  end
  out[#out + 1] = "</svg>\n"
  return table.concat(out, "\n")
end

return svg
