/* What can be known of the kernels without running them: registers, stack, the instruction forms of their PTX, and (where nvdisasm is
 * found) machine instructions per score of the softmax loop. `kernel_static_test all` compiles every variant of the catalogue, `hopper` those of
 * sm_90a, without an argument a few; they print the table of kernels/NOTES.md where nvdisasm is found; `ptx` writes one kernel. */
#include "check.h"

#include "kernel/launch.h"
#include "kernel/sass.h"
#include "kernel/variant.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- the cubin ---- */

typedef struct resources {
    int32_t registers, stack, found;
} resources;

static uint64_t field(const unsigned char *p, int bytes) {
    uint64_t x = 0;
    for (int i = bytes; i-- > 0;) x = x << 8 | p[i];
    return x;
}

/* .nv.info: entries of {format, attribute, 16-bit size, payload}; frame sizes and register counts are pairs of symbol and value. */
static void read_info(const unsigned char *at, const unsigned char *end, resources *r) {
    enum { SIZED = 4, FRAME_SIZE = 0x11, MIN_STACK_SIZE = 0x12, REGISTERS = 0x2f };
    while (at + 4 <= end) {
        uint64_t size = at[0] == SIZED ? field(at + 2, 2) : 0;
        if (at + 4 + size > end) return;
        int32_t value = size == 8 ? (int32_t)field(at + 8, 4) : 0;
        if (at[0] == SIZED && at[1] == REGISTERS) r->registers = value > r->registers ? value : r->registers, r->found++; /* of the larger entry */
        if (at[0] == SIZED && (at[1] == FRAME_SIZE || at[1] == MIN_STACK_SIZE) && value > r->stack) r->stack = value;
        at += 4 + size;
    }
}

static resources read_cubin(const unsigned char *elf, size_t bytes) {
    resources r = {0, 0, 0};
    if (bytes < 64 || memcmp(elf, "\177ELF", 4) != 0) return r;
    uint64_t table = field(elf + 40, 8), count = field(elf + 60, 2), names_index = field(elf + 62, 2);
    if (table + count * 64 > bytes || names_index >= count) return r;
    uint64_t names = field(elf + table + names_index * 64 + 24, 8);
    for (uint64_t s = 0; s < count; s++) {
        const unsigned char *header = elf + table + s * 64;
        uint64_t name = names + field(header, 4), offset = field(header + 24, 8), size = field(header + 32, 8);
        if (name + 9 <= bytes && offset + size <= bytes && strcmp((const char *)elf + name, ".nv.info") == 0)
            read_info(elf + offset, elf + offset + size, &r);
    }
    return r;
}

/* ---- machine code ---- */

enum { CODE_MAX = 20000, OPCODE_BYTES = 32, LABEL_BYTES = 24, LABELS_MAX = 4000 };

typedef struct code {
    int32_t count, labels;
    char opcode[CODE_MAX][OPCODE_BYTES];
    char target[CODE_MAX][LABEL_BYTES]; /* of a branch, "" = none */
    int32_t target_at[CODE_MAX];
    bool conditional[CODE_MAX];
    char label[LABELS_MAX][LABEL_BYTES];
    int32_t label_at[LABELS_MAX];
} code;

static void parse_line(code *c, const char *line) {
    char word[3][128];
    if (line[0] == '.' && c->labels < LABELS_MAX && sscanf(line, "%23[^:]:", c->label[c->labels]) == 1) {
        c->label_at[c->labels++] = c->count;
        return;
    }
    const char *text = strstr(line, "*/");
    if (strncmp(line + strspn(line, " \t"), "/*", 2) != 0 || text == NULL || c->count == CODE_MAX) return;
    text += 2 + strspn(text + 2, " \t");
    int words = sscanf(text, "%127s %127s %127s", word[0], word[1], word[2]);
    if (words < 1 || strncmp(text, "/*", 2) == 0) return;
    bool guarded = word[0][0] == '@' && words > 1;
    snprintf(c->opcode[c->count], OPCODE_BYTES, "%.31s", word[guarded ? 1 : 0]);
    c->target[c->count][0] = '\0';
    const char *branch = strncmp(c->opcode[c->count], "BRA", 3) == 0 ? strstr(text, "`(") : NULL;
    if (branch) sscanf(branch, "`(%23[^)])", c->target[c->count]);
    c->conditional[c->count] = guarded || strstr(text, "UP") != NULL;
    c->count++;
}

