/*
 * Kernels that we did not write, run from the folder FA4_PEER_PTX (never committed; the reference notes say how they are made): attention and
 * GEMM for sm_100a and sm_90a, with their recorded launches. Each must run to its end under three schedules and agree with double precision.
 * scripts/test.sh runs this test only where the folder is named. An argument selects by a part of the name; a last argument `all` runs
 * more schedules.
 */
#include "check.h"
#include "core/half.h"
#include "emu/emu.h"
#include "kernel/tensormap.h"
#include "peers_stated.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARAMS_MAX = 64, D = 128 };

typedef struct peer {
    char name[128];
    int32_t grid[3], block[3], cluster[3];
    int64_t shared;
    uint8_t params[PARAMS_MAX][128];
    int32_t sizes[PARAMS_MAX];
    int32_t roles[PARAMS_MAX]; /* 1..4: a tensor map of q, k, v, o (a, b, d) */
    kernel_tensormap maps[PARAMS_MAX];
    int32_t count;
    bool causal, gemm, bf16;
    int64_t s, hq, hkv;
} peer;

static char *read_text(const char *folder, const char *name, const char *ending) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = malloc((size_t)n + 1);
    text[fread(text, 1, (size_t)n, f)] = 0;
    fclose(f);
    return text;
}

/* The hardware's bits, as one of the generators writes them itself. */
static kernel_tensormap decode_bits(const uint8_t *bytes) {
    uint32_t w[16];
    memcpy(w, bytes, sizeof w);
    kernel_tensormap m = {.rank = (int32_t)(w[2] >> 4 & 7) + 1, .swizzle = (int32_t)(w[2] >> 13 & 3)};
    m.type = (w[2] >> 7 & 15) == 10 ? KERNEL_TENSORMAP_BF16 : KERNEL_TENSORMAP_F16;
    for (int i = 0; i < m.rank; i++) {
        m.dims[i] = (uint64_t)w[8 + i] + 1;
        if (i > 0) m.strides[i] = (uint64_t)w[2 + i] * 16;
        m.box[i] = i == 0 ? (w[13] >> 24) + 1 : (w[14] >> (8 * (i - 1)) & 255) + 1;
    }
    return m;
}

static bool parse_launch(const char *text, peer *p) {
    long smem;
    if (sscanf(text, "launch grid %d %d %d block %d %d %d smem %ld", &p->grid[0], &p->grid[1], &p->grid[2], &p->block[0], &p->block[1],
               &p->block[2], &smem) != 7)
        return false;
    p->shared = smem;
    const char *cluster = strstr(text, "cluster ");
    if (cluster != NULL && cluster < strchr(text, '\n') && sscanf(cluster, "cluster %d %d %d", &p->cluster[0], &p->cluster[1], &p->cluster[2]) != 3) return false;
    for (const char *line = strstr(text, "\nparam"); line != NULL; line = strstr(line + 1, "\nparam")) {
        int index, size, used;
        if (sscanf(line, "\nparam %d size %d:%n", &index, &size, &used) != 2 || index >= PARAMS_MAX || size > 128) return false;
        const char *at = line + used;
        for (int i = 0; i < size; i++) {
            if (i % 4 == 0) at++;
            unsigned byte;
            if (sscanf(at, "%2x", &byte) != 1) break;
            p->params[index][i] = (uint8_t)byte;
            at += 2;
        }
        p->sizes[index] = size;
        if (size == 128) {
            memcpy(&p->roles[index], p->params[index] + 4, 4);
            p->maps[index] = decode_bits(p->params[index]);
        }
        p->count = index + 1;
    }
    return p->count > 0;
}

static const char *after(const char *text, const char *key) {
    const char *at = text ? strstr(text, key) : NULL;
    return at ? at + strlen(key) : NULL;
}

static int read_list(const char *at, uint64_t *out, int max) {
    int n = 0;
    at = strchr(at, '[') + 1;
    while (n < max) {
        char *end;
        out[n++] = strtoull(at, &end, 10);
        at = end + strspn(end, ", \n");
        if (*at == ']') break;
    }
    return n;
}

static kernel_tensormap parse_map(const char *at, int32_t *role) {
    kernel_tensormap m = {.type = KERNEL_TENSORMAP_F16};
    uint64_t box[5] = {0};
    m.rank = atoi(after(at, "\"rank\": "));
    *role = (int32_t)(strtoull(after(at, "\"base\": "), NULL, 10) >> 32);
    read_list(after(at, "\"dims\": "), m.dims, 5);
    read_list(after(at, "\"strides_bytes\": "), m.strides + 1, 4);
    read_list(after(at, "\"box\": "), box, 5);
    for (int i = 0; i < m.rank; i++) m.box[i] = (uint32_t)box[i];
    m.swizzle = atoi(after(at, "\"swizzle\": "));
    return m;
}

