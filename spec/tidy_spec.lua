--- The house rules that a script can check: who includes whom, how long a file may be, where the FFI and inline assembly may stand.
local program = require "spec.support.program"

-- Room -> the rooms it may include. Every room may include fa4.h, its own headers and core.
local ARROWS = {
  core = {}, host = {}, plan = {}, ptx = {}, tensor = {}, files = {}, pool = {},
  reference = { "pool" },
  kernel = { "plan", "kernels" },
  cpu = { "backend", "plan", "pool" },
  cuda = { "backend", "plan", "kernel", "kernels" },
  emu = { "backend", "plan", "pool", "ptx", "kernel", "kernels" },
  api = { "backend", "cpu", "cuda", "emu", "kernel", "plan", "reference", "files", "tensor", "pool" },
  backend = { "plan", "pool" },
}
-- Headers of kernels/ that are plain C with two readers.
local SHARED_WITH_KERNELS = { ["kernels/params.h"] = true, ["kernels/barriers.h"] = true }
local TOP_LEVEL = { ["CMakeLists.txt"] = true, ["README.md"] = true, engine = true, kernels = true, lua = true, scripts = true,
  spec = true }

-- One list each, and split they would be two: the public interface, the opcodes.
local LONG_HEADERS = { ["engine/fa4.h"] = true, ["engine/ptx/opcodes.h"] = true }