static code *parse_code(const char *text) {
    code *c = calloc(1, sizeof *c);
    char line[512];
    for (const char *at = text; *at && c; at += strcspn(at, "\n"), at += *at == '\n') {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        parse_line(c, line);
    }
    return c;
}

static int32_t target_of(const code *c, int32_t i) { return c->target_at[i]; }

static void resolve_targets(code *c) {
    for (int32_t i = 0; i < c->count; i++) {
        c->target_at[i] = -1;
        for (int32_t l = 0; c->target[i][0] && l < c->labels; l++)
            if (strcmp(c->label[l], c->target[i]) == 0) c->target_at[i] = c->label_at[l];
    }
}

static int32_t count_opcode(const code *c, int32_t first, int32_t last, const char *prefix) {
    int32_t n = 0;
    for (int32_t i = first; i <= last; i++) n += strncmp(c->opcode[i], prefix, strlen(prefix)) == 0;
    return n;
}

/* Fewest instructions from `start` to every other, and by which way. */
static void measure(const code *c, int32_t start, int32_t last, int32_t *cost, int32_t *from) {
    for (int32_t i = 0; i < c->count; i++) cost[i] = INT32_MAX, from[i] = -1;
    cost[start] = 0;
    /* Every way that matters goes forward, but for waits that were moved out of line and come back: two passes settle them. */
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < c->count; i++) {
            if (cost[i] == INT32_MAX || i == last) continue;
            int32_t next[2] = {i + 1, target_of(c, i)};
            bool falls = next[1] < 0 || c->conditional[i];
            for (int k = falls ? 0 : 1; k < 2; k++)
                if (next[k] >= 0 && next[k] < c->count && cost[i] + 1 < cost[next[k]]) {
                    cost[next[k]] = cost[i] + 1;
                    from[next[k]] = i;
                }
        }
}

static int32_t mark_way(const int32_t *from, int32_t end, int32_t count, bool *on) {
    int32_t n = 0;
    for (int32_t i = end; i >= 0 && n <= count; i = from[i]) n += !on[i], on[i] = true;
    return n;
}

static int32_t count_way(const code *c, const bool *way, const char *prefix) {
    int32_t n = 0;
    for (int32_t i = 0; i < c->count; i++) n += way[i] && strncmp(c->opcode[i], prefix, strlen(prefix)) == 0;
    return n;
}

/* Instructions of the shortest way through the loop [first, last] that loads, weighs and stores a row: no wait spins, no rare branch is taken.
 * Marks the way in `on`; INT32_MAX when there is none. */
static int32_t shortest_trip(const code *c, int32_t first, int32_t last, bool *on) {
    size_t bytes = (size_t)c->count * sizeof(int32_t);
    int32_t *cost = malloc(bytes), *from = malloc(bytes), *cost_on = malloc(bytes), *from_on = malloc(bytes), best = INT32_MAX;
    bool *way = malloc(CODE_MAX * sizeof *way);
    measure(c, first, last, cost, from);
    for (int32_t m = 0; m < c->count; m++) {
        if (strncmp(c->opcode[m], "STTM", 4) != 0 || cost[m] == INT32_MAX) continue;
        measure(c, m, last, cost_on, from_on);
        if (cost_on[last] == INT32_MAX || cost[m] + cost_on[last] + 1 >= best) continue;
        memset(way, 0, CODE_MAX * sizeof *way);
        int32_t trip = mark_way(from, m, c->count, way) + mark_way(from_on, last, c->count, way);
        if (count_way(c, way, "MUFU.EX2") < 80 || count_way(c, way, "STTM") < 1 || count_way(c, way, "LDTM") < 4) continue;
        best = trip;
        memcpy(on, way, CODE_MAX * sizeof *way);
    }
    free(cost), free(from), free(cost_on), free(from_on), free(way);
    return best;
}

