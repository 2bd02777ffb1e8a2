local program = require "spec.support.program"

-- A script of scripts/, run by the executable from another folder, so that it must find its data beside itself.
local function run(name, arguments, options)
  local here = program.shell("pwd").out:gsub("%s+$", "")
  local words = {"cd / && exec", program.quote(here .. "/" .. program.fa4), program.quote(here .. "/scripts/" .. name)}
  if program.fa4:sub(1, 1) == "/" then words[2] = program.quote(program.fa4) end
  for _, argument in ipairs(arguments or {}) do words[#words + 1] = program.quote(argument) end
  local result = program.shell(table.concat(words, " "), options)
  -- Whatever a script says is readable on a terminal of 80 columns.
  local columns, line = program.widest(result.out)
  assert.is_true(columns <= 80, ("%s: %d columns: %s"):format(name, columns, line))
  return result
end

describe("the experiment", function()
  it("shows how rescaling falls with the threshold, every row passing, and writes what it is asked to", function()
    local base = os.tmpname()
    local result = run("experiment.lua", {"--quick", "--json", base .. ".json", "--csv", base .. ".csv", "--svg=" .. base .. ".svg"},
      {seconds = 120})
    assert.equal(0, result.code, result.err)
    assert.is_truthy(result.out:find("PASS: 8 rows", 1, true), result.out)
    assert.is_nil(result.out:find("FAIL", 1, true))
    assert.is_truthy(result.out:find("rescale threshold (log2 units)", 1, true))
    assert.equal("", result.err)
    local text, counts = program.read(base .. ".json"), {}
    for threshold, rows in text:gmatch('"real_qkv".-"threshold": (%d+).-"rescaled_rows": (%d+)') do
      counts[tonumber(threshold)] = tonumber(rows)
    end
    assert.same({[0] = 9718, [8] = 2465, [15] = 1451}, counts)
    assert.is_truthy(program.read(base .. ".csv"):find("^input,device,threshold"))
    assert.is_truthy(program.read(base .. ".svg"):find("</svg>", 1, true))
    for _, ending in ipairs{"", ".json", ".csv", ".svg"} do os.remove(base .. ending) end
  end)

  it("explains its options, and refuses others with status 2", function()
    assert.is_truthy(run("experiment.lua", {"--help"}).out:find("--sharpness", 1, true))
    for _, arguments in ipairs{{"--nonsense"}, {"--json"}, {"--sharpness", "x"}} do
      local result = run("experiment.lua", arguments)
      assert.equal(2, result.code)
      assert.is_truthy(result.err:find("usage:", 1, true))
    end
  end)

  it("exits 3 for an absent device and 1 for a missing file", function()
    assert.equal(3, run("experiment.lua", {"--quick", "--device", "cuda:99"}).code)
    local missing = run("experiment.lua", {"--quick", "--input", "/no/such.safetensors"})
    assert.equal(1, missing.code)
    assert.is_truthy(missing.err:find("/no/such.safetensors", 1, true))
  end)
end)

describe("the exercises", function()
  local out

  setup(function()
    local result = run("exercises.lua")
    assert.equal(0, result.code, result.err)
    out = result.out
  end)

  -- Worked out by hand, from the chapter's formulas and settings.
  local function says(...)
    local words = out:gsub("\n  +", "\n"):gsub("%s+", " ")
    for _, text in ipairs{...} do assert.is_truthy(words:find((text:gsub("%s+", " ")), 1, true), text .. "\n" .. out) end
  end

  it("1: keep the reference for a rise of 3, move it for a rise of 9", function()
    -- 2^(5-2) = 8 and 2^(4-2) = 4; 3 + 12 = 15; O = {4 + 8, 6 + 4}.
    says("candidate_max 5, delta -3, new_ref 2, acc_scale 1\n", "P = {8, 4}, row_sum 15, O = {12, 10}")
    -- 2^-9 = 0.001953125; 3 * 2^-9 + 1.5 = 1.505859375; 4 * 2^-9 + 1 = 1.0078125; 6 * 2^-9 + 0.5 = 0.51171875.
    says("candidate_max 11, delta -9, new_ref 11, acc_scale 0.001953125\n",
      "P = {1, 0.5}, row_sum 1.505859375, O = {1.0078125, 0.51171875}")
  end)

  it("2: name four paths, of which three have no counterpart in a GEMM kernel", function()
    says("S = Q K^T", "P = exp2(S - r)", "O += P V", "O / row_sum", "tcgen05.ld", "cp.async.bulk.tensor")
    local _, new = out:gsub("; new\n", "")
    assert.equal(3, new)
  end)

  it("3: put P over the upper half of S", function()
    -- A 16-bit column c is half of 32-bit column c / 2: P0 is 16-bit columns 128..255.
    says("S0  columns   0 to 127, overlaps P0", "P0  columns  64 to 127, overlaps S0", "S1  columns 128 to 255, overlaps P1",
      "P1  columns 192 to 255, overlaps S1", "O0  columns 256 to 383\n", "O1  columns 384 to 511\n")
  end)

  it("4: count 256 arrivals at p_o_rescale, and split P in 96 + 32 or 64 + 64", function()
    says("p_o_rescale     2 copies; arrivals softmax and correction, 256 in all; waiting mma", "96 + 32", "64 + 64",
      "p_ready_2       2 copies; arrivals softmax, 128 in all; waiting mma",
      "s_ready         2 copies; arrivals mma, 1 in all; waiting softmax")
  end)

  it("5: spend 65,536 registers where equal shares would take 102,400", function()
    says("together 65536, an SM has 65536; all threads with the largest share: 102400",
      "128 threads x 200 = 25600", "128 threads x 64 = 8192", "128 threads x 48 = 6144")
  end)

  it("6: move exponentials from MUFU to FMA without another rescale", function()
    -- 2 heads x 4 tiles x 4 blocks x 128 x 128 = 524288; fragments 1 and 2 of 4 may, so 2 pairs of 8 are 1/4 of a half.
    says("0 of 8 pairs: 524288 exponentials by MUFU, 0 by FMA", "2 of 8 pairs: 458752 exponentials by MUFU, 65536 by FMA")
    local first = out:match("0 of 8 pairs.-rescaled rows (%d+)")
    for count in out:gmatch("of 8 pairs.-rescaled rows (%d+)") do assert.equal(first, count) end
  end)

  it("7: see keys up to 2 and 7", function()
    says("query 0 sees keys up to 2; blocks of 4 keys: block 0 partial, block 1 skipped",
      "query 5 sees keys up to 7; blocks of 4 keys: block 0 full, block 1 full")
  end)

  it("8: pack 32 positions of 4 heads", function()
    says("group 4, 32 query positions a tile", "packed row   0: position 0, query head 12", "packed row   5: position 1, query head 13",
      "packed row 127: position 31, query head 15")
  end)

  it("can be asked for one at a time", function()
    assert.is_truthy(run("exercises.lua", {"8"}).out:find("^Exercise 8\n"))
    assert.equal(2, run("exercises.lua", {"9"}).code)
    assert.equal(0, run("exercises.lua", {"--help"}).code)
  end)
end)

describe("the reference page", function()
  it("has every field of the schema and every public function", function()
    local out = run("reference.lua").out
    local fa4 = require "fa4"
    for _, field in ipairs(fa4.config.fields) do
      assert.is_truthy(out:find(("\n### %s\n\n```\nconfig field %s: "):format(field.name, field.name), 1, true), field.name)
    end
    for name in pairs(getmetatable(fa4).methods) do
      assert.is_truthy(out:find("\n### fa4." .. name .. "\n", 1, true), name .. " has no documentation")
    end
    assert.is_truthy(out:find("\n### tensor:permute\n", 1, true))
    assert.equal(2, run("reference.lua", {"x"}).code)
  end)
end)

describe("the conformance test", function()
  it("prints a line a case with its error, and a total", function()
    local result = run("validate.lua", {"--suite", "dtypes", "--suite", "numbers"})
    assert.equal(0, result.code, result.out .. result.err)
    assert.is_truthy(result.out:find("\n19 passed, 0 failed\n", 1, true), result.out)
    assert.is_truthy(result.out:find("error  ratio  bound      LSE  dtypes\n", 1, true))
    for line in result.out:gmatch("PASS[^\n]*") do
      assert.is_truthy(line:find("^PASS  %d%.%d%de[+-]%d+  %d%.%d%d%d  %d%.%d%d%d  %d%.%de[+-]%d+  %w"), line)
    end
  end)

  it("lists its suites, and refuses others", function()
    assert.equal("shapes\ndtypes\nheads\nmasks\nrescaling\nnumbers\n", run("validate.lua", {"--list"}).out)
    assert.equal(2, run("validate.lua", {"--suite", "nothing"}).code)
    assert.is_truthy(run("validate.lua", {"--help"}).out:find("--device", 1, true))
  end)
end)

describe("the benchmark", function()
  it("measures against the peak of the same run and writes rows with stable keys", function()
    local path = os.tmpname()
    assert.is_truthy(run("bench.lua", {"--help"}).out:find("--rounds", 1, true))
    for _, arguments in ipairs{{"--rounds", "0"}, {"--threads", "two"}, {"--dim", "64,,128"}, {"--dtype", "f8"}, {"--threads", "5000"},
      {"--quick=1"}, {"--json"}} do
      local refused = run("bench.lua", arguments)
      assert.equal(2, refused.code, refused.err)
      assert.is_truthy(refused.err:find("^bench: %-%-") and refused.err:find("usage:", 1, true), refused.err)
    end
    local result = run("bench.lua", {"--rounds", "1", "--dtype", "f32,f16", "--dim", "64", "--length", "256", "--heads", "2,1",
      "--json", path})
    assert.equal(0, result.code, result.err)
    assert.is_truthy(result.out:find("f32 FMA peak of 1 thread", 1, true))
    local text = program.read(path)
    os.remove(path)
    local _, rows = text:gsub('{"device": "cpu %([%w_]+%)", "dtype": "f%d+", "dim": 64, "length": 256, "heads_q": 2, "heads_kv": 1, '
      .. '"batch": 1, "mask": "%l+", "threads": 1, "tflops": [%d.e-]+, "share_of_peak": [%d.e-]+, "peer": null, '
      .. '"peer_tflops": null, "ratio": null}', "")
    assert.equal(4, rows, text)
  end)
end)

describe("the benchmark beside peers", function()
  it("turns the lines of the timing program into tables of 80 columns and rows with stable keys", function()
    local path, here = os.tmpname(), program.shell("pwd").out:gsub("%s+$", "")
    local result = run("bench.lua", {"--device", "cuda", "--peers", "--python", "sh " .. here .. "/spec/support/fake_peers.sh", "--json", path})
    assert.equal(0, result.code, result.err)
    for line in result.out:gmatch("[^\n]+") do assert.is_true(#line <= 80, line) end
    assert.is_truthy(result.out:find("FA4 is missing: flash_attn.cute", 1, true))
    assert.is_truthy(result.out:find("bf16  128  16384  64/8 causal  690.0  650.0  600.0      -  575.0  1.150 1560", 1, true), result.out)
    assert.is_truthy(result.out:find("rising      full    660.0  600.0      -      -  550.0  1.200", 1, true), result.out)
    assert.is_truthy(result.out:find("131072    32   3600   3400   3000      -      -  0.900", 1, true), result.out)
    assert.is_truthy(result.out:find("rising: each: the output changed while it was timed", 1, true))
    local text = program.read(path)
    os.remove(path)
    local _, rows = text:gsub('{"device": "cuda", "dtype": "bf16", "dim": 128, "length": %d+, "heads_q": %d+, "heads_kv": %d+, "batch": %d+, '
      .. '"mask": "%l+", "threads": null, "tflops": [%d.]+, "share_of_peak": null, "peer": "[%w]+", "peer_tflops": [%d.]+, "ratio": [%d.]+, ', "")
    assert.equal(8, rows, text)
  end)

  it("says so when nothing could be timed", function()
    local result = run("bench.lua", {"--device", "cuda", "--peers", "--python", "echo note torch is missing #"})
    assert.equal(1, result.code)
    assert.is_truthy(result.out:find("torch is missing", 1, true))
  end)
end)

describe("the count of instructions", function()
  it("refuses arguments that it does not know", function()
    assert.equal(2, run("instructions.lua", {"some"}).code)
    assert.equal(0, run("instructions.lua", {"--help"}).code)
  end)

  it("prints every role's on the emulator, with and without machine code", function()
    local result = run("instructions.lua", {}, {seconds = 120})
    assert.equal(0, result.code, result.err)
    if result.out:find("NVRTC", 1, true) and not result.out:find("\nfull ") then pending("no kernel can be had here") end
    for _, name in ipairs{"full", "full, every block rescaled", "max%-free", "causal"} do
      local softmax, correction = result.out:match("\n" .. name .. " +(%d+) +(%d+) ")
      assert.is_true(tonumber(softmax) > 500 and tonumber(correction) > 100, result.out)
    end
    assert.is_true(program.widest(result.out) <= 80)
  end)
end)

describe("the tour", function()
  it("refuses arguments that it does not know", function()
    assert.equal(2, run("fa4_tour.lua", {"two"}).code)
    assert.equal(0, run("fa4_tour.lua", {"--help"}).code)
  end)

  it("tells a tile's story barrier by barrier, from the kernel's own tables and memories", function()
    local result = run("fa4_tour.lua", {"1"}, {seconds = 120})
    if result.out == "" and result.err:find("NVRTC", 1, true) then pending("no kernel can be compiled here: " .. result.err) end
    assert.equal(0, result.code, result.err)
    local last = 0
    for _, part in ipairs{"S1               128      128", "q_load.full[0]", "s_ready[0]", "S0 row 5", "p_o_rescale[0]", "o_ready[0]",
      "corr_epi.full[0]", "PASS"} do
      local at = result.out:find(part, last + 1, true)
      assert.is_truthy(at, part .. " is missing or early in\n" .. result.out)
      last = at
    end
  end)
end)
