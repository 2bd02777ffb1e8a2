--- The GPU benchmark against other libraries: runs peers_h200.py, which times all in one process, and turns its lines into rows and tables.
local json = require "fa4.json"

local peers = {}

local NAMES = {maxfree = "free", each = "each", fa3 = "FA3", fa4 = "FA4", cudnn = "cuDNN"}
local OURS, OTHERS = {"maxfree", "each"}, {"fa3", "fa4", "cudnn"}
local NUMBERS = {"dim", "length", "length_q", "batch", "heads_q", "heads_kv", "us", "tflops", "gbs", "copy_gbs", "same", "mhz", "watts"}

-- ---- reading -----------------------------------------------------------------------------------------------------------------

local function fields(text)
  local row = {}
  for key, value in text:gmatch("([%w_]+)=(%S+)") do row[key] = value end
  for _, key in ipairs(NUMBERS) do row[key] = tonumber(row[key]) end
  return row
end

--- Cases in the order in which they were run, each with its contestants by name.
-- @tparam function lines an iterator over the lines of peers_h200.py
-- @tparam function tell called with each note as it comes
-- @treturn {table,...} {kind =, dtype =, ..., who = {fa3 = row, ...}}
function peers.read(lines, tell)
  local cases, by_key, rows, clocks = {}, {}, {}, 0
  for line in lines do
    local word, rest = line:match("^(%a+) (.*)$")
    if word == "row" then
      local row = fields(rest)
      local key = table.concat({row.kind, row.dtype, row.dim, row.length, row.batch, row.heads_q, row.heads_kv, row.mask}, "|")
      if not by_key[key] then
        by_key[key] = {kind = row.kind, dtype = row.dtype, dim = row.dim, length = row.length, batch = row.batch, heads_q = row.heads_q,
          heads_kv = row.heads_kv, mask = row.mask, length_q = row.length_q, copy_gbs = row.copy_gbs, who = {}}
        cases[#cases + 1] = by_key[key]
      end
      by_key[key].who[row.who] = row
      rows[#rows + 1] = row
    elseif word == "clock" then
      clocks = clocks + 1
      local clock = fields(rest)
      if rows[clocks] then rows[clocks].mhz, rows[clocks].watts = clock.mhz, clock.watts end
    else
      tell(word == "note" and rest or line)
    end
  end
  return cases
end

-- ---- tables ------------------------------------------------------------------------------------------------------------------

-- The fastest of `names` in a case, nil when none is there.
local function fastest(case, names)
  local best
  for _, name in ipairs(names) do
    local row = case.who[name]
    if row and (not best or row.us < best.us) then best = row end
  end
  return best
end

--- Ours over the fastest peer: the better of our two ways to take the maximum.
function peers.ratio(case, others)
  local ours, other = fastest(case, OURS), fastest(case, others or OTHERS)
  return ours and other and other.us / ours.us or nil
end

local function number(format, value)
  local text = format:format(value or 0)
  return value and text or (" "):rep(#text - 1) .. "-"
end

local function columns(case, key, format)
  local list = {}
  for _, names in ipairs{OURS, OTHERS} do
    for _, name in ipairs(names) do list[#list + 1] = number(format, case.who[name] and case.who[name][key]) end
  end
  return table.concat(list, " ")
end

local function head(format, ...)
  local names = {}
  for _, list in ipairs{OURS, OTHERS} do
    for _, name in ipairs(list) do names[#names + 1] = (format):format(NAMES[name]) end
  end
  return table.concat({..., table.concat(names, " ")}, " ")
end

local function print_speed(cases)
  print('\nTFLOP/s. free and each are ours, row_max = "first_block" and "each_block";\nratio: the better of them over the fastest peer.\n')
  print(head("%6s", "dtype dim length heads mask  ") .. "  ratio  MHz")
  for _, case in ipairs(cases) do
    local ours = fastest(case, OURS)
    print(("%-5s %3d %6d %5s %-6s %s %s %4.0f"):format(case.dtype, case.dim, case.length, case.heads_q .. "/" .. case.heads_kv, case.mask,
      columns(case, "tflops", "%6.1f"), number("%6.3f", peers.ratio(case)), ours and ours.mhz or 0))
  end
end

local function print_sharp(cases)
  print("\nScores that rescale, bf16, dim 128, 4,096 positions, TFLOP/s; ratio: to cuDNN\n")
  print(head("%6s", "scores      mask  ") .. "  ratio")
  for _, case in ipairs(cases) do
    local ratio = peers.ratio(case, {"cudnn"})
    print(("%-11s %-6s %s %s"):format(case.kind, case.mask, columns(case, "tflops", "%6.1f"), number("%6.3f", ratio)))
  end
end

local function print_decode(cases)
  print(("\nDecode, one query position, 64/8 heads, bf16, dim 128, GB/s;"))
  print(("share of a copy's %.0f GB/s\n"):format(cases[1].copy_gbs))
  print(head("%6s", "  keys batch") .. "  share")
  for _, case in ipairs(cases) do
    local ours = fastest(case, OURS)
    local share = ours and ours.gbs / case.copy_gbs
    print(("%6d %5d %s %s"):format(case.length, case.batch, columns(case, "gbs", "%6.0f"), number("%6.3f", share)))
  end
end

--- Prints the cases, a table for each kind.
function peers.print(cases)
  local groups = {speed = {}, sharp = {}, decode = {}}
  for _, case in ipairs(cases) do
    local group = (case.kind == "main" or case.kind == "gqa") and "speed" or case.kind == "decode" and "decode" or "sharp"
    table.insert(groups[group], case)
    for _, name in ipairs(OURS) do
      local row = case.who[name]
      if row and row.same == 0 then print(("%s: %s: the output changed while it was timed"):format(case.kind, name)) end
    end
  end
  if #groups.speed > 0 then print_speed(groups.speed) end
  if #groups.sharp > 0 then print_sharp(groups.sharp) end
  if #groups.decode > 0 then print_decode(groups.decode) end
end

--- Rows for JSON: one for each of our ways and each peer of a case.
function peers.rows(cases, device)
  local rows = {}
  for _, case in ipairs(cases) do
    for _, mine in ipairs(OURS) do
      for _, name in ipairs(OTHERS) do
        local ours, other = case.who[mine], case.who[name]
        if ours and other then
          rows[#rows + 1] = {device = device, dtype = case.dtype, dim = case.dim, length = case.length, heads_q = case.heads_q,
            heads_kv = case.heads_kv, batch = case.batch, mask = case.mask, threads = json.null, tflops = ours.tflops,
            share_of_peak = json.null,
            peer = NAMES[name], peer_tflops = other.tflops, ratio = other.us / ours.us, kind = case.kind, length_q = case.length_q,
            row_max = mine == "maxfree" and "first_block" or "each_block", us = ours.us, peer_us = other.us, mhz = ours.mhz,
            peer_mhz = other.mhz, watts = ours.watts, peer_watts = other.watts, gbs = ours.gbs, copy_gbs = case.copy_gbs}
        end
      end
    end
  end
  return rows
end

local function quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

--- Runs the Python program.
-- @tparam string here the folder of these scripts
-- @tparam table options of bench.lua: python, library, rows, rounds, seconds
-- @treturn ?{table,...} cases; nil when none came
function peers.run(here, options)
  local command = {options.python or "python3", quoted(here .. "peers_h200.py")}
  for _, name in ipairs{"library", "rows", "rounds", "seconds"} do
    if options[name] then command[#command + 1] = ("--%s %s"):format(name, quoted(options[name])) end
  end
  local pipe = assert(io.popen(table.concat(command, " ")))
  local cases = peers.read(pipe:lines(), function(text) print(text); io.stdout:flush() end)
  pipe:close()
  return #cases > 0 and cases or nil
end

return peers
