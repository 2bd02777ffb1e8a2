--- The command line: options, arguments, exit status, and what goes to which stream.
local program = require "spec.support.program"

local function run(...)
  return program.run({ ... })
end

describe("the command line", function()
  it("prints the version on standard output", function()
    local result = run("--version")
    assert.equal(0, result.code)
    assert.truthy(result.out:find("^fa4 %d+%.%d+%.%d+ %(LuaJIT [^)]+%)\n$"))
    assert.equal("", result.err)
  end)

  it("prints help within 80 columns on standard output", function()
    local result = run("--help")
    assert.equal(0, result.code)
    assert.equal("", result.err)
    for _, word in ipairs({ "usage:", "-e CODE", "-l MODULE", "--color", "info", "test", "exit status", "130" }) do
      assert.truthy(result.out:find(word, 1, true), word)
    end
    for line in result.out:gmatch("[^\n]+") do
      assert.is_true(#line <= 80, line)
    end
  end)

  it("exits 2 with a usage line for an unknown option, a missing argument and a wrong colour", function()
    for _, words in ipairs({ { "--nonsense" }, { "-x" }, { "-e" }, { "-l" }, { "--color=blue" } }) do
      local result = program.run(words)
      assert.equal(2, result.code)
      assert.equal("", result.out)
      assert.truthy(result.err:find(words[1], 1, true))
      assert.truthy(result.err:find("usage:", 1, true))
    end
  end)

  it("names a variable of the environment that has a wrong value, the value and what is allowed", function()
    for _, case in ipairs({ { "FA4_NUM_THREADS", "two", "1..1024" }, { "FA4_NUM_THREADS", "99999", "1..1024" },
      { "FA4_NUM_THREADS", "0", "1..1024" }, { "FA4_CPU", "sse9", "scalar, avx2, avx512 or avx512_bf16" }, { "FA4_CACHE", "off", "0..1" },
      { "FA4_CACHE_BYTES", "1GB", "a whole number" } }) do
      local result = program.run({ "info" }, { env = case[1] .. "=" .. case[2] })
      assert.equal(1, result.code)
      assert.equal("", result.out)
      assert.truthy(result.err:find("^fa4: " .. case[1] .. ": expected [^\n]*\n$"), result.err)
      for _, part in ipairs(case) do
        assert.truthy(result.err:find(part, 1, true), result.err)
      end
    end
    for _, case in ipairs({ { "FA4_EMU_SCHEDULE", "fair" }, { "FA4_EMU_SEED", "x" } }) do
      local result = program.run({ "-e", "fa4.attention{device = 'emu'}" }, { env = case[1] .. "=" .. case[2] })
      assert.equal(3, result.code)
      assert.truthy(result.err:find(case[1] .. ": expected", 1, true), result.err)
    end
    local result = program.run({ "info" }, { env = "FA4_LOG=loud" })
    assert.equal(0, result.code)
    assert.equal('fa4: warn: FA4_LOG: expected error, warn, info or debug, got "loud"\n', result.err)
    assert.equal("", program.run({ "info" }, { env = "FA4_NUM_THREADS= FA4_CPU= FA4_CACHE= FA4_LOG= FA4_EMU_SEED= FA4_EMU_SCHEDULE=" }).err)
  end)

  it("runs -e and -l in the order given", function()
    local result = run("-e", "x = 1", "-l", "bit", "-e", "print(x, bit.bor(1, 2))")
    assert.equal("1\t3\n", result.out)
    assert.equal(0, result.code)
  end)

  it("starts an empty chunk in 20 ms, within patience", function()
    local best = math.huge
    for _ = 1, 5 do
      local result = program.shell(("start=$(date +%%s%%N); %s -e ''; end=$(date +%%s%%N); echo $((end - start))"):format(program.fa4))
      best = math.min(best, tonumber(result.out) / 1e6)
    end
    local limit = 20 * program.patience
    assert.is_true(best < limit, ("%.1f ms"):format(best))
  end)

  it("fills arg and the varargs as plain Lua does", function()
    program.with_script("print(arg[0], arg[1], arg[2], #arg, arg[-1], ...)", function(path)
      local result = run(path, "a", "b c")
      assert.equal(table.concat({ path, "a", "b c", "2", program.fa4, "a", "b c" }, "\t") .. "\n", result.out)
    end)
    program.with_script("print(arg[-1], arg[-2], arg[-3])", function(path)
      assert.equal("x = 1\t-e\t" .. program.fa4 .. "\n", run("-e", "x = 1", path).out)
    end)
  end)

  it("runs standard input as a script", function()
    local result = program.run({ "-", "one" }, { input = "local x = 40\nprint(x + 2, ...)\n" })
    assert.equal("42\tone\n", result.out)
  end)

  it("takes what follows -- as a script, whatever its name", function()
    local result = run("--", "info")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("cannot open info", 1, true))
  end)

  it("passes os.exit through", function()
    assert.equal(7, run("-e", "os.exit(7)").code)
  end)

  it("keeps the decimal point whatever the locale says", function()
    local result = program.run({ "-e", "print(0.5 + tonumber('0.25'))" }, { env = "LC_ALL=de_DE.UTF-8" })
    assert.equal("0.75\n", result.out)
  end)
end)

