local axis = require "fa4.axis"
local fa4 = require "fa4"
local formula = require "spec.support.formula"
local json = require "fa4.json"
local plot = require "fa4.plot"
local program = require "spec.support.program"
local svg = require "fa4.svg"

local function inputs()
  local q, k, v = formula.qkv({1, 200, 2, 64}, {1, 400, 2, 64})
  return {q = q, k = k, v = v}
end

local function small_sweep()
  return fa4.sweep{
    config = {device = "cpu", mask = fa4.mask.causal(), scale = 1},
    over = {["rescale.threshold"] = {0, 4, 8}, kv_order = {"reverse", "forward"}},
    inputs = inputs(),
  }
end

describe("a sweep", function()
  it("has a row per combination, each validated", function()
    local result = small_sweep()
    assert.equal(6, #result)
    assert.is_true(result.pass)
    for _, row in ipairs(result) do
      assert.is_true(row.pass)
      assert.is_true(row.time_us > 0 and row.error_ratio <= 1 and row.o_rms_error > 0)
      assert.equal("input", row.input)
      assert.equal("each_block", row.row_max)
    end
    assert.same({0, "reverse"}, {result[1].threshold, result[1].kv_order})
    assert.same({0, "forward"}, {result[2].threshold, result[2].kv_order})
  end)

  it("gives the counts of single runs", function()
    local t = inputs()
    for _, row in ipairs(small_sweep()) do
      local report = fa4.attention{device = "cpu", mask = fa4.mask.causal(), scale = 1, rescale = {threshold = row.threshold},
        kv_order = row.kv_order}(t.q, t.k, t.v).report
      assert.same({report.rescaled_rows, report.row_steps, report.exponent_max, report.p_max},
        {row.rescaled_rows, row.row_steps, row.exponent_max, row.p_max})
    end
  end)

  it("rescales less, the higher the threshold", function()
    local result = small_sweep()
    assert.is_true(result[1].rescaled_rows > result[3].rescaled_rows)
    assert.is_true(result[3].rescaled_rows >= result[5].rescaled_rows)
  end)

  it("takes several inputs, an order of loops, masks as values", function()
    local result = fa4.sweep{
      config = {device = "cpu"}, inputs = {b = inputs(), a = inputs()}, order = {"mask"},
      over = {mask = {fa4.mask.full(), fa4.mask.causal()}, ["rescale.threshold"] = {0, 8}},
    }
    assert.equal(8, #result)
    assert.same({"a", "fa4.mask.full()", 8}, {result[2].input, result[2].mask, result[2].threshold})
    assert.same({"a", "fa4.mask.causal()", 0}, {result[3].input, result[3].mask, result[3].threshold})
    assert.equal("b", result[5].input)
    assert.is_true(result.pass)
  end)

  it("holds each row to its own reference, though masks or inputs have the same words", function()
    local t, other = inputs(), inputs()
    other.v = fa4.randn({1, 400, 2, 64}, {dtype = "f16", seed = 9})
    local function near(width) return function(i, j) return math.abs(i - j) < width end end
    local first, second = {}, {}
    for i = 1, 400 do first[i], second[i] = math.floor(i / 20), math.min(math.floor(i / 20), 6) end
    local document = fa4.mask.document
    for _, case in ipairs{
      {over = {mask = {near(3), near(100)}}, inputs = t}, {over = {mask = {document{ids = first}, document{ids = second}}}, inputs = t},
      {inputs = {{name = "same", q = t.q, k = t.k, v = t.v}, {name = "same", q = t.q, k = t.k, v = other.v}}},
    } do
      case.config = {device = "cpu"}
      local result = fa4.sweep(case)
      assert.equal(2, #result)
      assert.is_true(result.pass, tostring(result))
      assert.is_true(program.widest(tostring(result)) <= 80, tostring(result))
      if case.over then
        assert.equal(result[1].mask .. " #2", result[2].mask)
        assert.is_nil(result[1].mask:find("0x", 1, true))
        assert.is_true(program.widest(fa4.sweep{config = {device = "cpu"}, inputs = t,
          over = {mask = case.over.mask, ["rescale.threshold"] = {0, 8}}}:plot_text()) <= 80)
      end
    end
  end)

  it("takes a config of an input's own, groups and all", function()
    local t = inputs()
    t.config = {rescale = {threshold = 3}, ["exp2.emulated_pairs"] = 0}
    assert.equal(3, fa4.sweep{config = {device = "cpu", rescale = {threshold = 8}}, inputs = t}[1].threshold)
    t.config = {treshold = 3}
    assert.raises_text(function() fa4.sweep{inputs = t} end, "sweep_spec.lua:", "did you mean rescale.threshold")
  end)

  it("works without anything swept", function()
    assert.equal(1, #fa4.sweep{config = {device = "cpu"}, inputs = inputs()})
  end)

  it("makes a failed row of what a device cannot run, and an error of a wrong argument", function()
    local t = inputs()
    assert.raises_text(function()
      fa4.sweep{config = {device = "cpu"}, over = {["rescale.threshold"] = {8, 16}}, inputs = t}
    end, "sweep_spec.lua:", "rescale.threshold", "15", "16")
    for _, case in ipairs{
      {{config = {}, over = {treshold = {1}}, inputs = t}, "treshold", "did you mean"},
      {{config = {}, over = {kv_order = "reverse"}, inputs = t}, "kv_order", "list of values"},
      {{config = {}, over = {kv_order = {}}, inputs = t}, "kv_order", "at least one value, got an empty list"},
      {{config = {}, over = {rescale = {{threshold = 1}}}, inputs = t}, "rescale: a group of fields", "rescale.threshold"},
      {{config = {}, over = {["rescale.thresold"] = {1}}, inputs = t}, "rescale.thresold: unknown field, did you mean threshold"},
      {{config = {}, over = {kv_order = {"backward"}}, inputs = t}, "kv_order", "backward"},
      {{config = {}, inputs = {}}, "inputs"}, {{config = {}}, "inputs", "nil"}, {{config = {}, inputs = {q = t.q}}, "inputs"},
      {{config = {}, input = t, inputs = t}, "did you mean inputs"}, {{config = {}, inputs = t, runs = 0}, "runs", "0"},
      {{config = {}, inputs = t, order = {"mask"}}, "order", "mask"}, {"x", "sweep"},
    } do
      assert.raises_text(function() fa4.sweep(case[1]) end, "sweep_spec.lua:", unpack(case, 2))
    end
  end)

  it("can be interrupted", function()
    local native = require "fa4.ffi"
    native.interrupt()[0] = 1
    local ok, failure = pcall(small_sweep)
    assert.is_false(ok)
    assert.equal("interrupted", failure.kind)
  end)

  it("prints a table, a line a row, however many fields are swept within 80 columns", function()
    local text = tostring(small_sweep())
    local _, rows = text:gsub("  PASS\n", "")
    assert.equal(6, rows + (text:find("  PASS$") and 1 or 0))
    assert.is_truthy(text:find("threshold", 1, true))
    assert.is_true(program.widest(text) <= 80, text)
    local t = inputs()
    local result = fa4.sweep{
      config = {device = "cpu"}, inputs = {["a long name of an input"] = t, ["another, not much shorter"] = t}, order = {"kv_order"},
      over = {["rescale.threshold"] = {0, 8}, kv_order = {"reverse", "sink_first"}, ["exp2.emulated_pairs"] = {0, 4}},
    }
    assert.is_true(program.widest(tostring(result)) <= 80, tostring(result))
    -- What does not fit beside the figures stands above the rows that share it.
    assert.is_truthy(tostring(result):find("\na long name of an input, reverse", 1, true), tostring(result))
    assert.is_truthy(tostring(result):find("\nanother, not much shorter, sink_first", 1, true))
  end)
end)

describe("a saved sweep", function()
  local result, base

  setup(function()
    result, base = small_sweep(), os.tmpname()
  end)

  teardown(function()
    for _, ending in ipairs{"", ".json", ".csv", ".svg"} do os.remove(base .. ending) end
  end)

  it("is JSON with stable keys in a stable order", function()
    result:save(base .. ".json")
    local first = program.read(base .. ".json"):match("{[^\n]*}")
    local keys = {}
    for key in first:gmatch('"([%w_]+)":') do keys[#keys + 1] = key end
    assert.same({"input", "device", "threshold", "kv_order", "row_max", "rescaled_rows", "row_steps", "rescaled_warps", "warp_steps",
      "exponent_max", "p_max", "error_ratio", "o_rms_error", "time_us", "pass"}, keys)
  end)

  it("is CSV with a heading", function()
    result:save(base .. ".csv")
    local lines = {}
    for line in program.read(base .. ".csv"):gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.equal(7, #lines)
    assert.is_truthy(lines[1]:find("^input,device,threshold,kv_order"))
    assert.is_truthy(lines[2]:find("^input,cpu,0,reverse,each_block,%d+,"))
  end)

  it("is a picture with title, axis labels, a legend and all points", function()
    result:save(base .. ".svg", {title = "Thresholds & orders"})
    local text = program.read(base .. ".svg")
    assert.is_truthy(text:find("^<svg xmlns="))
    assert.is_truthy(text:find("Thresholds &amp; orders", 1, true))
    assert.is_truthy(text:find("rescale threshold (log2 units)", 1, true))
    assert.is_truthy(text:find(">reverse<", 1, true))
    local _, curves = text:gsub("<polyline", "")
    assert.equal(4, curves)
    assert.is_nil(text:find("nan", 1, true))
  end)

  it("plots on a terminal", function()
    local text = result:plot_text("rescale.threshold", "rescaled_rows_percent", {ascii = true})
    assert.is_truthy(text:find("* reverse", 1, true))
    assert.is_truthy(text:find("o forward", 1, true))
    for line in text:gmatch("[^\n]+") do assert.is_true(#line <= 80, line) end
    assert.is_nil(text:find("[\128-\255]"))
  end)

  it("refuses another ending or folder", function()
    assert.raises_text(function() result:save("x.txt") end, ".json", "x.txt")
    assert.raises_text(function() result:save("/no/such/folder/x.json") end, "/no/such/folder")
    assert.raises_text(function() result:plot("threshold", "nothing") end, "nothing")
  end)
end)

describe("JSON", function()
  it("escapes, keeps order, and writes null for what JSON lacks", function()
    assert.equal('{"b": 1, "a": "x\\n\\"\\u0001"}\n', json.write({a = 'x\n"\1', b = 1}, {"b"}))
    assert.equal("[\n  1,\n  null,\n  null,\n  true,\n  0.1\n]\n", json.write{1, 0 / 0, -1 / 0, true, 0.1})
    assert.equal("[]\n", json.write{})
    assert.equal('{"a": null}\n', json.write{a = json.null})
    assert.equal("4503599627370497\n", json.write(2 ^ 52 + 1))
    assert.equal(1 / 3, tonumber(json.number(1 / 3)))
    assert.raises_text(function() json.write{function() end} end, "function")
    local loop = {}
    loop[1] = loop
    assert.raises_text(function() json.write(loop) end, "deeper than 32")
  end)
end)

describe("axes", function()
  it("have round ticks that cover the data", function()
    assert.same({0, 10, 20, 30, 40}, axis.ticks(0, 37, 5))
    assert.same({0, 2, 4, 6, 8, 10, 12, 14, 16}, axis.ticks(0, 15, 8))
    assert.equal("5e-5", axis.label(5e-5))
    assert.equal("1.5e-4", axis.label(1.5e-4))
    assert.equal("0", axis.label(0))
    for _, range in ipairs{{0, 0}, {5, 5}, {-3, 7}, {1e-9, 2e-9}, {0, 1e12}} do
      local ticks = axis.ticks(range[1], range[2], 6)
      assert.is_true(ticks[1] <= range[1] and ticks[#ticks] >= range[2] * (1 - 1e-9) and #ticks < 15)
    end
  end)

  it("survive data without a finite number", function()
    local series = {{name = "none", x = {0 / 0}, y = {1}}}
    assert.is_truthy(plot.text(series):find("nothing to plot", 1, true))
    assert.is_truthy(svg.chart{title = "t", panels = {{series = series}}}:find("nothing to draw", 1, true))
    assert.is_truthy(plot.text({{name = "one", x = {1}, y = {2}}}, {ascii = true}):find("*", 1, true))
    assert.raises_text(function() plot.text{{x = {1}, y = {}}} end, "series 1")
  end)
end)