/* The shortest trip of the loops that hold a row's exponentials. Several back edges may share a body, so the innermost is not always its loop. */
static int32_t softmax_trip(const code *c, bool *on) {
    bool *way = malloc(CODE_MAX * sizeof *way);
    int32_t done = 0, best = INT32_MAX;
    for (int tries = 0; tries < 12; tries++) {
        int32_t range = INT32_MAX, first = 0, last = 0;
        for (int32_t i = 0; i < c->count; i++) {
            int32_t t = target_of(c, i);
            if (t < 0 || t > i || i - t >= range || i - t <= done || count_opcode(c, t, i, "MUFU.EX2") < 80) continue;
            range = i - t, first = t, last = i;
        }
        if (range == INT32_MAX) break;
        done = range;
        int32_t trip = shortest_trip(c, first, last, way);
        if (trip >= best) continue;
        best = trip;
        memcpy(on, way, CODE_MAX * sizeof *way);
    }
    free(way);
    return best;
}

static void print_classes(const code *c, const bool *on) {
    static const char *const classes[] = {"MUFU", "FFMA2", "FADD2", "F2FP", "FMNMX3", "FMNMX", "FFMA", "IMAD", "LDTM", "STTM", "SYNCS", "FSEL", "NOP"};
    int32_t all = 0, named = 0;
    for (int32_t i = 0; i < c->count; i++) all += on[i];
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
        int32_t n = 0;
        size_t length = strlen(classes[k]);
        for (int32_t i = 0; i < c->count; i++)
            n += on[i] && strncmp(c->opcode[i], classes[k], length) == 0 && (c->opcode[i][length] == '.' || c->opcode[i][length] == '\0');
        printf(" %d", n);
        named += n;
    }
    printf(" %d\n", all - named);
}

/* Shares of the polynomial are those of TIRx's kernel, whose loops take 494 (full) and 527 (causal) instructions for 128 scores. What ours
 * take, by mask class and row_max; a mark that rises shows work that crept in. */
static const int32_t trip_max[4][2] = {{471, 419}, {498, 452}, {506, 458}, {506, 458}};

static void check_code(const char *name, const FwdVariant *v, const kernel_image *image) {
    char *text = NULL;
    size_t length;
    if (kernel_sass(image->cubin, image->cubin_bytes, &text, &length, NULL) != FA4_OK) return;
    code *c = parse_code(text);
    resolve_targets(c);
    bool *on = calloc(CODE_MAX, sizeof *on);
    CHECK(count_opcode(c, 0, c->count - 1, "STL") == 0 && count_opcode(c, 0, c->count - 1, "LDL") == 0, "%s: local memory", name);
    CHECK(count_opcode(c, 0, c->count - 1, "USETMAXREG") == 3, "%s: setmaxnreg was dropped", name);
    int32_t trip = softmax_trip(c, on);
    if (trip < INT32_MAX) {
        printf("| %s | %d | %.2f |", name, trip, trip / 128.0);
        print_classes(c, on);
        CHECK(trip <= trip_max[v->mask_class][v->row_max], "%s: %d instructions", name, trip);
    } else {
        CHECK(false, "%s: no softmax loop found", name);
    }
    free(on);
    free(c);
    free(text);
}

/* ---- PTX ---- */

static int32_t count_text(const char *text, const char *word) {
    int32_t n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
    return n;
}

/* Products: Q K^T twice for two stages (prologue and loop), P V once, in steps of 16; exponentials: a row of a masked and a row of a whole block. */
static void check_ptx(const char *name, const FwdVariant *v, const char *ptx) {
    int32_t scores = v->dim / 16, values = 128 / 16, emulated = 2 * v->emulated_pairs * 2 * (3 - v->first_fragment);
    CHECK(count_text(ptx, "tcgen05.mma.cta_group::1.kind::f16") == 4 * scores + 2 * values, "%s: %d products", name,
          count_text(ptx, "tcgen05.mma.cta_group::1.kind::f16"));
    CHECK(count_text(ptx, "tcgen05.ld.sync.aligned.32x32b.x32.b32") >= 8, "%s: loads of S", name);
    CHECK(count_text(ptx, "cp.async.bulk.tensor.4d.global.shared::cta") == v->dim / 64 * 2, "%s: stores of O", name);
    CHECK(count_text(ptx, "max.NaN.f32") >= 2 * 64, "%s: three-input maxima", name);
    if (v->row_max == FWD_EACH_BLOCK && !v->soft_cap)
        CHECK(count_text(ptx, "ex2.approx.ftz.f32") == 2 * 128 - emulated + 2, "%s: %d exponentials, expected %d", name,
              count_text(ptx, "ex2.approx.ftz.f32"), 2 * 128 - emulated + 2);
}

