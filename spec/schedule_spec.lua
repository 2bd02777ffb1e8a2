local fa4 = require "fa4"

local function tensors(batch, length, heads_q, heads_kv)
  local q = fa4.randn({batch, length, heads_q, 16}, {dtype = "f16", seed = 1})
  local k = fa4.randn({batch, length, heads_kv, 16}, {dtype = "f16", seed = 2})
  local v = fa4.randn({batch, length, heads_kv, 16}, {dtype = "f16", seed = 3})
  return q, k, v
end

local function plan_with(schedule, more)
  local config = {device = "cpu", mask = fa4.mask.causal(), schedule = schedule}
  for key, value in pairs(more or {}) do config[key] = value end
  return fa4.attention(config):plan(tensors(2, 600, 4, 2))
end

local function task_key(task)
  return ("%d/%d/%s"):format(task.batch, task.head, table.concat(task.tiles, ","))
end

local function keys_of(plan)
  local keys = {}
  for i, task in ipairs(plan:tasks()) do keys[i] = task_key(task) end
  return keys
end

describe("the linear schedule", function()
  it("goes through batch, head and tile in order", function()
    local before
    for _, task in ipairs(plan_with(fa4.schedule.linear()):tasks()) do
      local place = (task.batch * 100 + task.head) * 100 + task.tiles[1]
      assert.is_true(not before or place > before)
      before = place
    end
  end)
end)

