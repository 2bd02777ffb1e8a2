-- luajit scripts/mutants.lua [NAME-PATTERN | --places]: breaks the engine in known places, one at a time, in a copy of the tree, and runs the C
-- tests that should notice. A mutant that no test notices is a failure. Ends with "N passed, N failed". --places only looks whether each
-- text to be broken is there once.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local top, work = here .. "/..", here .. "/../build-mutants"
local only_places = arg[1] == "--places"
local pattern = not only_places and arg[1] or "."

-- Ways to misread the ISA that code of others must show, and our own kernel too: where the peers' PTX is at hand (FA4_PEER_PTX), theirs first.
local PEERS = {"emu_sm100_test"}
if os.getenv("FA4_PEER_PTX") then PEERS = {"emu_peer_test tirx_fa4_s256_h2kv2", "emu_peer_test cute_fp16_nc", "emu_sm100_test"} end

-- name, file, text that occurs once, what it becomes, tests ("name arguments") of which one must fail, true: each of them must
local mutants = {
  {"causal mask off by one", "engine/plan/mask.c", "clip(p, 0, d + 1, lo, hi)", "clip(p, 0, d + 2, lo, hi)", {"plan_test"}},
  {"window side off by one", "engine/plan/mask.c", "d + window_side(node->right) + 1", "d + window_side(node->right)", {"plan_test"}},
  {"prefix forgets the diagonal", "engine/plan/mask.c", "plan_max(node->length, d + 1)", "node->length", {"plan_test"}},
  {"documents end early", "engine/plan/mask.c", "last[d] + 1 : 0", "last[d] : 0", {"plan_test"}},
  {"union of intervals with a gap", "engine/plan/mask.c", "other.lo[i] > into.hi[i] || into.lo[i] > other.hi[i]", "false", {"plan_test"}},
  {"tail keys are visible", "engine/plan/mask.c", "~UINT64_C(0)) & exists[w]", "~UINT64_C(0))", {"plan_test"}},
  {"a partial block counts as full", "engine/plan/blocks.c", "parts->row_hi[i] >= end;", "parts->row_hi[i] >= end - 1;", {"plan_test"}},
  {"a visible block is skipped", "engine/plan/blocks.c", "t->hi_max <= start) return", "t->hi_max <= start + 1) return", {"plan_test"}},
  {"heads of a group share per-head bits", "engine/plan/blocks.c", "p->mask[n].per_head) return true;", "p->mask[n].per_head) return false;", {"plan_test"}},
  {"bit tiles found by hash alone", "engine/plan/blocks.c", "words, PLAN_BIT_TILE_WORDS * 4) == 0", "words, 16) == 0", {"plan_test", "generated_test 200"}},
  {"keys are visited forward", "engine/plan/blocks.c", "reverse(blocks + (sink ? 1 : 0)", "if (sink) reverse(blocks + (sink ? 1 : 0)", {"plan_test"}},
  {"steps count the first block", "engine/plan/count.c", "- count * s / splits - 1, 0)", "- count * s / splits, 0)", {"plan_test"}},
  {"an order may repeat a task", "engine/plan/plan.c", "seen[order[i]] = 1;", "seen[order[i]] = 0;", {"plan_test"}},
  {"the threshold may pass f16's range", "engine/plan/schedule.c", "p->dtype == FA4_F16 ? 15 : 100", "100", {"plan_test"}},
  {"packed rows read the wrong head", "engine/plan/plan.h", "head * h->group + row % h->group", "head * h->group + row / h->group % h->group", {"cpu_test", "generated_test 100"}},
  {"the wrong key head", "engine/cpu/tile_template.h", "h->packed ? t->task->head : t->task->head / h->group", "h->packed ? t->task->head : t->task->head % h->problem.heads_kv", {"cpu_test", "api_test"}},
  {"a dropped rescale of O", "engine/cpu/tile_softmax.h", "scale_row(t, row, (float)(before - exact_reference(t->job, t->rows, row)));", "(void)before;", {"api_test"}},
  {"the sum is not rescaled", "engine/cpu/tile_softmax.h", "t->rows->sum[row] *= factor;", "", {"api_test"}},
  {"rescale at the threshold itself", "engine/cpu/tile_softmax.h", "if (delta > job->threshold)", "if (delta > job->threshold + 0.01f)", {"api_test"}},
  {"a moved reference is not counted", "engine/cpu/tile_softmax.h", "counters[t->task->head].rescaled_rows++", "counters[t->task->head].rescaled_rows += row != 5", {"api_test"}},
  {"warps counted of 16 rows", "engine/cpu/tile_softmax.h", "t->moved |= 1u << (row / 32)", "t->moved |= 1u << (row / 16)", {"api_test"}},
  {"the reference of a row without keys is used", "engine/cpu/tile_softmax.h", "log2 == -INFINITY ? 0.0f : -log2, kind", "-log2, kind", {"api_test"}},
  {"hidden scores stay", "engine/cpu/tile_softmax.h", "if (t->view.partial) hide_row(&t->view, row, s, c0, c1);", "", {"api_test"}},
  {"stale P beside the row's keys", "engine/cpu/tile_softmax.h", "if (c0 < c1) zero_weights(s, c1, hi, kind);", "", {"api_test", "cpu_test", "generated_test 100"}},
  {"a fix-up forgets the sum", "engine/cpu/tile_softmax.h", "return (weights){w.sum * power((float)-shift), w.largest", "return (weights){w.sum, w.largest", {"cpu_test", "generated_test 200"}},
  {"soft cap without its series", "engine/cpu/tile_cap.h", "v_mul(near, x), v_copy_sign", "x, v_copy_sign", {"generated_test 200"}},
  {"LSE relative to zero", "engine/cpu/tile_reference.h", "((float)(exponent - 1) + rows->reference_log2[row])", "(float)(exponent - 1)", {"api_test"}},
  {"LSE in log2 units", "engine/cpu/tile_reference.h", "rows->reference_log2[row])) * 0.69314718f", "rows->reference_log2[row]))", {"api_test"}},
  {"LSE of a far row by the kept scale", "engine/cpu/tile_reference.h", "reference[row] * job->scale", "reference[row] * (double)job->scale_log2", {"cpu_test"}},
  {"a score infinite in double passes", "engine/cpu/tile_template.h", "far == INFINITY ? NAN : t->rows->sum[row]", "t->rows->sum[row]", {"cpu_test"}},
  {"a tiny scale becomes 0", "engine/cpu/run.c", "0x1p126), 0x1p-149f)", "0x1p126), 0.0f)", {"cpu_test"}},
  {"rows without keys are not zero", "engine/cpu/tile_template.h", "if (empty) x = v_set1(0.0f);", "", {"cpu_test", "generated_test 100"}},
  {"the query's stride is swapped", "engine/cpu/tile_template.h", "position * t->strides[1] + head * t->strides[2]", "position * t->strides[2] + head * t->strides[1]", {"api_test"}},
  {"negative scale ignored", "engine/cpu/tile_template.h", "if (!h->scale_negative) continue;", "continue;", {"cpu_test", "generated_test 100"}},
  {"splits joined without their scales", "engine/cpu/tile_template.h", "+ other->rows.sum[row] * scale_b;", "+ other->rows.sum[row];", {"cpu_test", "generated_test 200"}},
  {"the reference sees one key more", "engine/reference/reference.c", "case FA4_MASK_CAUSAL: return behind >= 0;", "case FA4_MASK_CAUSAL: return behind >= -1;", {"api_test"}},
  {"NaN passes validation", "engine/api/validate.c", "if (isnan(got) || isnan(want)) return NAN;", "if (isnan(got) || isnan(want)) return 0;", {"api_test"}},
  {"overlapping outputs pass", "engine/api/run.c", "if (tensor_overlap(&t->o, inputs[i])) return", "if (0) return", {"api_test"}},
  {"f16 rounds half up", "engine/core/half.h", "u += 0xfffu + ((u >> 13) & 1u);", "u += 0x1000u;", {"tensor_test"}},
  {"misread: LBO and SBO exchanged", "engine/emu/mma_operand.c", "matrix->leading = field(descriptor, 16, 14) << 4;\n    matrix->stride = field(descriptor, 32, 14) << 4;",
    "matrix->leading = field(descriptor, 32, 14) << 4;\n    matrix->stride = field(descriptor, 16, 14) << 4;", PEERS, true},
  {"misread: no swizzle on the side of the mma", "engine/emu/emu_mma.h", "return address ^ (address >> 7 & mask) << 4;", "(void)mask;\n    return address;", PEERS, true},
  {"misread: swizzle by the wrong address bits", "engine/emu/emu_mma.h", "return address ^ (address >> 7 & mask) << 4;", "return address ^ (address >> 8 & mask) << 4;", PEERS, true},
  {"misread: B's transpose bit ignored", "engine/emu/mma_operand.c", "shape->b_transpose = field(d, 16, 1);", "shape->b_transpose = false;", PEERS, true},
  {"misread: the two halves of P exchanged", "engine/emu/tensor.c", "split(panel + emu_panel_a(m, (int32_t)(2 * i)), panel + emu_panel_a(m, (int32_t)(2 * i) + 1),",
    "split(panel + emu_panel_a(m, (int32_t)(2 * i) + 1), panel + emu_panel_a(m, (int32_t)(2 * i)),", PEERS, true},
  {"misread: mma always accumulates", "engine/emu/tensor.c", "q->accumulate = emu_pred(w, op->s) >> lane & 1;", "q->accumulate = true;", PEERS, true},
  {"a pair's halves of B exchanged", "engine/emu/pair.c", "q, half, b + (size_t)h * (size_t)half * EMU_MMA_K", "q, half, b + (size_t)(1 - h) * (size_t)half * EMU_MMA_K", {"emu_cluster_test"}},
  {"a multicast signals one CTA", "engine/emu/cluster.c", ": with.to;\n        if (with.signal == NULL)", ": with.signal;\n        if (with.signal == NULL)", {"emu_cluster_test"}},
  {"a shared address without its rank", "engine/emu/cluster.c", "constants[code->windows[i]].lane[lane] |= c->window;", "constants[code->windows[i]].lane[lane] |= 0;", {"emu_cluster_test"}},
  {"the store warp's end mark does not wait for its turn", "kernels/sm90_consumer.cuh", "wait(smem.o_store_empty(0), o_ring.parity() ^ 1); // else", "// else", {"emu_sm90_test"}},
  {"parts are joined without their scales", "kernels/sm90_split.cuh", "sum = fmaf(part.y, weight, sum);", "sum += part.y;", {"emu_sm90_test"}},
  {"a part begins one block late", "engine/kernel/launch_walk.c", "down ? steps - to : from", "down ? steps - to + 1 : from", {"emu_sm90_test"}},
  {"the next task's product may begin before this one's phase is complete", "kernels/sm100_correction.cuh", "wait(cta.smem.bars.p_o_rescale[i], (phases - 1) & 1);", "", {"emu_sm100_test"}},
  {"P is handed over before its stores are done", "kernels/sm100_softmax.cuh", "ptx::tcgen05_wait_st();\n        ptx::tcgen05_fence_before", "ptx::tcgen05_fence_before", {"emu_sm100_test"}},
  {"O keeps its old reference", "kernels/sm100_correction.cuh", "rescale_output(Tmem::o(stage) + Tmem::window(warp), scale);", "", {"emu_sm100_test"}},
  {"a masked block shows one key more", "kernels/sm100_rows.cuh", "low_bits(keys.hi - base)", "low_bits(keys.hi + 1 - base)", {"emu_sm100_test"}},
  {"a polynomial's column hides a high score", "kernels/sm100_softmax.cuh", "const bool fits = regular && even", "const bool fits = even", {"emu_sm100_test"}},
  {"spared rows are not counted", "kernels/sm100_softmax.cuh", "stays && tally.exists() && candidate > state.reference", "false", {"emu_sm100_test"}},
  {"f16 subnormals begin too low", "engine/core/half.h", "u < 0x38800000u", "u < 0x38000000u", {"tensor_test"}},
}

