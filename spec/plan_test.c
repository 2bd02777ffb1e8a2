/* Plans: block lists, bit tiles and visibility against an enumeration of every element with a predicate of its own. */
#include "plan/plan.h"

#include "check.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 1;
static uint32_t random_below(uint32_t n) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % n);
}

static const plan_limits cpu_limits = {FA4_BACKEND_CPU, "cpu", 2, 50 << 20, 1};

/* A mask of one or two leaves, joined; the data lies in ids (documents) and bits. */
typedef struct drawn_mask {
    fa4_mask_node nodes[FA4_MASK_NODES_MAX];
    int32_t count;
} drawn_mask;

static fa4_mask_node draw_leaf(int64_t sq, int64_t skv, int64_t bits_offset) {
    fa4_mask_node node;
    memset(&node, 0, sizeof node);
    node.kind = (int32_t)random_below(6);
    node.left = (int64_t)random_below((uint32_t)skv + 9) - 5;
    node.right = (int64_t)random_below((uint32_t)skv + 9) - 5;
    node.length = random_below((uint32_t)skv + 1);
    node.data_offset = node.kind == FA4_MASK_BITS ? bits_offset : 0;
    node.per_head = (int32_t)random_below(2);
    (void)sq;
    return node;
}

static bool leaf_sees(const fa4_problem *p, const fa4_mask_node *m, const int32_t *data, int64_t head, int64_t i, int64_t j) {
    int64_t shift = p->seqlen_kv - p->seqlen_q;
    if (m->kind == FA4_MASK_CAUSAL) return j <= i + shift;
    if (m->kind == FA4_MASK_WINDOW) return (m->left < 0 || j >= i + shift - m->left) && (m->right < 0 || j <= i + shift + m->right);
    if (m->kind == FA4_MASK_PREFIX) return j < m->length || j <= i + shift;
    if (m->kind == FA4_MASK_DOCUMENT) return i + shift >= 0 && data[i + shift] == data[j];
    if (m->kind == FA4_MASK_BITS) {
        int64_t row = (m->per_head ? head : 0) * p->seqlen_q + i, words = (p->seqlen_kv + 127) / 128 * 4;
        return (uint32_t)data[m->data_offset + row * words + j / 32] >> (j % 32) & 1u;
    }
    return true;
}

static bool sees(const fa4_problem *p, const int32_t *data, int64_t head, int64_t i, int64_t j) {
    if (p->mask_nodes == 1) return leaf_sees(p, &p->mask[0], data, head, i, j);
    bool a = leaf_sees(p, &p->mask[0], data, head, i, j), b = leaf_sees(p, &p->mask[1], data, head, i, j);
    int32_t kind = p->mask[2].kind;
    return kind == FA4_MASK_ALL_OF ? a && b : kind == FA4_MASK_ANY_OF ? a || b : !(a || b);
}

static fa4_problem draw_problem(int32_t *data, int64_t room) {
    fa4_problem p;
    memset(&p, 0, sizeof p);
    p.batch = 1;
    p.seqlen_q = 1 + random_below(random_below(2) ? 300 : 20);
    p.seqlen_kv = 1 + random_below(random_below(2) ? 400 : 20);
    p.heads_kv = 1;
    p.heads_q = (int32_t)(1 + random_below(4));
    p.dim = p.dim_v = 64;
    p.dtype = FA4_F16;
    p.scale = 1;
    int32_t run = (int32_t)random_below(3); /* ids that are scattered, short runs, or long ones */
    for (int64_t j = 0; j < p.seqlen_kv; j++)
        data[j] = run == 0 ? (int32_t)random_below(3) : j == 0 ? 0 : data[j - 1] + (random_below(run == 1 ? 5 : 90) == 0);
    uint32_t density = random_below(4);
    for (int64_t w = p.seqlen_kv; w < room; w++)
        data[w] = density == 0 ? 0 : density == 1 ? -1 : (int32_t)(random_below(65536) << 16 | random_below(65536));
    p.mask[0] = draw_leaf(p.seqlen_q, p.seqlen_kv, p.seqlen_kv);
    p.mask_nodes = 1;
    if (random_below(2)) {
        p.mask[1] = draw_leaf(p.seqlen_q, p.seqlen_kv, p.seqlen_kv);
        p.mask[2].kind = FA4_MASK_ALL_OF + (int32_t)random_below(3);
        p.mask[2].operands = 2;
        p.mask_nodes = 3;
    }
    return p;
}

/* What element (row, column) of a visited block is, by the plan's own data. */
static bool plan_sees(const fa4_plan *plan, fa4_block block, int64_t position, int32_t row, int32_t column) {
    if (block.mask == -1) return true;
    int64_t key = (int64_t)block.key_block * 128 + column;
    if (block.mask == -2) return key >= plan_row_lo(plan)[position] && key < plan_row_hi(plan)[position];
    return plan_bit_tile(plan, block.mask)[row * 4 + column / 32] >> (column % 32) & 1;
}

