--- Tab completion as a function: the text before the cursor, what is inserted, what is listed.
local complete = require "fa4.complete"

describe("completion", function()
  before_each(function()
    _G.completed = { alpha = 1, alphabet = function() end, beta = { gamma = 2 }, _hidden = 3 }
  end)

  after_each(function()
    _G.completed = nil
  end)

  it("inserts what is common, then lists what is left", function()
    assert.equal("lpha", (complete.at("completed.a")))
    local insert, shown = complete.at("completed.alpha")
    assert.equal("", insert)
    assert.equal("alpha     alphabet", shown)
    assert.equal("amma", (complete.at("print(completed.beta.g")))
  end)

  it("offers only functions after a colon, and hides what starts with _ until it is typed", function()
    assert.equal("alphabet", (complete.at("completed:")))
    assert.equal("hidden", (complete.at("completed._")))
    local _, shown = complete.at("completed.")
    assert.falsy(shown:find("_hidden", 1, true))
  end)

  it("knows keywords and inserts spaces on an empty line", function()
    assert.equal("ction", (complete.at("fun")))
    assert.equal("  ", (complete.at("")))
    assert.equal("", (complete.at("nothing_like_this.x")))
  end)

  it("follows a metatable that lists methods and fields", function()
    _G.completed = setmetatable({}, { methods = { permute = true }, fields = { shape = true }, __index = function() end })
    assert.equal("ermute", (complete.at("completed:p")))
    assert.equal("hape", (complete.at("completed.s")))
    assert.equal("permute", (complete.at("completed:")))
  end)

  it("offers config keys inside the braces of a call, by group", function()
    assert.equal("hreshold = ", (complete.at("fa4.attention{rescale = {t")))
    assert.equal('eshold = ', (complete.at("fa4.attention({device = 'cpu', rescale = {thr")))
    local _, shown = complete.at("fa4.attention{")
    assert.truthy(shown:find("kv_order", 1, true))
    assert.truthy(shown:find("rescale", 1, true))
  end)

  it("offers them inside the config of a sweep, and not beside it", function()
    assert.equal("eads = ", (complete.at("fa4.sweep{config = {thr")))
    assert.equal("eshold = ", (complete.at("s = fa4.sweep({inputs = data, config = {rescale = {thr")))
    assert.equal('rward"', (complete.at("fa4.sweep{config = {kv_order = \"fo")))
    assert.equal("", (complete.at("fa4.sweep{thr")))
  end)

  it("offers the strings that a field takes", function()
    assert.equal('rward"', (complete.at("fa4.attention{kv_order = \"fo")))
    assert.equal('16"', (complete.at("fa4.randn({2}, {dtype = 'bf")))
    local _, shown = complete.at("fa4.attention{kv_order = \"")
    assert.truthy(shown:find("reverse", 1, true))
  end)
end)