local function run(command)
  local status = os.execute(command)
  return status == 0 or status == true
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- The text with the one occurrence of `from` replaced; nil and how many there were otherwise.
local function replace(text, from, to)
  local first, last = text:find(from, 1, true)
  if not first then return nil, 0 end
  if text:find(from, last + 1, true) then return nil, 2 end
  return text:sub(1, first - 1) .. to .. text:sub(last + 1)
end

local function build(tests)
  local targets = {}
  for _, test in ipairs(tests) do targets[#targets + 1] = test:match("^%S+") end
  return run(("cmake --build %s/build --target %s > %s/log 2>&1"):format(work, table.concat(targets, " "), work))
end

-- Whether a test fails (each: all of them); what did not.
local function caught(tests, each)
  for _, test in ipairs(tests) do
    local fails = not run(("timeout 300 %s/build/tests/%s >> %s/log 2>&1"):format(work, test, work))
    if fails and not each then return true end
    if each and not fails then return false, test .. " did not notice it" end
  end
  return each or false, "no test noticed it"
end

local function try(tests, each)
  if not build(tests) then return "does not build" end
  local good, why = caught(tests, each)
  return not good and why or nil
end

-- Every mutant's place, without breaking anything.
local function check_places()
  local passed, failed = 0, 0
  for _, m in ipairs(mutants) do
    local broken, count = replace(read(top .. "/" .. m[2]), m[3], m[4])
    if broken then
      passed = passed + 1
    else
      failed = failed + 1
      print(("%s: its place in %s occurs %d times"):format(m[1], m[2], count))
    end
  end
  print(("%d passed, %d failed"):format(passed, failed))
  os.exit(failed == 0 and passed > 0 and 0 or 1)
end
if only_places then check_places() end

assert(run(("mkdir -p %s/tree && cd %s && cp -r CMakeLists.txt engine kernels lua scripts spec %s/tree/"):format(work, top, "build-mutants")))
assert(run(("cmake -G Ninja -S %s/tree -B %s/build -DCMAKE_BUILD_TYPE=Release > %s/log 2>&1"):format(work, work, work)), "configure failed")

local passed, failed = 0, 0
for _, m in ipairs(mutants) do
  local name, file, from, to, tests, each = unpack(m)
  if name:find(pattern) then
    local path = work .. "/tree/" .. file
    local original = read(path)
    local broken, count = replace(original, from, to)
    local verdict
    if not broken then
      verdict = ("its place in %s occurs %d times"):format(file, count)
    else
      write(path, broken)
      verdict = try(tests, each)
      write(path, original)
    end
    passed, failed = passed + (verdict and 0 or 1), failed + (verdict and 1 or 0)
    print(("%-48s %s"):format(name, verdict or "noticed"))
    io.stdout:flush()
  end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and passed > 0 and 0 or 1)
