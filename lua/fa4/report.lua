--- Reports: what a run did, as a plain table with units in its keys, and how it prints.
local native = require "fa4.ffi"

local report = {}

local COUNTS = {"tiles", "blocks_visited", "blocks_skipped", "blocks_partial", "row_steps", "rescaled_rows", "spared_rows",
  "warp_steps", "rescaled_warps", "exp2_hardware", "exp2_polynomial", "max_fixups"}
report.counts = COUNTS

local meta = {}

-- Written out: a loop over names costs a small call on a GPU more than its launch.
local function counters(from, into)
  into.tiles, into.blocks_visited = tonumber(from.tiles), tonumber(from.blocks_visited)
  into.blocks_skipped, into.blocks_partial = tonumber(from.blocks_skipped), tonumber(from.blocks_partial)
  into.row_steps, into.rescaled_rows, into.spared_rows = tonumber(from.row_steps), tonumber(from.rescaled_rows), tonumber(from.spared_rows)
  into.warp_steps, into.rescaled_warps = tonumber(from.warp_steps), tonumber(from.rescaled_warps)
  into.exp2_hardware, into.exp2_polynomial = tonumber(from.exp2_hardware), tonumber(from.exp2_polynomial)
  into.max_fixups, into.exponent_max, into.p_max = tonumber(from.max_fixups), from.exponent_max, from.p_max
  return into
end

-- What few look at is made when it is looked at, from the record that C filled.
local later = {
  per_head = function(raw)
    local made = {}
    for h = 0, raw.total.heads - 1 do made[h] = counters(raw.per_head[h], {}) end
    return made
  end,
  plan_hash = function(raw) return report.hex(raw.total.plan_hash) end,
  device = function(raw) return native.string(raw.total.device) end,
  path = function(raw) return native.string(raw.total.path) end,
  variant = function(raw) return native.string(raw.total.variant) end,
}
local RAW = {}

function meta.__index(r, key)
  local make = later[key]
  if not make then return nil end
  local value = make(r[RAW])
  rawset(r, key, value)
  return value
end

--- A uint64 as sixteen hex digits.
-- @tparam cdata value uint64_t
-- @treturn string
function report.hex(value)
  return bit.tohex(value, 16)
end

--- A report from what C filled. For the library's own modules.
-- @tparam cdata from fa4_report; kept
-- @tparam cdata per_head fa4_counters[heads]; kept
-- @treturn table counts as in the README, `time_us`, `flops`, `tflops`, `bytes`, `device`, `path`, `variant`, `threads`, `workers`,
-- `plan_hash`, `findings`, and `per_head[h]` with h from 0
function report.new(from, per_head)
  local made = {
    time_us = from.time_us, flops = from.flops, tflops = from.tflops, bytes = from.bytes, threads = from.threads,
    workers = from.workers, heads = from.heads, findings = from.findings, [RAW] = {total = from, per_head = per_head},
  }
  return setmetatable(counters(from.total, made), meta)
end

--- A whole number with a blank between thousands.
-- @tparam number n whole
-- @treturn string
function report.grouped(n)
  local text = ("%.0f"):format(n)
  local count
  repeat
    text, count = text:gsub("^(%-?%d+)(%d%d%d)", "%1 %2")
  until count == 0
  return text
end

local function share(part, whole)
  if whole == 0 then return "" end
  return (" (%.3g %%)"):format(100 * part / whole)
end

local function time_text(us)
  if us >= 1e6 then return ("%.3g s"):format(us / 1e6) end
  if us >= 1e3 then return ("%.4g ms"):format(us / 1e3) end
  return ("%.4g us"):format(us)
end
report.time_text = time_text

function meta.__tostring(r)
  local g = report.grouped
  local where = r.device .. (r.path ~= "" and (" (" .. r.path .. ")") or "")
  local lines = {
    ("report of %s, %d thread%s, plan %s"):format(where, r.threads, r.threads == 1 and "" or "s", r.plan_hash),
    ("  time            %s, %.4g TFLOP/s, %s FLOP, %s bytes"):format(time_text(r.time_us), r.tflops, g(r.flops), g(r.bytes)),
    ("  tiles           %s"):format(g(r.tiles)),
    ("  key blocks      %s visited, of them %s partial; %s skipped"):format(g(r.blocks_visited), g(r.blocks_partial), g(r.blocks_skipped)),
    ("  row steps       %s; rescaled %s%s, spared %s%s"):format(g(r.row_steps), g(r.rescaled_rows), share(r.rescaled_rows, r.row_steps),
      g(r.spared_rows), share(r.spared_rows, r.row_steps)),
    ("  warp steps      %s; rescaled %s%s"):format(g(r.warp_steps), g(r.rescaled_warps), share(r.rescaled_warps, r.warp_steps)),
    ("  largest         exponent %.4g (log2), P %.6g"):format(r.exponent_max, r.p_max),
    ("  exp2            %s by hardware, %s by polynomial%s"):format(g(r.exp2_hardware), g(r.exp2_polynomial),
      share(r.exp2_polynomial, r.exp2_hardware + r.exp2_polynomial)),
  }
  if r.max_fixups > 0 then lines[#lines + 1] = ("  fix-ups         %s blocks"):format(g(r.max_fixups)) end
  if r.findings > 0 then lines[#lines + 1] = ("  findings        %d"):format(r.findings) end
  return table.concat(lines, "\n")
end

return report