describe("the longest-first schedule", function()
  it("has the tasks of the linear one", function()
    local a, b = keys_of(plan_with(fa4.schedule.linear())), keys_of(plan_with(fa4.schedule.lpt{l2_bytes = 2 ^ 20}))
    table.sort(a)
    table.sort(b)
    assert.same(a, b)
  end)

  it("starts with the longest task and never gets longer within a group", function()
    local tasks = plan_with(fa4.schedule.lpt{l2_bytes = 2 ^ 40}):tasks()
    for i = 2, #tasks do assert.is_true(tasks[i].blocks <= tasks[i - 1].blocks) end
  end)

  it("groups heads whose keys and values fit the cache", function()
    -- K and V of one head: 600 keys * 32 values * 2 bytes = 38,400 bytes, so that two heads fit 80,000.
    local seen, groups = {}, {}
    for _, task in ipairs(plan_with(fa4.schedule.lpt{l2_bytes = 80000}):tasks()) do
      local group = math.floor((task.batch * 2 + task.head) / 2)
      if groups[#groups] ~= group then
        assert.is_nil(seen[group], "a group comes back")
        seen[group] = true
        groups[#groups + 1] = group
      end
    end
    assert.same({0, 1}, groups)
  end)

  it("refuses a cache of no bytes", function()
    assert.raises_text(function() fa4.schedule.lpt{l2_bytes = 0} end, "l2_bytes", "got 0")
    assert.raises_text(function() fa4.schedule.lpt{l2_byte = 5} end, "did you mean l2_bytes")
  end)
end)

describe("a schedule function", function()
  it("decides the order", function()
    local plan = plan_with(function(tasks)
      table.sort(tasks, function(a, b) return task_key(a) > task_key(b) end)
      return tasks
    end)
    local keys = keys_of(plan)
    for i = 2, #keys do assert.is_true(keys[i] < keys[i - 1]) end
  end)

  it("gets every task with its visited blocks", function()
    plan_with(function(tasks)
      assert.equal(#keys_of(plan_with(fa4.schedule.linear())), #tasks)
      for _, task in ipairs(tasks) do
        assert.is_true(task.batch >= 0 and task.head >= 0 and task.tiles[1] >= 0 and task.blocks >= 1)
      end
      return tasks
    end)
  end)

  it("gets tasks of two tiles on sm_100a, the last of an odd number alone", function()
    if not fa4.device("emu:sm_100a") then return pending("this build has no sm_100a emulator") end
    local seen
    local plan = plan_with(function(tasks)
      seen = tasks
      local list = {}
      for i = #tasks, 1, -1 do list[#list + 1] = tasks[i] end
      return list
    end, {device = "emu:sm_100a"})
    -- 600 positions in tiles of 64 (two heads packed): ten tiles, five tasks for each of 2 x 2 (batch, key head).
    assert.equal(20, #seen)
    assert.same({0, 1}, seen[1].tiles)
    assert.same({8, 9}, plan:tasks()[1].tiles)
    assert.equal(1, plan:tasks()[1].batch)
    local odd = fa4.attention{device = "emu:sm_100a", gqa_packing = false}:plan(tensors(1, 600, 1, 1))
    assert.same({4}, odd:tasks()[3].tiles)
    assert.is_true(fa4.plan.parse(plan:text()) == plan)
  end)

  it("may not lose a task", function()
    assert.raises_text(function()
      plan_with(function(tasks)
        table.remove(tasks, 3)
        return tasks
      end)
    end, "schedule", "is lost", "batch 0, head 0, tile 2")
  end)

  it("may not repeat a task", function()
    assert.raises_text(function()
      plan_with(function(tasks)
        tasks[2] = tasks[1]
        return tasks
      end)
    end, "returned twice", "batch 0, head 0, tile 0", "place 1")
  end)

  it("may not return a foreign task", function()
    assert.raises_text(function()
      plan_with(function(tasks)
        tasks[1] = {batch = 0, head = 0, tiles = {0}, blocks = 1}
        return tasks
      end)
    end, "not one of the tasks", "place 0")
    assert.raises_text(function() plan_with(function() return {1} end) end, "not one of the tasks", "1")
    assert.raises_text(function() plan_with(function() return "all" end) end, "returned", "all")
  end)

  it("passes its own errors on", function()
    assert.raises_text(function() plan_with(function() error("no order today") end) end, "schedule_spec.lua", "no order today")
  end)
end)

describe("a schedule list", function()
  it("assigns each task to a worker", function()
    local plan = plan_with(fa4.schedule.list(function(tasks, workers)
      local lists = {}
      for w = 1, workers do lists[w] = {} end
      for i, task in ipairs(tasks) do table.insert(lists[i % workers + 1], task) end
      return lists
    end), {workers = 3})
    for _, task in ipairs(plan:tasks()) do assert.is_true(task.worker >= 0 and task.worker < 3) end
  end)

  it("may not name more workers than there are, or lose a task", function()
    assert.raises_text(function()
      plan_with(fa4.schedule.list(function(tasks) return {tasks, {}, {}} end), {workers = 2})
    end, "3 lists for 2 workers")
    assert.raises_text(function()
      plan_with(fa4.schedule.list(function() return {{}} end), {workers = 2})
    end, "is lost")
    assert.raises_text(function()
      plan_with(fa4.schedule.list(function(tasks) return {tasks, 5} end), {workers = 2})
    end, "list 1", "5")
  end)
end)

describe("the makespan", function()
  it("is the sum of all blocks for one worker", function()
    local plan, sum = plan_with(fa4.schedule.linear()), 0
    for _, task in ipairs(plan:tasks()) do sum = sum + task.blocks end
    assert.equal(sum, (fa4.schedule.makespan(plan, {workers = 1})))
  end)

  it("is the longest task for very many workers", function()
    assert.equal(5, (fa4.schedule.makespan(plan_with(fa4.schedule.linear()), {workers = 1000})))
  end)

  it("follows a greedy walk worked out by hand", function()
    -- 4 workers, costs 5 4 3 3 3 in order: 5, 4, 3, 3, then 3 more for a worker at 3.
    local plan = fa4.attention{device = "cpu", schedule = fa4.schedule.linear()}:plan(tensors(1, 520, 1, 1))
    assert.equal(5, #plan:tasks())
    local longest, busy = fa4.schedule.makespan(plan, {workers = 4, costs = {5, 4, 3, 3, 3}})
    assert.equal(6, longest)
    assert.same({5, 4, 6, 3}, busy)
  end)

  it("keeps to the workers of a list", function()
    local plan = plan_with(fa4.schedule.list(function(tasks) return {tasks, {}} end), {workers = 2})
    local longest, busy = fa4.schedule.makespan(plan)
    assert.same({longest, 0}, busy)
  end)

  it("takes a cost function and refuses nonsense", function()
    local plan = plan_with(fa4.schedule.linear())
    assert.equal(#plan:tasks(), (fa4.schedule.makespan(plan, {workers = 1, costs = function() return 1 end})))
    assert.raises_text(function() fa4.schedule.makespan(plan, {workers = 0}) end, "workers", "got 0")
    assert.raises_text(function() fa4.schedule.makespan(plan, {costs = {1}}) end, "a list of 1")
    assert.raises_text(function() fa4.schedule.makespan(plan, {cost = 1}) end, "did you mean costs")
    assert.raises_text(function() fa4.schedule.makespan(3) end, "expected a plan")
  end)

  it("is shorter longest-first than in an order that ends with the longest", function()
    local function by_blocks(tasks)
      table.sort(tasks, function(a, b) return a.blocks < b.blocks or a.blocks == b.blocks and task_key(a) < task_key(b) end)
      return tasks
    end
    local lpt = fa4.schedule.makespan(plan_with(fa4.schedule.lpt{l2_bytes = 2 ^ 40}), {workers = 6})
    assert.is_true(lpt <= fa4.schedule.makespan(plan_with(by_blocks), {workers = 6}))
  end)
end)