/* ---- variants ---- */

static void check_variant(kernel_images *images, const FwdVariant *v) {
    char name[KERNEL_NAME_BYTES];
    kernel_variant_name(v, name);
    snprintf(name + strlen(name) - 8, 9, "%s", v->row_max ? "maxfree" : "each");
    fa4_error err;
    kernel_image image;
    fa4_status status = kernel_image_get(images, v, 1, &image, &err);
    CHECK(status == FA4_OK, "%s: %s", name, err.text);
    if (status != FA4_OK) return;
    CHECK(image.log == NULL || strstr(image.log, "warning") == NULL, "%s: %s", name, image.log);
    resources r = read_cubin(image.cubin, image.cubin_bytes);
    CHECK(r.found > 0 && r.registers == 128, "%s: %d registers at entry, 65,536 / 512 are 128", name, r.registers);
    CHECK(r.stack == 0, "%s: a stack of %d bytes: something spilled", name, r.stack);
    CHECK(kernel_variant_smem_bytes(v) <= 232448, "%s: %d bytes of shared memory", name, kernel_variant_smem_bytes(v));
    CHECK(count_text(image.ptx, ".local ") == 0 && count_text(image.ptx, "ld.local") == 0, "%s: local memory", name);
    if (!v->counters) { /* counting adds to both */
        check_ptx(name, v, image.ptx);
        check_code(name, v, &image);
    }
    kernel_image_free(&image);
}

/* The Hopper kernel: entry registers of 384 or 512 threads, no stack, no note of serialised wgmma, and the products of its six places: a tile's
 * first scores, a masked and a whole block with the scores of a redo (max-free), the tile boundary; P V beside all but the first. */
static void check_hopper(kernel_images *images, FwdVariant v) {
    int dim = v.dim, moves = v.tile_rows > 64; /* one consumer warpgroup has the registers it wants from the start */
    char name[KERNEL_NAME_BYTES];
    kernel_variant_name(&v, name);
    snprintf(name + strlen(name) - 8, 9, "%s%s", v.row_max ? "maxf" : "each", v.kv_split ? "_spl" : "");
    fa4_error err;
    kernel_image image;
    fa4_status status = kernel_image_get(images, &v, 1, &image, &err);
    CHECK(status == FA4_OK, "%s: %s", name, err.text);
    if (status != FA4_OK) return;
    resources r = read_cubin(image.cubin, image.cubin_bytes);
    int entry = v.tile_rows == 192 ? 128 : 168;
    CHECK(r.found == 1 + v.kv_split && (moves ? r.registers == entry : r.registers <= 255), "%s: %d registers at entry, should be %d", name,
          r.registers, entry);
    CHECK(r.stack == 0, "%s: a stack of %d bytes: something spilled", name, r.stack);
    CHECK(image.log == NULL || (strstr(image.log, "C75") == NULL && strstr(image.log, "warning") == NULL), "%s: %s", name, image.log);
    CHECK(kernel_variant_smem_bytes(&v) <= 232448, "%s: %d bytes of shared memory", name, kernel_variant_smem_bytes(&v));
    CHECK(count_text(image.ptx, ".local ") == 0 && count_text(image.ptx, "ld.local") == 0, "%s: local memory", name);
    const char *more = v.tile_rows == 192 ? "setmaxnreg.inc.sync.aligned.u32 160" : "setmaxnreg.inc.sync.aligned.u32 232";
    const char *less = v.tile_rows == 192 ? "setmaxnreg.dec.sync.aligned.u32 32" : "setmaxnreg.dec.sync.aligned.u32 40";
    CHECK(count_text(image.ptx, more) == moves && count_text(image.ptx, less) == moves, "%s: the register split", name);
    int places = v.mask_class < FWD_INTERVAL ? 4 : 3; /* walks from a list mask every block */
    CHECK(count_text(image.ptx, "wgmma.mma_async.sync.aligned.m64n128k16") >= places * dim / 16, "%s: products of 64 x 128 x 16", name);
    CHECK(count_text(image.ptx, "cp.async.bulk.tensor.4d.global.shared::cta") == (v.kv_split ? 0 : dim / 64), "%s: only the store warp stores O", name);
    kernel_image_free(&image);
}

