--- fa4: FlashAttention-4 from Lua. **Coordinates count from 0 everywhere** (batch, position, head, dim, axis, tile, block, stage,
-- lane), as in C, PTX and the papers; only a Lua list, such as a shape or `t:table()`, starts at 1. Modules load when first used.
local fa4 = {}

-- Public name -> module, and the name of the function in it; a module alone is handed out whole.
local EXPORTS = {
  attention = {"attention", "new"}, reference = {"attention", "reference"}, device = {"attention", "device"},
  validate = {"validate", "check"}, compare = {"validate", "compare"},
  empty = {"tensor", "empty"}, zeros = {"tensor", "zeros"}, full = {"tensor", "full"}, randn = {"tensor", "randn"},
  uniform = {"tensor", "uniform"}, from_table = {"tensor", "from_table"}, seed = {"tensor", "seed"}, is_tensor = {"tensor", "is"},
  load = {"files", "load"}, save = {"files", "save"},
  sweep = {"sweep", "new"}, info = {"info", "get"}, version = {"info", "version"}, time = {"info", "time"},
  memory = {"info", "memory"}, cpu_peak = {"info", "cpu_peak"}, open = {"info", "open"}, doc = {"doc", "lookup"},
  config = {"config"}, mask = {"mask"}, schedule = {"schedule"}, plan = {"plan"}, tables = {"tables"},
  emu = {"emu"}, kernel = {"kernel"}, tensormap = {"emu", "tensormap"},
}

local function listing()
  local names, lines, line = {}, {"the library fa4; ?fa4.NAME explains"}, " "
  for name in pairs(EXPORTS) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if #line + 1 + #name > 79 then
      lines[#lines + 1], line = line, " "
    end
    line = line .. " " .. name
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

return setmetatable(fa4, {
  __tostring = listing,
  -- What there is, for completion at the prompt: modules load lazily, so the table itself does not show it.
  methods = EXPORTS,
  __index = function(self, name)
    local export = EXPORTS[name]
    if not export then return nil end
    local found, module = pcall(require, "fa4." .. export[1])
    if not found then
      -- A module that this build does not have is like a name that there is not; a broken one is an error.
      if module:find("module 'fa4." .. export[1] .. "' not found", 1, true) then return nil end
      error(module, 0)
    end
    local value = module
    if export[2] then value = module[export[2]] end
    rawset(self, name, value)
    return value
  end,
})