static bool parse_json(const char *text, peer *p) {
    const char *arguments = after(text, "\"args\": ["), *maps = after(text, "\"tensor_maps\": "), *x = after(text, "\"blockIdx.x\": \"");
    const char *smem = after(text, "dyn_shared_memory\": \"");
    if (arguments == NULL || maps == NULL || x == NULL || smem == NULL) return false;
    p->grid[0] = atoi(x);
    p->grid[1] = p->grid[2] = p->block[1] = p->block[2] = 1;
    p->block[0] = atoi(after(text, "\"threadIdx.x\": \""));
    p->shared = atoi(smem);
    for (const char *at = arguments; *at != ']';) {
        char name[64], key[80];
        at = strchr(at, '"');
        if (at == NULL || sscanf(at, "\"%63[^\"]\"", name) != 1) return false;
        at += strlen(name) + 2;
        snprintf(key, sizeof key, "\"%s\": {", name);
        if (after(maps, key) == NULL) return false;
        p->maps[p->count] = parse_map(after(maps, key), &p->roles[p->count]);
        p->sizes[p->count++] = 128;
        at += strspn(at, ", \n");
    }
    return true;
}

/* The one whose launch is stated in words: a GEMM of 256^3 in tiles of 128 x 128. */
static void stated_launch(peer *p) {
    static const int sizes[] = {128, 4, 4, 8, 8, 128, 4, 4, 8, 8, 128, 4, 4, 8, 8, 4, 4, 4, 8, 8};
    p->grid[0] = p->grid[1] = 2, p->grid[2] = 1;
    p->block[0] = 128, p->block[1] = p->block[2] = 1;
    p->shared = 98352;
    p->count = 20;
    for (int i = 0; i < 20; i++) {
        p->sizes[i] = sizes[i];
        uint64_t v = sizes[i] == 8 && i < 15 ? (i % 5 == 3 ? 256 : 1) : sizes[i] == 4 ? 256 : 0;
        if (sizes[i] != 128) memcpy(p->params[i], &v, (size_t)sizes[i]);
        else {
            p->roles[i] = i / 5 + 1;
            p->maps[i] = (kernel_tensormap){.type = KERNEL_TENSORMAP_F16, .rank = 2, .swizzle = 3, .dims = {256, 256}, .strides = {0, 512}, .box = {64, 128}};
        }
    }
}

static const kernel_tensormap *map_of(const peer *p, int role) {
    for (int i = 0; i < p->count; i++)
        if (p->sizes[i] == 128 && p->roles[i] == role) return &p->maps[i];
    return NULL;
}

static bool find_shape(peer *p) {
    const kernel_tensormap *q = map_of(p, 1), *k = map_of(p, 2);
    if (q == NULL || k == NULL) return false;
    p->bf16 = q->type == KERNEL_TENSORMAP_BF16;
    p->causal = strstr(p->name, "causal") != NULL;
    p->gemm = strstr(p->name, "gemm") != NULL;
    p->s = (int64_t)k->dims[1];
    p->hkv = (int64_t)(k->dims[0] == 64 ? k->dims[2] / 2 : k->dims[2]);
    if (q->dims[0] == 64) p->hq = (int64_t)(q->rank == 3 ? q->dims[2] / 2 : q->dims[1]);
    else p->hq = (int64_t)(q->rank == 5 ? q->dims[1] * q->dims[3] : (int64_t)q->dims[1] != p->s ? q->dims[1] : q->dims[2]);
    return true;
}

/* ---- data ---- */

static float widen(const peer *p, uint16_t h) {
    return p->bf16 ? half_bf16_to_float(h) : half_f16_to_float(h);
}
static uint16_t narrow(const peer *p, float x) {
    return p->bf16 ? half_bf16_from_float(x) : half_f16_from_float(x);
}

static uint16_t *random_tensor(const peer *p, int64_t n, float scale, uint64_t seed) {
    uint16_t *t = aligned_alloc(256, (size_t)((n * 2 + 255) / 256 * 256));
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        t[i] = narrow(p, ((float)(seed >> 40) / 8388608.0f - 1) * scale);
    }
    return t;
}