/* kind: 0 tiles of 128 rows, 1 of 64 (short queries), 2 of 64 with split keys, 3 of 192. */
static FwdVariant hopper_variant(int kind, int dtype, int dim, int mask_class, int row_max) {
    static const int rows[] = {128, 64, 64, 192};
    bool three = kind == 3; /* consumer warpgroups */
    return (FwdVariant){.arch = 90, .dtype = dtype, .dim = dim, .mask_class = mask_class, .packed = kind >= 2, .row_max = row_max,
                        .q_stages = 2, .kv_stages = dim == 64 ? 4 : 2, .kv_split = kind == 2, .tile_rows = rows[kind], .tile_keys = 128,
                        .registers_softmax = three ? 160 : 232, .registers_correction = 24, .registers_other = three ? 32 : 40, .p_split = 64};
}

static FwdVariant variant_of(int dtype, int dim, int mask_class, int packed, int row_max) {
    bool full = mask_class == FWD_FULL;
    return (FwdVariant){.arch = 100, .dtype = dtype, .dim = dim, .mask_class = mask_class, .packed = packed, .row_max = row_max,
                        .integer_reference = row_max, .emulated_pairs = 2, .first_fragment = full, .p_split = full ? 96 : 64,
                        .epilogue = mask_class == FWD_CAUSAL && !row_max ? FWD_EPILOGUE_SOFTMAX : FWD_EPILOGUE_CORRECTION, .q_stages = 2,
                        .kv_stages = 3, .tile_rows = 128, .tile_keys = 128, .registers_softmax = 200, .registers_correction = 64,
                        .registers_other = 48};
}

/* Writes the PTX of the first variant: another build of it is compared with that. */
static int write_ptx(void) {
    FwdVariant v = variant_of(FWD_F16, 128, FWD_FULL, 0, FWD_EACH_BLOCK);
    kernel_images *images = NULL;
    kernel_image image;
    fa4_error err;
    if (kernel_images_open(NULL, &images, &err) != FA4_OK || kernel_image_get(images, &v, 1, &image, &err) != FA4_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    fputs(image.ptx, stdout);
    kernel_image_free(&image);
    kernel_images_close(images);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "ptx") == 0) return write_ptx();
    bool all = argc > 1 && strcmp(argv[1], "all") == 0, hopper = argc > 1 && strcmp(argv[1], "hopper") == 0;
    kernel_images *images = NULL;
    const nvrtc *compiler = NULL;
    fa4_error err;
    fa4_status status = kernel_images_open(NULL, &images, &err);
    CHECK(status == FA4_OK, "%s", err.text);
    if (status == FA4_OK && kernel_images_compiler(images, &compiler, &err) != FA4_OK) {
        fprintf(stderr, "not run: %s\n", err.text);
    } else if (status == FA4_OK) {
        printf("| kernel | instructions | per score | MUFU FFMA2 FADD2 F2FP FMNMX3 FMNMX FFMA IMAD LDTM STTM SYNCS FSEL NOP other |\n");
        for (int n = 0; n < 64; n++) {
            FwdVariant v = variant_of(n >> 5 & 1, n & 16 ? 64 : 128, n >> 2 & 3, n & 1, n >> 1 & 1);
            if (all || (!hopper && (n % 9 == 0 || n == 2 || n == 4))) check_variant(images, &v);
            v.counters = 1;
            if (all || (!hopper && (n % 24 == 0 || n % 24 == 14))) check_variant(images, &v);
        }
    }
    if (status == FA4_OK && compiler != NULL)
        for (int n = 0; n < 128; n++) /* rows and split, dtype, dim, mask class, row_max */
            for (int counters = 0; counters < 2; counters++) {
                FwdVariant v = hopper_variant(n >> 5, n >> 4 & 1, n & 8 ? 64 : 128, n >> 1 & 3, n & 1);
                bool exists = v.tile_rows < 192 || (v.dim == 64 && v.mask_class != FWD_BITS);
                v.counters = counters;
                if (exists && (all || hopper || n % (9 + 12 * counters) == 0)) check_hopper(images, v);
            }
    kernel_images_close(images);
    return check_report();
}
