local config = require "fa4.config"
local fa4 = require "fa4"

describe("the config schema", function()
  it("has a kind and a sentence for every field", function()
    for _, field in ipairs(config.fields) do
      assert.is_truthy(field.kind, field.name)
      assert.is_truthy(field.doc:find("%.$"), field.name .. ": " .. field.doc)
      assert.is_truthy(field.default ~= nil or field.default_text, field.name)
      if field.kind == "whole" then assert.is_truthy(field.unit, field.name) end
    end
  end)

  it("prints every field with its range and default, within 80 columns", function()
    local text = tostring(fa4.config)
    for _, field in ipairs(config.fields) do assert.is_truthy(text:find(field.name .. ":", 1, true), field.name) end
    for line in text:gmatch("[^\n]+") do assert.is_true(#line <= 80, line) end
    assert.is_truthy(text:find("rescale.threshold: a finite number in 0..100 (log2 units)", 1, true))
  end)

  it("describes a field and a group", function()
    assert.is_truthy(config.describe("kv_order"):find("sink_first", 1, true))
    assert.is_truthy(config.describe("exp2"):find("exp2.first_fragment", 1, true))
    assert.is_nil(config.describe("nothing"))
  end)

  it("lists the keys of each table for completion", function()
    assert.same({"emulated_pairs", "first_fragment"}, config.keys("exp2"))
    assert.is_nil(config.keys("masks"))
    local top = table.concat(config.keys(), " ")
    assert.is_truthy(top:find("rescale") and top:find("kv_order") and not top:find("%."))
  end)
end)

describe("checking a config", function()
  it("takes nested tables and dotted keys alike", function()
    assert.equal(3, config.check{rescale = {threshold = 3}}["rescale.threshold"])
    assert.equal(3, config.check{["rescale.threshold"] = 3}["rescale.threshold"])
  end)

  it("fills in defaults that do not depend on the problem", function()
    local flat = config.check()
    assert.equal("auto", flat.device)
    assert.equal(0, flat.soft_cap)
    assert.is_true(flat.lse)
    assert.equal("reverse", flat.kv_order)
    assert.is_nil(flat.scale)
  end)

  it("names the nearest field for a misspelt one", function()
    assert.raises_text(function() config.check{rescale = {treshold = 8}} end, "treshold", "did you mean threshold")
    assert.raises_text(function() config.check{kv_oder = "forward"} end, "kv_oder", "did you mean kv_order")
    assert.raises_text(function() config.check{sofcap = 3} end, "sofcap", "did you mean soft_cap")
    assert.raises_text(function() config.check{[1] = 3} end, "field names", "got 1")
  end)

  it("names field, value and what is allowed", function()
    local cases = {
      {{scale = 0 / 0}, "scale", "nan", "finite"}, {{scale = 1 / 0}, "scale", "inf", "finite"},
      {{scale = "1"}, "scale", '"1"'}, {{soft_cap = -1}, "soft_cap", "-1", ">= 0"},
      {{rescale = {threshold = -0.5}}, "rescale.threshold", "-0.5", "0..100"},
      {{rescale = {threshold = 0 / 0}}, "rescale.threshold", "nan"}, {{rescale = 8}, "rescale", "threshold"},
      {{exp2 = {emulated_pairs = 2.7}}, "exp2.emulated_pairs", "2.7", "whole number in 0..8"},
      {{exp2 = {first_fragment = 4}}, "exp2.first_fragment", "4", "0..3"}, {{p_split = 40}, "p_split", "40", "multiple of 16"},
      {{threads = 2 ^ 31}, "threads", "2147483648"}, {{workers = -1}, "workers", "-1"}, {{lse = 1}, "lse", "true or false"},
      {{kv_order = "forwards"}, "kv_order", "forwards", 'did you mean "forward"'}, {{row_max = 1}, "row_max", "each_block"},
      {{device = 3}, "device", "3"}, {{mask = 3}, "mask", "3"}, {{schedule = "lpt"}, "schedule", "fa4.schedule.lpt()"},
      {{gqa_packing = "yes"}, "gqa_packing", "yes"}, {{registers = {softmax = 201}}, "registers.softmax", "201", "multiple of 8"},
    }
    for _, case in ipairs(cases) do
      assert.raises_text(function() config.check(case[1]) end, unpack(case, 2))
    end
    assert.raises_text(function() config.check("cpu") end, "expected a table", "cpu")
  end)

  it("blames the line of the script that made the call", function()
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, message = pcall(function() fa4.attention{device = "cpu", sclae = 1} end)
    assert.is_false(ok)
    assert.is_truthy(message:find("config_spec.lua:" .. line .. ":", 1, true), message)
  end)
end)

describe("documentation by name", function()
  it("comes from the comments and the schema", function()
    assert.is_truthy(fa4.doc("fa4.attention"):find("op", 1, true))
    assert.is_truthy(fa4.doc("attention"):find("An attention operator", 1, true))
    assert.is_truthy(fa4.doc("mask.window"):find("ends included", 1, true))
    assert.is_truthy(fa4.doc("tensor:permute"):find("Axes count from", 1, true))
    assert.is_truthy(fa4.doc("rescale.threshold"):find("log2 units", 1, true))
    assert.is_truthy(fa4.doc("schedule"):find("config field schedule", 1, true))
    assert.is_nil(fa4.doc("no_such_thing"))
  end)

  it("exists for every public function", function()
    for name, export in pairs(getmetatable(fa4).methods) do
      if export[1] ~= "emu" and export[1] ~= "kernel" then assert.is_truthy(fa4.doc("fa4." .. name), name) end
    end
    for name, value in pairs(fa4.mask) do
      if type(value) == "function" then assert.is_truthy(fa4.doc("mask." .. name), "mask." .. name) end
    end
    for name in pairs(getmetatable(fa4.zeros{1}).methods) do assert.is_truthy(fa4.doc("tensor:" .. name), "tensor:" .. name) end
  end)

  it("stays within 80 columns", function()
    for _, name in ipairs{"attention", "mask.document", "plan.parse", "sweep", "tensor:reshape", "rescale.threshold"} do
      for line in fa4.doc(name):gmatch("[^\n]+") do assert.is_true(#line <= 80, name .. ": " .. line) end
    end
  end)
end)