typedef struct data {
    uint16_t *t[5]; /* by role */
    int64_t n[5];
} data;

static double attention_error(const peer *p, const data *d, int64_t i, int64_t h, double *scores) {
    int64_t g = h / (p->hq / p->hkv), keys = p->causal ? i + 1 : p->s;
    double most = -INFINITY, sum = 0, worst = 0;
    for (int64_t j = 0; j < keys; j++) {
        double dot = 0;
        for (int c = 0; c < D; c++) dot += (double)widen(p, d->t[1][(i * p->hq + h) * D + c]) * widen(p, d->t[2][(j * p->hkv + g) * D + c]);
        scores[j] = dot / sqrt(D);
        if (scores[j] > most) most = scores[j];
    }
    for (int64_t j = 0; j < keys; j++) sum += scores[j] = exp(scores[j] - most);
    for (int c = 0; c < D; c += 3) {
        double o = 0;
        for (int64_t j = 0; j < keys; j++) o += scores[j] * widen(p, d->t[3][(j * p->hkv + g) * D + c]);
        double e = fabs(o / sum - widen(p, d->t[4][(i * p->hq + h) * D + c]));
        if (!(e <= worst)) worst = e;
    }
    return worst;
}

static double gemm_error(const peer *p, const data *d, int64_t m) {
    double worst = 0;
    for (int64_t n = 0; n < 256; n++) {
        double sum = 0;
        for (int64_t k = 0; k < 256; k++) sum += (double)widen(p, d->t[1][m * 256 + k]) * widen(p, d->t[2][n * 256 + k]);
        double e = fabs(sum - widen(p, d->t[3][m * 256 + n])) / (fabs(sum) + 1);
        if (!(e <= worst)) worst = e;
    }
    return worst;
}

static double error_of(const peer *p, const data *d) {
    double worst = 0, *scores = malloc((size_t)(p->s + 1) * sizeof *scores);
    int64_t rows = p->gemm ? 256 : p->s;
    for (int64_t i = 0; i < rows; i += p->gemm ? 5 : 43)
        for (int64_t h = 0; h < (p->gemm ? 1 : p->hq); h += p->hq > 8 ? 7 : 1) {
            double e = p->gemm ? gemm_error(p, d, i) : attention_error(p, d, i, h, scores);
            if (!(e <= worst)) worst = e;
        }
    free(scores);
    return worst;
}

static void make_data(const peer *p, data *d) {
    int64_t nq = p->gemm ? 65536 : p->s * p->hq * D, nk = p->gemm ? 65536 : p->s * p->hkv * D;
    int64_t n[5] = {0, nq, nk, nk, nq};
    for (int r = 1; r < 5; r++) d->n[r] = n[r], d->t[r] = random_tensor(p, n[r], p->gemm ? 1 : r < 3 ? 5.1f : 1.7f, (uint64_t)r + 11);
}

static void run(const emu_module *m, const peer *p, int schedule, uint64_t seed, pool *workers) {
    const ptx_program *program = emu_module_program(m);
    const ptx_function *f;
    fa4_error err = {0};
    data d;
    if (ptx_program_entry(program, NULL, &f, &err) != FA4_OK || (int32_t)f->param_count != p->count) {
        CHECK(false, "%s: %u parameters, %d recorded", p->name, f ? f->param_count : 0, p->count);
        return;
    }
    uint8_t *block = calloc(1, f->param_bytes + 128);
    make_data(p, &d);
    int out = p->gemm ? 3 : 4;
    memset(d.t[out], 0xff, (size_t)d.n[out] * 2);
    for (int i = 0; i < p->count; i++) {
        const ptx_symbol *s = &program->symbols[f->params[i]];
        kernel_tensormap map = p->maps[i];
        if (p->sizes[i] != 128) {
            memcpy(block + s->offset, p->params[i], s->size < 128 ? s->size : 128);
            continue;
        }
        map.address = (uint64_t)(uintptr_t)d.t[p->roles[i]];
        CHECK(kernel_tensormap_encode(&map, block + s->offset, &err) == FA4_OK, "%s: %s", p->name, err.text);
    }
    static const char *const names[5] = {"", "q", "k", "v", "o"};
    emu_region regions[4];
    for (int r = 1; r < 5; r++) regions[r - 1] = (emu_region){d.t[r], (uint64_t)d.n[r] * 2, names[r], r != out};
    emu_launch launch = {.grid = {p->grid[0], p->grid[1], p->grid[2]}, .block = {p->block[0], p->block[1], p->block[2]},
                         .cluster = {p->cluster[0], p->cluster[1], p->cluster[2]}, .shared_bytes = p->shared,
                         .params = block, .param_bytes = f->param_bytes, .regions = regions, .region_count = 4, .seed = seed, .schedule = schedule,
                         .workers = workers};
    static emu_report report;
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    fa4_status status = emu_run(m, &launch, &report, &err);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    double bound = p->gemm ? (p->bf16 ? 8e-3 : 1e-3) : p->bf16 ? 1.8e-2 : 2.4e-3, error = status == FA4_OK ? error_of(p, &d) : NAN;
    printf("%-28s schedule %d seed %llu: %s, error %.2g, %.2f M instructions, %.2f s\n", p->name, schedule, (unsigned long long)seed,
           status == FA4_OK ? "ended" : err.text, error, (double)report.instructions * 1e-6,
           (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec));
    for (int i = 0; i < report.finding_count && i < 3 && status == FA4_OK; i++)
        printf("    %s x%d, line %d: %s\n", emu_kind_name(report.findings[i].kind), report.findings[i].count, report.findings[i].line, report.findings[i].text);
    CHECK(status == FA4_OK && error <= bound, "%s, schedule %d, seed %llu: %s, error %g, bound %g", p->name, schedule, (unsigned long long)seed,
          status == FA4_OK ? "ended" : err.text, error, bound);
    for (int r = 1; r < 5; r++) free(d.t[r]);
    free(block);
}