/* The first wrong thing about one tile, or NULL. */
static const char *check_tile(const fa4_plan *plan, const int32_t *data, int32_t head, int64_t tile) {
    const fa4_plan_header *h = &plan->header;
    const fa4_problem *p = &h->problem;
    const fa4_block_list *list = plan_list(plan, 0, head, tile);
    static int32_t visit[64];
    for (int64_t kb = 0; kb < h->blocks_per_row; kb++) visit[kb] = -1;
    for (int32_t k = 0; k < list->count; k++) {
        int32_t kb = plan_blocks(plan)[list->first + k].key_block;
        if (visit[kb] != -1) return "a block is visited twice";
        visit[kb] = k;
        if (h->schedule.kv_order == FA4_KV_REVERSE && k > 0 && kb > plan_blocks(plan)[list->first + k - 1].key_block) return "order";
    }
    for (int64_t kb = 0; kb < h->blocks_per_row; kb++) {
        bool any = false, all = true, same = true;
        fa4_block block = visit[kb] < 0 ? (fa4_block){(int32_t)kb, -1} : plan_blocks(plan)[list->first + visit[kb]];
        for (int32_t row = 0; row < plan_tile_rows(h, tile); row++)
            for (int32_t column = 0; column < 128; column++) {
                int64_t i = plan_row_position(h, tile, row), j = kb * 128 + column;
                bool want = j < p->seqlen_kv && sees(p, data, plan_row_head(h, head, row), i, j);
                any = any || want;
                all = all && want;
                same = same && plan_sees(plan, block, i, row, column) == want;
            }
        if (any != (visit[kb] >= 0)) return any ? "a visible block is skipped" : "a hidden block is visited";
        if (any && all != (block.mask == -1)) return all ? "a full block is masked" : "a partial block is not masked";
        if (any && !same) return "the mask of a block";
    }
    return NULL;
}

static void check_random_plans(int count) {
    enum { ROOM = 400 + 4 * 300 * 4 * 4 };
    int32_t *data = malloc(ROOM * sizeof *data);
    for (int n = 0; n < count; n++) {
        fa4_request request;
        memset(&request, 0, sizeof request);
        request.problem = draw_problem(data, ROOM);
        fa4_schedule_default(&request.schedule);
        request.schedule.kv_order = (int32_t)random_below(3);
        request.schedule.gqa_packing = (int32_t)random_below(2);
        request.mask_data = data;
        request.mask_words = ROOM;
        fa4_plan *plan = NULL;
        fa4_error err = {0};
        fa4_status status = plan_create(&request, &cpu_limits, NULL, &plan, &err);
        if (status != FA4_OK) {
            CHECK(false, "problem %d: %s", n, err.text);
            continue;
        }
        const char *wrong = NULL;
        for (int32_t head = 0; head < plan->header.heads && wrong == NULL; head++)
            for (int64_t tile = 0; tile < plan->header.tiles_per_head && wrong == NULL; tile++)
                wrong = check_tile(plan, data, head, tile);
        for (int k = 0; k < 50 && wrong == NULL; k++) {
            int64_t head = random_below((uint32_t)request.problem.heads_q), i = random_below((uint32_t)request.problem.seqlen_q);
            int64_t j = random_below((uint32_t)request.problem.seqlen_kv);
            if (fa4_plan_visible(plan, 0, head, i, j) != sees(&request.problem, data, head, i, j)) wrong = "fa4_plan_visible";
        }
        CHECK(wrong == NULL, "problem %d (mask kind %d): %s", n, request.problem.mask[0].kind, wrong);
        fa4_plan_destroy(plan);
    }
    free(data);
}

static fa4_request causal_request(int64_t sq, int64_t skv, int32_t heads_q, int32_t heads_kv) {
    fa4_request r;
    memset(&r, 0, sizeof r);
    r.problem = (fa4_problem){.batch = 1, .seqlen_q = sq, .seqlen_kv = skv, .heads_q = heads_q, .heads_kv = heads_kv, .dim = 64,
                              .dim_v = 64, .dtype = FA4_F16, .lse = 1, .scale = 0.125, .mask_nodes = 1};
    r.problem.mask[0].kind = FA4_MASK_CAUSAL;
    fa4_schedule_default(&r.schedule);
    return r;
}

