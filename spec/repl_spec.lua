--- The prompt, driven through a pseudo-terminal as a person would, and through a pipe.
local program = require "spec.support.program"

local home

-- Plays steps (see spec/support/pty.c) against the prompt, with other words for env if given. Returns what came out.
local function play(steps, env)
  local command = ("exec env -u XDG_STATE_HOME -u LC_ALL TERM=xterm LANG=C.UTF-8 HOME=%s env %s %s/tests/pty 60 %s"):format(
    program.quote(home), env or "", program.build, program.fa4)
  local result = program.shell(command, { input = table.concat(steps, "\n") .. "\n", seconds = 70 })
  if result.code == 77 then
    return nil
  end
  assert.equal(0, result.code, result.out .. result.err)
  return result.out
end

local PROMPT = "within 5 fa4> "

-- Steps that type a line and wait for what must come out, then for the prompt.
local function ask(line, ...)
  local steps = { "send " .. line .. "\\n" }
  for _, text in ipairs({ ... }) do
    steps[#steps + 1] = "within 5 " .. text
  end
  steps[#steps + 1] = PROMPT
  return table.concat(steps, "\n")
end

-- A line that runs until Ctrl-C: it must stop within a second (or what patience makes of it) and give the prompt back, which must work.
local function interrupt(line)
  return table.concat({ "send " .. line .. "\\n", "within 20 working", "send \\x03", ("within %d interrupted"):format(program.patience),
    ("within %d fa4> "):format(program.patience), ask("1000 + 1", "1001") }, "\n")
end

local has_terminal = program.shell(("printf 'exit 0\\n' | %s/tests/pty 5 true"):format(program.build)).code ~= 77

local function on_terminal(fact, test)
  if has_terminal then
    it(fact, test)
  else
    pending(fact .. " (no pseudo-terminal)")
  end
end

describe("the prompt", function()
  before_each(function()
    home = program.shell("mktemp -d").out:match("[^\n]+")
  end)

  after_each(function()
    program.shell("rm -rf " .. program.quote(home))
  end)

  on_terminal("greets in two lines and leaves at Ctrl-D", function()
    local out = play({ PROMPT, "send \\x04", "exit 0" })
    local banner = out:match("^(.-)fa4> ")
    assert.truthy(banner:find("^fa4 %d+%.%d+%.%d+[^\n]*cpu[^\n]*\n[^\n]*help[^\n]*\n$"), banner)
    for line in banner:gmatch("[^\r\n]+") do
      assert.is_true(#line <= 80, line)
    end
  end)

  on_terminal("prints expressions, several values and nothing for a statement", function()
    play({ PROMPT, ask("1 + 1", "2\\r\\n"), ask("= 6 * 7", "42\\r\\n"), ask("return 6 * 8", "48\\r\\n"), ask("1, 'two', nil", '1  "two"  nil\\r\\n'),
      ask("x = 5"), ask("x", "5\\r\\n"), ask("{1, 2, a = {b = 3}}", "{ 1, 2, a = { b = 3 } }"), "send \\x04", "exit 0" })
  end)

  on_terminal("keeps the last value in _ and is silenced by ;", function()
    local out = play({ PROMPT, ask("40 + 2;"), ask("_ + 1", "43\\r\\n"), ask("'said';"), ask("#_", "4\\r\\n"), "send \\x04", "exit 0" })
    assert.falsy(out:find("42\r\n", 1, true))
    assert.falsy(out:find('"said"\r\n', 1, true))
  end)

  on_terminal("continues a chunk over lines, and Ctrl-C leaves an unfinished one", function()
    play({ PROMPT, "send for i = 1, 2 do\\n", "within 5 ...> ", "send print('round ' .. i)\\n", "within 5 ...> ", ask("end", "round 1", "round 2"),
      "send function f(\\n", "within 5 ...> ", "send \\x03", PROMPT, ask("f", "nil\\r\\n"), "send \\x04", "exit 0" })
  end)

  on_terminal("keeps the locals of one line for the next", function()
    play({ PROMPT, ask("local a, b = 20, 22"), ask("a + b", "42\\r\\n"), ask("local function twice(n) return 2 * n end"),
      ask("twice(4)", "8\\r\\n"), "send \\x04", "exit 0" })
  end)

  on_terminal("goes on after every kind of error", function()
    play({ PROMPT, ask("error('first')", "prompt:1: first"), ask("error({})", "error object: a table"), ask("nothing.field", "index global 'nothing'"),
      ask("1 +* 2", "unexpected symbol"), ask("error()", "without a message"), ask("local function r() return 1 + r() end r()", "stack overflow"),
      ask("'fine'", '"fine"'), "send \\x04", "exit 0" })
  end)

  on_terminal("completes globals, fields, methods, config keys and choices by listing them", function()
    play({ PROMPT, ask("string.for\\t('%d', 77)", '"77"'), ask("fa4.mask.caus\\t()", "causal"), ask("t = fa4.zeros{2, 3}"),
      ask("t:permu\\t(1, 0).shape[1]", "3\\r\\n"), ask("t.sha\\t[1]", "2\\r\\n"), ask("fa4.attention{thr\\teads = 1};"),
      ask("fa4.attention{rescale = {thresh\\t3}};"), "send string.\\t", "within 2 gsub", "within 2 string.", "send \\x03", PROMPT,
      "send \\x04", "exit 0" })
  end)

  on_terminal("explains functions and config fields after a question mark", function()
    play({ PROMPT, ask("?attention", "returns"), ask("?fa4.randn", "seed"), ask("?rescale.threshold", "log2"), ask("?kv_order  -- a remark (of mine)", "sink_first"),
      ask("?", "Ctrl-D"),
      ask("?no_such_name", "nothing of that name"), "send \\x04", "exit 0" })
  end)

  on_terminal("keeps history across runs, a line at a time, for its owner alone", function()
    play({ PROMPT, ask("remembered = 12345"), "send \\x04", "exit 0" })
    local path = home .. "/.local/state/fa4/history"
    assert.equal("remembered = 12345\n", program.read(path))
    assert.equal("600\n", program.shell("stat -c %a " .. path).out)
    play({ PROMPT, "send \\e[A", "within 2 remembered = 12345", "send \\n", PROMPT, ask("remembered", "12345\\r\\n"), "send \\x04", "exit 0" })
    -- Appended at once: a killed prompt loses nothing.
    play({ PROMPT, ask("a_second_line = 1"), "send os.exit(9, true)\\n", "exit 9" })
    assert.truthy(program.read(path):find("a_second_line", 1, true))
  end)

  on_terminal("follows XDG_STATE_HOME and works without HOME", function()
    play({ PROMPT, ask("1"), "send \\x04", "exit 0" }, "XDG_STATE_HOME=" .. home .. "/state")
    assert.equal("1\n", program.read(home .. "/state/fa4/history"))
    play({ PROMPT, ask("2 + 2", "4\\r\\n"), "send \\x04", "exit 0" }, "-u HOME")
    play({ PROMPT, ask("2 + 2", "4\\r\\n"), "send \\x04", "exit 0" }, "XDG_STATE_HOME=/dev/null/nowhere")
  end)

  on_terminal("takes UTF-8, and is plain on a dumb terminal", function()
    play({ PROMPT, ask("#'h\\xc3\\xa9'", "3\\r\\n"), "send \\x04", "exit 0" })
    play({ PROMPT, ask("#'h\\xc3\\xa9'", "3\\r\\n"), "send \\x04", "exit 0" }, "LC_ALL=C")
    play({ PROMPT, ask("#'h\\xc3\\xa9'", "3\\r\\n"), "send \\x04", "exit 0" }, "TERM=dumb")
  end)

  on_terminal("gives itself back within a second of Ctrl-C in a typed loop", function()
    play({ PROMPT, interrupt("print('work' .. 'ing') while true do end"),
      interrupt("print('work' .. 'ing') while true do pcall(function() while true do end end) end"), "send \\x04", "exit 0" })
  end)

  on_terminal("gives itself back within a second of Ctrl-C in a dofile of a loop", function()
    program.write(home .. "/loop.lua", "print('work' .. 'ing')\nlocal x = 0\nwhile true do x = x + 1 end\n")
    play({ PROMPT, interrupt(("dofile('%s/loop.lua')"):format(home)), "send \\x04", "exit 0" })
  end)

  on_terminal("gives itself back within a second of Ctrl-C in a Lua mask, attention and a sweep", function()
    play({ PROMPT, ask("q = fa4.randn({1, 16384, 16, 128}, {seed = 1});"), ask("k = fa4.randn({1, 16384, 16, 128}, {seed = 2});"),
      interrupt("print('work' .. 'ing') fa4.attention{device = 'cpu'}(q, k, k)"),
      interrupt("print('work' .. 'ing') fa4.attention{device = 'cpu', mask = function(i, j) return true end}(q, k, k)"),
      interrupt("print('work' .. 'ing') fa4.sweep{config = {device = 'cpu'}, over = {['rescale.threshold'] = {0, 8}}, inputs = {q = q, k = k, v = k}}"),
      "send \\x04", "exit 0" })
  end)

  on_terminal("comes after a script with -i, which keeps its globals", function()
    local command = ("exec env HOME=%s TERM=xterm %s/tests/pty 20 %s -e 'given = 77' -i"):format(home, program.build, program.fa4)
    local result = program.shell(command, { input = table.concat({ PROMPT, ask("given", "77\\r\\n"), "send \\x04", "exit 0" }, "\n") .. "\n" })
    assert.equal(0, result.code, result.out .. result.err)
  end)

  on_terminal("restores the terminal and exits 143 when it is terminated", function()
    local out = play({ PROMPT, "send os.execute('kill -TERM $PPID')\\n", "exit 143" })
    assert.truthy(out:find("fa4> ", 1, true))
  end)

  it("prints values without prompt or banner through a pipe", function()
    local result = program.run({}, { input = "1 + 1\nfor i = 1, 2 do\nprint(i)\nend\n'x'" })
    assert.equal('2\n1\n2\n"x"\n', result.out)
    assert.equal("", result.err)
    assert.equal(0, result.code)
  end)

  it("exits 1 at the end of a pipe in which something failed, having done the rest", function()
    local result = program.run({}, { input = "error('no')\n7\nfor" })
    assert.equal("7\n", result.out)
    assert.truthy(result.err:find("prompt:1: no", 1, true))
    assert.truthy(result.err:find("near '<eof>'", 1, true))
    assert.equal(1, result.code)
  end)

  it("refuses byte code", function()
    local result = program.run({}, { input = "\27LJ\2\n1\n" })
    assert.equal("1\n", result.out)
    assert.equal(1, result.code)
  end)

  it("explains itself and the library within 80 columns", function()
    local result = program.run({}, { input = "?\nfa4\n?fa4.sweep\n?rescale\nfa4.config\n" })
    assert.truthy(result.out:find("Ctrl-D", 1, true))
    for _, name in ipairs({ "attention", "validate", "sweep", "load" }) do
      assert.truthy(result.out:match("the library fa4.-zeros"):find(name, 1, true), name)
    end
    for line in result.out:gmatch("[^\n]+") do
      assert.is_true(#line <= 80, line)
    end
  end)

  it("cuts long values to what a person reads, and continues long lines on the next", function()
    local result = program.run({}, { input = "t = {} for i = 1, 1e5 do t[i] = i end\nt\nloop = {} loop.loop = loop\nloop\n"
      .. "m = fa4.mask.any_of(fa4.mask.window{left = 10, right = 10}, fa4.mask.prefix{length = 3}, fa4.mask.causal())\nm\nfa4.attention{mask = m}\n" })
    local _, count = result.out:gsub("\n", "\n")
    assert.is_true(count < 20, result.out)
    assert.truthy(result.out:find("more", 1, true))
    for line in result.out:gmatch("[^\n]+") do
      assert.is_true(#line <= 80, line)
    end
  end)
end)