describe("byte code given as a script", function()
  it("is refused, since crafted byte code can crash the machine", function()
    program.with_script(string.dump(loadstring("print('ran')")), function(path)
      for _, result in ipairs({ run(path), program.shell(program.fa4 .. " - < " .. path) }) do
        assert.equal(1, result.code)
        assert.equal("", result.out)
        assert.truthy(result.err:find("byte code", 1, true))
      end
    end)
  end)
end)

describe("an error in a script", function()
  it("exits 1 with file, line, message and traceback on standard error", function()
    program.with_script("local function inner()\n  local nothing\n  return nothing.field\nend\nprint('before')\ninner()\n", function(path)
      local result = run(path)
      assert.equal(1, result.code)
      assert.equal("before\n", result.out)
      assert.truthy(result.err:find(path .. ":3: attempt to index", 1, true))
      assert.truthy(result.err:find("stack traceback:", 1, true))
      assert.truthy(result.err:find(path .. ":6: in main chunk", 1, true))
    end)
  end)

  it("names file and line of a syntax error", function()
    program.with_script("print(1)\nlocal = 2\n", function(path)
      local result = run(path)
      assert.equal(1, result.code)
      assert.equal("", result.out)
      assert.truthy(result.err:find(path .. ":2:", 1, true))
    end)
  end)

  it("shows error objects by their own words, and others by type", function()
    local words = run("-e", "error(setmetatable({}, {__tostring = function() return 'own words' end}))")
    assert.equal(1, words.code)
    assert.truthy(words.err:find("own words", 1, true))
    assert.truthy(run("-e", "error({})").err:find("a table", 1, true))
    assert.equal(1, run("-e", "error()").code)
  end)

  it("exits 3 when a device is needed but absent", function()
    local result = run("-e", "error(setmetatable({kind = 'device'}, {__tostring = function() return 'cuda: no driver' end}))")
    assert.equal(3, result.code)
    assert.truthy(result.err:find("cuda: no driver", 1, true))
  end)

  it("names the script's line when attention is asked for five query heads on two key heads", function()
    local script = 'local fa4 = require "fa4"\nlocal q, k = fa4.randn{1, 4, 5, 8}, fa4.randn{1, 4, 2, 8}\nfa4.attention()(q, k, k)\n'
    program.with_script(script, function(path)
      local result = run(path)
      assert.equal(1, result.code)
      assert.equal("", result.out)
      assert.truthy(result.err:find(path .. ":3: ", 1, true), result.err)
      assert.truthy(result.err:find("5", 1, true) and result.err:find("2", 1, true))
      assert.truthy(result.err:find("stack traceback:", 1, true))
    end)
  end)

  it("exits 3 when attention is asked for a GPU that is not there", function()
    local result = run("-e", "fa4.attention{device = 'cuda:63'}")
    assert.equal(3, result.code)
    assert.truthy(result.err:find("cuda", 1, true))
  end)

  it("exits 1 for a missing script or module, naming it", function()
    local script, module = run("/nowhere/script.lua"), run("-l", "no_such_module")
    assert.equal(1, script.code)
    assert.truthy(script.err:find("/nowhere/script.lua", 1, true))
    assert.equal(1, module.code)
    assert.truthy(module.err:find("no_such_module", 1, true))
  end)

  it("survives endless recursion with one readable error", function()
    local result = run("-e", "local function f() return 1 + f() end f()")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("stack overflow", 1, true))
  end)
end)

describe("output", function()
  it("that cannot be written makes the exit status 1", function()
    local result = program.shell(program.fa4 .. " -e 'io.write(string.rep(\"x\", 100000))' > /dev/full")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("standard output", 1, true))
  end)

  it("to a reader that went away ends quietly", function()
    local result = program.shell(program.fa4 .. " -e 'for i = 1, 1e6 do print(i) end' | head -n 1", { seconds = 10 })
    assert.equal("1\n", result.out)
    assert.equal("", result.err)
  end)
end)