static void check_counts(void) {
    fa4_request r = causal_request(1024, 1024, 9, 3);
    fa4_plan *plan = NULL;
    fa4_error err = {0};
    CHECK(plan_create(&r, &cpu_limits, NULL, &plan, &err) == FA4_OK, "%s", err.text);
    fa4_counters total;
    plan_count(plan, &total, NULL);
    /* 3 heads a key head do not divide 128: one head a tile; 8 tiles of 1..8 blocks. */
    CHECK(plan->header.packed == 0 && total.tiles == 72, "%lld tiles", (long long)total.tiles);
    CHECK(total.blocks_visited == 9 * 36 && total.blocks_partial == 72, "%lld", (long long)total.blocks_visited);
    CHECK(total.row_steps == 9 * 3584 && total.warp_steps == 9 * 112, "%lld", (long long)total.row_steps);
    CHECK(total.exp2_polynomial == INT64_C(9) * 28 * 128 * 24, "%lld", (long long)total.exp2_polynomial);
    CHECK(fabs(plan_flops(plan) - 2.0 * 9 * 1024 * 1024 * 64) < 1, "%g", plan_flops(plan));
    /* LPT: the tasks with most blocks first. */
    for (int64_t i = 1; i < plan->header.task_count; i++)
        CHECK(plan_tasks(plan)[i].blocks <= plan_tasks(plan)[i - 1].blocks, "task %lld", (long long)i);
    fa4_plan *twin = NULL, *other = NULL;
    CHECK(plan_create(&r, &cpu_limits, NULL, &twin, &err) == FA4_OK && twin->header.hash == plan->header.hash, "hashes differ");
    r.schedule.rescale_threshold = 4;
    CHECK(plan_create(&r, &cpu_limits, NULL, &other, &err) == FA4_OK && other->header.hash != plan->header.hash, "hashes are equal");
    int64_t order[72];
    for (int i = 0; i < 72; i++) order[i] = 71 - i;
    fa4_plan *reordered = NULL;
    CHECK(fa4_plan_reorder(plan, order, NULL, &reordered, &err) == FA4_OK &&
              plan_tasks(reordered)[0].tile == plan_tasks(plan)[71].tile, "reorder");
    order[3] = 5;
    CHECK(fa4_plan_reorder(plan, order, NULL, &reordered, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "twice"), "%s", err.text);
    fa4_plan_destroy(plan);
    fa4_plan_destroy(twin);
    fa4_plan_destroy(other);
    fa4_plan_destroy(reordered);
}

/* Causal, or beyond key 50 and the diagonal: two intervals in the early rows, so that only bits can say it. */
static void check_gap(void) {
    fa4_request r = causal_request(200, 200, 1, 1);
    fa4_problem *p = &r.problem;
    p->mask[0] = (fa4_mask_node){.kind = FA4_MASK_PREFIX, .length = 50};
    p->mask[1] = (fa4_mask_node){.kind = FA4_MASK_NONE_OF, .operands = 1};
    p->mask[2] = (fa4_mask_node){.kind = FA4_MASK_CAUSAL};
    p->mask[3] = (fa4_mask_node){.kind = FA4_MASK_ANY_OF, .operands = 2};
    p->mask_nodes = 4;
    fa4_plan *plan = NULL;
    fa4_error err = {0};
    CHECK(plan_create(&r, &cpu_limits, NULL, &plan, &err) == FA4_OK, "%s", err.text);
    CHECK(plan->header.mask_class == FA4_CLASS_BITS, "class %d", plan->header.mask_class);
    const fa4_block_list *list = plan_list(plan, 0, 0, 0);
    fa4_block last = plan_blocks(plan)[list->first + list->count - 1]; /* reverse order: key block 0 */
    CHECK(last.key_block == 0 && last.mask >= 0, "block %d, mask %d", last.key_block, last.mask);
    const uint32_t *row = plan_bit_tile(plan, last.mask) + 10 * 4;
    CHECK(row[0] == 0x7ff && row[1] == 0xfffc0000 && row[2] == UINT32_MAX && row[3] == UINT32_MAX, "%08x %08x", row[0], row[1]);
    fa4_plan_destroy(plan);
}

static void refuse(const char *what, fa4_request r, const char *want) {
    fa4_plan *plan = NULL;
    fa4_error err = {0};
    fa4_status status = plan_create(&r, &cpu_limits, NULL, &plan, &err);
    CHECK(status != FA4_OK && strstr(err.text, want) != NULL, "%s: status %d, \"%s\"", what, status, err.text);
    fa4_plan_destroy(plan);
}

static void check_refusals(void) {
    fa4_request good = causal_request(64, 64, 4, 2), r;
#define REFUSE(field, value, want)                                                                 \
    r = good;                                                                                      \
    r.field = value;                                                                               \
    refuse(#field, r, want)
    REFUSE(problem.heads_q, 5, "heads_q: 5 is not a multiple of heads_kv 2");
    REFUSE(problem.seqlen_q, -1, "seqlen_q");
    REFUSE(problem.seqlen_kv, INT64_C(1) << 40, "seqlen_kv");
    REFUSE(problem.dim, 60, "nearest: 64");
    REFUSE(problem.dtype, FA4_F64, "f16, bf16 or f32, got f64");
    REFUSE(problem.scale, NAN, "scale");
    REFUSE(problem.soft_cap, -1, "soft_cap");
    REFUSE(problem.mask[0].kind, 77, "unknown kind");
    REFUSE(schedule.rescale_threshold, 15.5, "65504");
    REFUSE(schedule.rescale_threshold, NAN, "finite");
    REFUSE(schedule.p_split, 17, "multiple of 16");
    REFUSE(schedule.kv_stages, 13, "kv_stages");
    REFUSE(schedule.registers_softmax, 256, "65536");
#undef REFUSE
}

int main(void) {
    check_random_plans(2000);
    check_counts();
    check_gap();
    check_refusals();
    return check_report();
}