local function list(command)
  local lines = {}
  for line in program.shell(command).out:gmatch("[^\n]+") do
    lines[#lines + 1] = line
  end
  return lines
end

local function files(folders, pattern)
  local found = {}
  for _, path in ipairs(list("find " .. folders .. " -type f | sort")) do
    if path:find(pattern) then
      found[#found + 1] = path
    end
  end
  assert.is_true(#found > 0, "no files in " .. folders)
  return found
end

local function lines_of(path)
  local lines = {}
  for line in (program.read(path)):gmatch("([^\n]*)\n") do
    lines[#lines + 1] = line
  end
  return lines
end

local function expect_none(findings)
  assert.equal("", table.concat(findings, "\n"))
end

-- The room of a path such as engine/plan/mask.c; backend for engine/backend.h, nil for fa4.h.
local function room_of(path)
  local room = path:match("^engine/([%w_]+)/")
  if room then
    return room
  end
  return path == "engine/backend.h" and "backend" or nil
end

-- "plan/plan.h" or "plan.h" as written in a file -> the path of the header it means.
local function target_of(from, include)
  local beside = from:match("^(.*)/") .. "/" .. include
  for _, candidate in ipairs({ "engine/" .. include, beside, include }) do
    local file = io.open(candidate)
    if file then
      file:close()
      while candidate:find("[^/]+/%.%./") do
        candidate = candidate:gsub("[^/]+/%.%./", "", 1)
      end
      return candidate
    end
  end
end

local function allowed(room, target)
  local to = room_of(target)
  if target == "engine/fa4.h" or to == room or (to == "core" and room ~= "host") then
    return true
  end
  to = to or (SHARED_WITH_KERNELS[target] and "kernels")
  for _, name in ipairs(ARROWS[room]) do
    if name == to then
      return true
    end
  end
  return false
end

describe("the folders", function()
  it("include only downwards, along the arrows drawn in this file", function()
    local findings = {}
    for _, path in ipairs(files("engine", "%.[ch]$")) do
      local room = room_of(path)
      for number, line in ipairs(lines_of(path)) do
        local include = line:match('^%s*#%s*include%s+"([^"]+)"')
        local target = include and target_of(path, include)
        if include and not target then
          findings[#findings + 1] = ("%s:%d: %s is not there"):format(path, number, include)
        elseif include and room and not ARROWS[room] then
          findings[#findings + 1] = ("%s: a room that is not drawn"):format(path)
        elseif include and room and not allowed(room, target) then
          findings[#findings + 1] = ("%s:%d: no arrow %s -> %s"):format(path, number, room, target)
        end
      end
    end
    expect_none(findings)
  end)

  it("keep what is internal to themselves", function()
    local findings = {}
    for _, path in ipairs(files("engine", "%.[ch]$")) do
      for number, line in ipairs(lines_of(path)) do
        local include = line:match('^%s*#%s*include%s+"([^"]+_internal%.h)"')
        local target = include and target_of(path, include)
        if target and room_of(target) ~= room_of(path) then
          findings[#findings + 1] = ("%s:%d: %s belongs to another folder"):format(path, number, include)
        end
      end
    end
    expect_none(findings)
  end)

  it("hold nothing new at the top level", function()
    local findings = {}
    for _, name in ipairs(list("git ls-files 2>/dev/null | cut -d/ -f1 | sort -u")) do
      if not TOP_LEVEL[name] and name:sub(1, 1) ~= "." then
        findings[#findings + 1] = name
      end
    end
    expect_none(findings)
  end)
end)

describe("the mutants", function()
  it("find each place that they break once", function()
    local result = program.shell("luajit scripts/mutants.lua --places")
    assert.equal(0, result.code, result.out)
  end)
end)

describe("a file", function()
  it("has less than 800 lines, a header less than 300", function()
    local findings = {}
    for _, path in ipairs(files("engine kernels lua scripts spec", "%.%a+$")) do
      if path:find("%.[ch]$") or path:find("%.cuh?$") or path:find("%.lua$") or path:find("%.sh$") then
        -- A template or a kit is code that several files are made of, not an interface.
        local code = not path:find("%.h$") or path:find("_template%.h$") or path:find("_kit%.h$")
        local header = not code and not LONG_HEADERS[path]
        local count, limit = #lines_of(path), header and 300 or 800
        if count >= limit then
          findings[#findings + 1] = ("%s: %d lines"):format(path, count)
        end
      end
    end
    expect_none(findings)
  end)

  it("opens with a paragraph that says what it is for", function()
    local findings = {}
    for _, path in ipairs(files("engine lua", "%.[chl]u?a?$")) do
      local first = lines_of(path)[1] or ""
      if not (first:find("^/%*") or first:find("^//") or first:find("^%-%-%-")) then
        findings[#findings + 1] = path
      end
    end
    expect_none(findings)
  end)
end)

describe("a C function", function()
  it("has at most 70 lines", function()
    local findings = {}
    for _, path in ipairs(files("engine", "%.c$")) do
      local start
      for number, line in ipairs(lines_of(path)) do
        if line:find("^[%a_].*{$") and not line:find("=") and not line:find("^typedef") and not line:find("^struct")
          and not line:find("^enum") then
          start = number
        elseif line == "}" and start then
          if number - start + 1 > 70 then
            findings[#findings + 1] = ("%s:%d: %d lines"):format(path, start, number - start + 1)
          end
          start = nil
        end
      end
    end
    expect_none(findings)
  end)
end)

describe("a Lua module", function()
  it("leaves the FFI to fa4.ffi", function()
    local findings = {}
    for _, path in ipairs(files("lua scripts", "%.lua$")) do
      local text = program.read(path)
      if path ~= "lua/fa4/ffi.lua" and (text:find('require%s*%(?%s*["\']ffi["\']') or text:find("ffi%.cdef")) then
        findings[#findings + 1] = path
      end
    end
    expect_none(findings)
  end)

  it("makes no globals", function()
    local findings = {}
    for _, path in ipairs(files("lua", "%.lua$")) do
      local listing = program.shell("luajit -bl " .. program.quote(path)).out
      for name in listing:gmatch("GSET[^\n]*;%s*\"([^\"]+)\"") do
        findings[#findings + 1] = path .. ": " .. name
      end
    end
    expect_none(findings)
  end)
end)

describe("a kernel", function()
  it("has inline assembly in ptx.cuh and its per-architecture parts alone", function()
    local findings = {}
    for _, path in ipairs(list("find kernels -type f | sort")) do
      if not path:find("^kernels/ptx[%w_]*%.cuh$") then
        for number, line in ipairs(lines_of(path)) do
          if line:gsub("//.*", ""):find("%f[%w_]asm%f[^%w_]") then
            findings[#findings + 1] = ("%s:%d"):format(path, number)
          end
        end
      end
    end
    expect_none(findings)
  end)
end)