describe("the environment", function()
  it("sets the threads: FA4_NUM_THREADS, else what affinity allows", function()
    assert.truthy(program.run({ "info" }, { env = "FA4_NUM_THREADS=3" }).out:find("3 threads", 1, true))
    assert.truthy(program.shell("env -u FA4_NUM_THREADS taskset -c 0 " .. program.fa4 .. " info").out:find("1 threads", 1, true))
  end)

  it("sets the instruction set, and names those there are for a wrong one", function()
    assert.truthy(program.run({ "info" }, { env = "FA4_CPU=scalar" }).out:find("instruction set scalar", 1, true))
    local wrong = program.run({ "info" }, { env = "FA4_CPU=mmx" })
    assert.is_true(wrong.code ~= 0)
    assert.truthy(wrong.err:find("mmx", 1, true) and wrong.err:find("scalar", 1, true), wrong.err)
  end)

  it("sets how much is logged, on standard error", function()
    local code = "local q = fa4.randn{1, 8, 1, 8} fa4.attention{device = 'cpu'}(q, q, q)"
    assert.equal("", run("-e", code).err)
    local info = program.run({ "-e", code }, { env = "FA4_LOG=info" })
    assert.equal("", info.out)
    assert.truthy(info.err:find("^fa4: info: attention on cpu"))
    assert.truthy(program.run({ "-e", code }, { env = "FA4_LOG=debug" }).err:find("fa4: debug: ", 1, true))
    assert.truthy(program.run({ "-e", code }, { env = "FA4_LOG=loud" }).err:find("expected error, warn, info or debug", 1, true))
  end)

  it("turns colour on and off, the option before the variables", function()
    local code = "io.write(require('fa4.color').paint(1, 'red', 'x'))"
    assert.equal("x", run("-e", code).out)
    assert.equal("\27[31mx\27[0m", run("--color=always", "-e", code).out)
    assert.equal("\27[31mx\27[0m", program.run({ "--color=always", "-e", code }, { env = "NO_COLOR=1" }).out)
    assert.equal("x", program.run({ "--color=never", "-e", code }, { env = "FORCE_COLOR=1" }).out)
    assert.equal("x", program.run({ "-e", code }, { env = "NO_COLOR=1 FORCE_COLOR=1" }).out)
  end)
end)

describe("fa4 info", function()
  it("says what each thing that is missing would enable", function()
    local words = program.run({ "info" }, { env = "FA4_LIBCUDA=/nowhere/libcuda.so FA4_NVRTC=/nowhere" }).out:gsub("%s+", " ")
    assert.truthy(words:find("cuda not usable: [^\n]*/nowhere/libcuda.so[^\n]*It would give: the kernels on a Hopper or Blackwell GPU"), words)
    assert.truthy(words:find("compiler none[^\n]*/nowhere[^\n]*It would give: every variant of the kernels"), words)
  end)

  it("names what is there, and for what is absent why, within 80 columns", function()
    local result = run("info")
    assert.equal(0, result.code, result.err)
    for _, word in ipairs({ "fa4 %d", "cpu", "instruction set", "threads", "cuda" }) do
      assert.truthy(result.out:find(word), word)
    end
    for line in result.out:gmatch("[^\n]+") do
      assert.is_true(#line <= 80, line)
    end
    assert.equal(2, run("info", "extra").code)
  end)
end)

describe("a signal", function()
  -- The script says that it runs by writing a line; the shell then sends the signal.
  local function signalled(code, signals)
    return program.shell(([[
      fifo=$(mktemp -u); mkfifo "$fifo"
      %s -e %s > "$fifo" & child=$!
      read line < "$fifo"
      for name in %s; do kill -$name $child; sleep 0.2; done
      wait $child; status=$?
      rm -f "$fifo"
      exit $status]]):format(program.fa4, program.quote(code), signals), { seconds = 20 })
  end

  it("SIGINT stops an interpreted loop with 130", function()
    local result = signalled("jit.off() print('ready') io.stdout:flush() while true do end", "INT")
    assert.equal(130, result.code)
    assert.truthy(result.err:find("interrupted", 1, true))
  end)

  it("SIGINT is not swallowed by a pcall in a loop", function()
    local code = "jit.off() print('ready') io.stdout:flush() while true do pcall(function() while true do end end) end"
    assert.equal(130, signalled(code, "INT").code)
  end)

  it("SIGINT a second time ends a compiled loop with 130", function()
    assert.equal(130, signalled("print('ready') io.stdout:flush() while true do end", "INT INT").code)
  end)

  it("SIGTERM ends with 143", function()
    assert.equal(143, signalled("print('ready') io.stdout:flush() while true do end", "TERM").code)
  end)
end)

describe("modules", function()
  it("of the library come out of the executable, whatever the working directory", function()
    local fa4 = program.shell("realpath " .. program.fa4).out:match("[^\n]+")
    local result = program.shell("cd / && " .. fa4 .. " -e 'print(debug.getinfo(require(\"fa4.show\").value, \"S\").source)'")
    assert.equal("@fa4/show.lua\n", result.out)
    assert.equal("", result.err)
  end)

  it("written in C find lua_* in the executable", function()
    local result = run("-e", "print(type(require('lfs').attributes))")
    assert.equal("function\n", result.out)
  end)
end)

describe("fa4 test", function()
  it("runs busted inside the executable and reports a failure by its exit status", function()
    local path = os.tmpname() .. "_spec.lua"
    program.write(path, "describe('x', function() it('holds', function() assert.truthy(require 'fa4.host') end) end)")
    local good = run("test", "-o", "plainTerminal", path)
    program.write(path, "describe('x', function() it('fails', function() assert.equal(1, 2) end) end)")
    local bad = run("test", "-o", "plainTerminal", path)
    os.remove(path)
    assert.equal(0, good.code, good.out .. good.err)
    assert.truthy(good.out:find("1 success", 1, true))
    assert.equal(1, bad.code)
    assert.falsy(bad.err:find("traceback", 1, true))
  end)

  it("names the package when busted is not there", function()
    local result = run("-e", "package.path, package.cpath = '', ''", "test")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("lua-busted", 1, true))
  end)
end)
