-- Writes the CUDA source of every probe to standard output, one section each (probe.h says how a section begins).
-- Usage: fa4 spec/probes/generate.lua > probes.cu.txt, in the folder of the sources; then tests/probe_compile.

local folder = (arg and arg[0] or ""):match("^(.*)/[^/]*$") or "spec/probes"
package.path = folder .. "/?.lua;" .. package.path

local PRELUDE = [[
typedef unsigned u32; typedef unsigned long long u64; typedef unsigned short u16; typedef unsigned char u8;
struct alignas(64) Map { u64 words[16]; };
extern __shared__ __align__(1024) u8 smem[];
static __device__ __forceinline__ u32 shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void init(u32 bar, u32 count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory"); }
static __device__ __forceinline__ void expect(u32 bar, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory"); }
static __device__ __forceinline__ void arrive(u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(bar) : "memory"); }
static __device__ __forceinline__ bool done(u32 bar, u32 parity) { u32 r; asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(bar), "r"(parity) : "memory"); return r; }
static __device__ __forceinline__ void wait(u32 bar, u32 parity) { while (!done(bar, parity)) {} }
static __device__ __forceinline__ void async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#define TID (threadIdx.x)
#define I (blockIdx.x * blockDim.x + threadIdx.x)
]]

local CLASS = { f32 = "r", b32 = "r", count = "r", f16x2 = "r", bf16x2 = "r", index = "r", half = "h", whole = "r", angle = "r",
  f16 = "h", bf16 = "h", b16 = "h", f64 = "l", b64 = "l" }
local CTYPE = { r = "u32", h = "u16", l = "u64", p = "u32" }
local BYTES = { r = 4, h = 4, l = 8, p = 4 }

-- Texts of what the kernels need are made when a kernel is used, so that PTX holds no unused function.
local kit = { count = 0 }

local function header(name, keys, forms)
  local parts = { "//# " .. name }
  local names = {}
  for key in pairs(keys) do names[#names + 1] = key end
  table.sort(names)
  for _, key in ipairs(names) do parts[#parts + 1] = key .. "=" .. tostring(keys[key]) end
  io.write(table.concat(parts, " "), "\n")
  for _, form in ipairs(forms) do io.write("//: ", form, "\n") end
  kit.count = kit.count + 1
end

local function rounded(n) return math.floor((n + 255) / 256) * 256 end

-- One instruction of a form: operands are appended where the form names none; $p is a predicate that becomes 0 or 1.
local function instruction(form, class, inputs)
  local text = form
  if not text:find("%$") then
    local operands = { class == "p" and "$p" or "$d" }
    for i = 1, inputs do operands[#operands + 1] = "$" .. ("abce"):sub(i, i) end
    text = text .. " " .. table.concat(operands, ", ") .. ";"
  end
  if text:find("%$p") then
    text = "{ .reg .pred p; " .. text:gsub("%$p", "p") .. " selp.b32 $d, 1, 0, p; }"
  end
  text = text:gsub("%%", "%%%%")
  for i, letter in ipairs({ "d", "a", "b", "c", "e" }) do text = text:gsub("%$" .. letter, "%%" .. (i - 1)) end
  return text
end

--- A probe of one element per thread.
-- @tparam string name
-- @tparam {string,...} kinds of inputs
-- @tparam string class of the result: r 32 bits, h 16, l 64, p predicate
-- @tparam {string,...} forms
-- @tparam[opt] table keys of the section
function kit.alu(name, kinds, class, forms, keys)
  local all = { ["in"] = table.concat(kinds, ","), width = BYTES[class] }
  for key, value in pairs(keys or {}) do all[key] = value end
  local n = all.n or 4096
  all.grid = n / 128
  header(name, all, forms)
  io.write(PRELUDE, 'extern "C" __global__ void probe(const u8 *in, u8 *out) {\n')
  local offset = 0
  for i, kind in ipairs(kinds) do
    local wide = CLASS[kind] == "l"
    io.write(("    %s %s = (%s)((const %s *)(in + %d))[I];\n"):format(CTYPE[CLASS[kind]], ("abce"):sub(i, i), CTYPE[CLASS[kind]], wide and "u64" or "u32", offset))
    offset = offset + rounded(n * (wide and 8 or 4))
  end
  for i, form in ipairs(forms) do
    local inputs = {}
    for k, kind in ipairs(kinds) do inputs[k] = ('"%s"(%s)'):format(CLASS[kind], ("abce"):sub(k, k)) end
    io.write(("    { %s d; asm volatile(\"%s\" : \"=%s\"(d) : %s); ((%s *)(out + %d))[I] = d; }\n"):format(CTYPE[class],
      instruction(form, class, #kinds), class == "p" and "r" or class, table.concat(inputs, ", "), BYTES[class] == 8 and "u64" or "u32",
      (i - 1) * n * BYTES[class]))
  end
  io.write("}\n")
end

--- A probe with a body of its own: `in`, `out` and the tensor maps map0, map1 are in scope.
-- @tparam string name
-- @tparam table keys of the section
-- @tparam {string,...} forms names of the results, in order of `out`
-- @tparam string body in CUDA C++
-- @tparam[opt] string before text before the kernel
-- @tparam[opt] string bounds such as __launch_bounds__(128)
function kit.own(name, keys, forms, body, before, bounds)
  if type(before) ~= "string" then before = nil end -- the count of a substitution in `body`
  header(name, keys, forms)
  io.write(PRELUDE, before or "", '\nextern "C" __global__ void ', bounds or "", " probe(")
  for i = 0, 1 do
    if keys["map" .. i] then io.write("const __grid_constant__ Map map", i, ", ") end
  end
  io.write("const u8 *in, u8 *out) {\n", body, "\n}\n")
end

for _, name in ipairs({ "arithmetic", "bits", "convert", "warps", "memory", "barriers", "copies", "matrices" }) do
  local ok, module = pcall(require, name)
  if not ok then error(module, 0) end
  module(kit)
end
io.stderr:write(kit.count, " probes\n")
