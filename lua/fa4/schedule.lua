--- Schedules: the order in which tiles are computed and who computes them. Functions get plain tables of tasks and give them back in
-- another order, which is checked here; how long a schedule takes is predicted here too. The orders `linear` and `lpt` are C's.
local errors = require "fa4.errors"

local schedule = {}
local raise, show = errors.raise, errors.show

local meta = {}
meta.__index = meta

local function new(t)
  return setmetatable(t, meta)
end

--- Tasks in their natural order: batch, head, tile.
-- @treturn schedule
function schedule.linear()
  return new{kind = "linear"}
end

--- Longest processing time first, heads grouped so that their keys and values share the L2 cache.
-- @tparam[opt] table given `l2_bytes`: the cache to plan for, > 0; the device's when absent
-- @treturn schedule
function schedule.lpt(given)
  if given ~= nil and type(given) ~= "table" then raise("schedule.lpt: expected a table {l2_bytes =}, got %s", show(given)) end
  for key in pairs(given or {}) do
    if key ~= "l2_bytes" then
      raise("schedule.lpt: %s", errors.unknown("unknown field", tostring(key), {"l2_bytes"}))
    end
  end
  local bytes = given and given.l2_bytes
  if bytes ~= nil then errors.whole("schedule.lpt: l2_bytes", bytes, 1, 2 ^ 53) end
  return new{kind = "lpt", l2_bytes = bytes}
end

--- Tasks ordered by a function: it gets a list of `{batch =, head =, tiles = {first [, second]}, blocks =, split =}` and returns the
-- same tables in another order. All numbers count from 0.
-- @tparam function fn fn(tasks) -> tasks
-- @treturn schedule
function schedule.order(fn)
  if type(fn) ~= "function" then raise("schedule.order: expected a function, got %s", show(fn)) end
  return new{kind = "order", fn = fn}
end

--- Tasks assigned by a function: `fn(tasks, workers)` returns one list of tasks per worker.
-- @tparam function fn as above; tasks as for `schedule.order`
-- @treturn schedule
function schedule.list(fn)
  if type(fn) ~= "function" then raise("schedule.list: expected a function(tasks, workers), got %s", show(fn)) end
  return new{kind = "list", fn = fn}
end

--- Makes a schedule of what a config may hold.
-- @tparam any value a schedule or a function
-- @tparam string name the argument, as messages call it
-- @treturn schedule
function schedule.check(value, name)
  if getmetatable(value) == meta then return value end
  if type(value) == "function" then return new{kind = "order", fn = value} end
  if value == "linear" or value == "lpt" then
    raise("%s: expected a schedule, got the string %q; write fa4.schedule.%s()", name, value, value)
  end
  raise("%s: expected a schedule of fa4.schedule or a function(tasks), got %s", name, show(value))
end

function meta:__tostring()
  if self.kind == "lpt" and self.l2_bytes then return ("fa4.schedule.lpt{l2_bytes = %.0f}"):format(self.l2_bytes) end
  if self.fn then
    local info = debug.getinfo(self.fn, "S")
    return ("fa4.schedule.%s(function of %s:%d)"):format(self.kind, info.short_src, info.linedefined)
  end
  return ("fa4.schedule.%s()"):format(self.kind)
end

