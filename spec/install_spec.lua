--- An install tree as others use it: a C program through CMake and through pkg-config, and plain LuaJIT.
local program = require "spec.support.program"

local prefix, top

describe("an install tree", function()
  setup(function()
    prefix = program.shell("mktemp -d").out:match("[^\n]+")
    top = program.shell("pwd").out:match("[^\n]+")
    local result = program.shell(("cmake --install build --prefix %s/fa4"):format(prefix))
    assert.equal(0, result.code, result.err)
  end)

  teardown(function()
    program.shell("rm -rf " .. program.quote(prefix))
  end)

  -- The build tree's own library must not be what is found.
  local function outside(command)
    return program.shell(("cd / && env -u LD_LIBRARY_PATH -u FA4_LIBRARY -u LUA_PATH PREFIX=%s/fa4 %s"):format(prefix, command), { seconds = 120 })
  end

  local function data()
    return top .. "/scripts/data/real_qkv.safetensors"
  end

  it("gives a CMake project fa4::fa4 and fa4::fa4_static, with the right answer on real data", function()
    local build = program.shell(([[
      cmake -S spec/install -B %s/consumer -DCMAKE_PREFIX_PATH=%s/fa4 -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" &&
      cmake --build %s/consumer]]):format(prefix, prefix, prefix), { seconds = 120 })
    assert.equal(0, build.code, build.out .. build.err)
    for _, name in ipairs({ "consumer", "consumer_static" }) do
      local result = outside(("%s/consumer/%s %s"):format(prefix, name, data()))
      assert.equal(0, result.code, result.out .. result.err)
      assert.truthy(result.out:find(": 0 differences", 1, true))
    end
  end)

  it("is found by pkg-config wherever it was moved", function()
    assert.equal(0, program.shell(("mv %s/fa4 %s/moved && cp -r %s/moved %s/fa4"):format(prefix, prefix, prefix, prefix)).code)
    local result = program.shell(([[
      export PKG_CONFIG_PATH=$(dirname $(find %s/moved -name fa4.pc)) &&
      cc -o %s/plain spec/install/consumer.c $(pkg-config --cflags --libs fa4) -lm -Wl,-rpath,$(pkg-config --variable=libdir fa4) &&
      ldd %s/plain]]):format(prefix, prefix, prefix))
    assert.equal(0, result.code, result.err)
    assert.truthy(result.out:find(prefix .. "/moved", 1, true), result.out)
    local run = outside(prefix .. "/plain " .. data())
    assert.equal(0, run.code, run.out .. run.err)
  end)

  it("lets plain LuaJIT require fa4 from / without LD_LIBRARY_PATH", function()
    local result = outside(("sh -c 'LUA_PATH=\"$PREFIX/share/lua/5.1/?.lua;$PREFIX/share/lua/5.1/?/init.lua;;\" luajit %s/spec/install/consumer.lua %s'")
      :format(top, data()))
    assert.equal(0, result.code, result.out .. result.err)
    assert.truthy(result.out:find("\t2465\ttrue\n", 1, true), result.out)
  end)

  it("has an executable that needs none of its neighbours", function()
    local result = program.shell(("cp %s/fa4/bin/fa4 %s/alone && cd / && %s/alone -e 'print(fa4.version())'"):format(prefix, prefix, prefix))
    assert.equal(0, result.code, result.err)
    assert.truthy(result.out:find("^%d+%.%d+%.%d+\n$"))
  end)

  it("has a shared library that exports fa4_ names alone and never unloads", function()
    local library = program.shell(("find %s/fa4 -name libfa4.so"):format(prefix)).out:match("[^\n]+")
    local names = program.shell("nm -D --defined-only " .. library .. " | awk '{print $3}'").out
    assert.truthy(names:find("fa4_version", 1, true))
    for name in names:gmatch("[^\n]+") do
      assert.truthy(name:find("^fa4_"), name)
    end
    local dynamic = program.shell("readelf -d " .. library).out
    assert.truthy(dynamic:find("SONAME[^\n]*libfa4%.so%.0"))
    assert.truthy(dynamic:find("NODELETE", 1, true))
  end)

  -- What sanitizers make of sizes says nothing: tests of weight are for plain builds.
  it("has an executable below 5 MB stripped, without the catalogue of kernels #weight", function()
    local result = program.shell(("strip -o %s/stripped %s/fa4/bin/fa4 && stat -c %%s %s/stripped"):format(prefix, prefix, prefix))
    local catalogue = tonumber(program.shell(("stat -c %%s %s/catalogue.bin"):format(program.build)).out) or 0
    assert.is_true(tonumber(result.out) - catalogue < 5e6, ("%s of them %d catalogue"):format(result.out, catalogue))
  end)

  it("has a library below 12 MB with that catalogue #weight", function()
    local library = program.shell(("stat -L -c %%s $(find %s/fa4 -name libfa4.so)"):format(prefix)).out
    assert.is_true(tonumber(library) < 12e6, library)
  end)
end)