/* all: large kernels under every schedule too, the others with each warpgroup and unit starved in turn. */
static void run_schedules(const emu_module *m, const peer *p, bool all, pool *workers) {
    bool large = (int64_t)p->grid[0] * p->s > 200000;
    run(m, p, EMU_ROUND_ROBIN, 0, workers);
    if (!large || all) run(m, p, EMU_RANDOM, 1, workers);
    if (!large || all) run(m, p, EMU_STARVE, 2, workers);
    for (uint64_t seed = 3; all && !large && seed < 9; seed++) run(m, p, EMU_STARVE, seed, workers);
}

static void one_peer(const char *folder, const char *name, bool all, pool *workers) {
    peer *p = calloc(1, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", name);
    char *ptx = read_text(folder, name, ".ptx"), *launch = read_text(folder, name, ".launch.txt"), *json = read_text(folder, name, ".json");
    bool parsed = (launch != NULL && parse_launch(launch, p)) || (json != NULL && parse_json(json, p));
    if (!parsed && launch != NULL && strstr(name, "triton")) stated_launch(p), parsed = true;
    emu_module *m = NULL;
    fa4_error err = {0};
    if (ptx != NULL && stated_try(name, ptx, workers)) {
    } else if (ptx != NULL && parsed && find_shape(p)) {
        fa4_status status = emu_module_load(ptx, strlen(ptx), NULL, &m, &err);
        CHECK(status == FA4_OK, "%s: %s", name, err.text);
        if (status == FA4_OK) run_schedules(m, p, all, workers);
    } else {
        CHECK(false, "%s: no launch is recorded in a form that this test reads", name);
    }
    emu_module_destroy(m);
    free(ptx);
    free(launch);
    free(json);
    free(p);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(int argc, char **argv) {
    const char *folder = getenv("FA4_PEER_PTX"), *only = argc > 1 && strcmp(argv[1], "all") != 0 ? argv[1] : NULL;
    DIR *dir = folder ? opendir(folder) : NULL;
    char *names[256];
    int count = 0, right = 0;
    pool *workers = NULL;
    if (dir == NULL) {
        printf("skipped: FA4_PEER_PTX names no folder of peers' PTX\n0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL && count < 256;) {
        char *dot = strrchr(e->d_name, '.');
        if (dot == NULL || strcmp(dot, ".ptx") != 0 || (only && !strstr(e->d_name, only))) continue;
        names[count++] = strndup(e->d_name, (size_t)(dot - e->d_name));
    }
    closedir(dir);
    qsort(names, (size_t)count, sizeof *names, by_name);
    pool_create(pool_cpus(), &workers, NULL);
    for (int i = 0; i < count; i++) {
        int before = check_failed;
        one_peer(folder, names[i], argc > 1 && strcmp(argv[argc - 1], "all") == 0, workers);
        right += check_failed == before;
        free(names[i]);
    }
    pool_destroy(workers);
    printf("%d of %d kernels right\n", right, count);
    return check_report();
}