local function task_text(task)
  local last = task.tiles[#task.tiles]
  local tiles = #task.tiles > 1 and ("tiles %d and %d"):format(task.tiles[1], last) or ("tile %d"):format(last)
  return ("batch %d, head %d, %s"):format(task.batch, task.head, tiles)
    .. (task.split ~= 0 and (", split %d"):format(task.split) or "")
end

-- Notes task after task; raises for one that is foreign or comes twice.
local function collector(tasks)
  local place, order, taken = {}, {}, {}
  for i, task in ipairs(tasks) do place[task] = i - 1 end
  local function take(task, where)
    local index = task ~= nil and place[task] or nil
    if not index then
      raise("schedule: %s is not one of the tasks that were given (%s)", where,
        type(task) == "table" and "a table of its own" or show(task))
    end
    if taken[index] then raise("schedule: the task (%s) is returned twice, again at %s", task_text(task), where) end
    taken[index] = true
    order[#order + 1] = index
  end
  local function finish(originals)
    for i, task in ipairs(originals) do
      if not taken[i - 1] then
        raise("schedule: the task (%s) is lost: %d of %d were returned", task_text(task), #order, #originals)
      end
    end
    return order
  end
  return take, finish
end

local function copy_list(list)
  local copy = {}
  for i, task in ipairs(list) do copy[i] = task end
  return copy
end

--- Asks a schedule's function for an order. For the library's own modules.
-- @tparam schedule s of kind "order" or "list"
-- @tparam {table,...} tasks the plan's tasks
-- @tparam int workers how many workers there are
-- @treturn {int,...} old indices (from 0) in the new order
-- @treturn ?{int,...} a worker (from 0) per task of the new order; nil for kind "order"
-- @raise naming a lost, repeated or foreign task
function schedule.apply(s, tasks, workers)
  local originals = copy_list(tasks)
  local take, finish = collector(originals)
  local result = s.fn(tasks, workers)
  if type(result) ~= "table" then
    raise("schedule: the function returned %s; expected a list of %s", show(result), s.kind == "list" and "lists of tasks" or "tasks")
  end
  if s.kind == "order" then
    for i = 1, #result do take(result[i], ("place %d (places count from 0)"):format(i - 1)) end
    return finish(originals)
  end
  if #result > workers then
    raise("schedule: the function returned %d lists for %d workers", #result, workers)
  end
  local owners = {}
  for worker = 1, #result do
    local list = result[worker]
    if type(list) ~= "table" then raise("schedule: list %d: expected a list of tasks, got %s", worker - 1, show(list)) end
    for i = 1, #list do
      take(list[i], ("list %d, place %d (they count from 0)"):format(worker - 1, i - 1))
      owners[#owners + 1] = worker - 1
    end
  end
  return finish(originals), owners
end

local function cost_function(costs, tasks)
  if costs == nil then return function(task) return task.blocks end end
  if type(costs) == "function" then return costs end
  if type(costs) ~= "table" or #costs ~= #tasks then
    raise("makespan: costs: expected a function(task) or a list of %d numbers, got %s", #tasks,
      type(costs) == "table" and ("a list of %d"):format(#costs) or show(costs))
  end
  local by_task = {}
  for i, task in ipairs(tasks) do by_task[task] = costs[i] end
  return function(task) return by_task[task] end
end

local function check_makespan_options(opts)
  if type(opts) ~= "table" then raise("makespan: options: expected a table {workers =, costs =}, got %s", show(opts)) end
  for key in pairs(opts) do
    if key ~= "workers" and key ~= "costs" then
      raise("makespan: %s", errors.unknown("unknown option", tostring(key), {"workers", "costs"}))
    end
  end
end

--- When the last worker finishes, in units of one key block of one tile: a task that names its worker runs there, the others go in
-- order to whoever is free first.
-- @tparam plan plan a plan
-- @tparam[opt] table opts `workers` (the plan's), `costs`: a function(task) or a list with a number per task (its visited blocks)
-- @treturn number block units
-- @treturn {number,...} the finishing time of each worker, a Lua list
function schedule.makespan(plan, opts)
  opts = opts == nil and {} or opts
  check_makespan_options(opts)
  if type(plan) ~= "table" or type(plan.tasks) ~= "function" then
    raise("makespan: expected a plan of op:plan(q, k, v), got %s", show(plan))
  end
  local tasks = plan:tasks()
  local workers = opts.workers == nil and plan.workers or errors.whole("makespan: workers", opts.workers, 1, 2 ^ 20)
  local cost = cost_function(opts.costs, tasks)
  local busy, longest = {}, 0
  for w = 1, workers do busy[w] = 0 end
  for i, task in ipairs(tasks) do
    local w = task.worker and task.worker % workers + 1 or nil
    if not w then
      w = 1
      for other = 2, workers do
        if busy[other] < busy[w] then w = other end
      end
    end
    local units = cost(task)
    if type(units) ~= "number" or units ~= units then
      raise("makespan: costs: expected a number for task %d, got %s", i - 1, show(units))
    end
    busy[w] = busy[w] + units
    longest = math.max(longest, busy[w])
  end
  return longest, busy
end

return schedule
