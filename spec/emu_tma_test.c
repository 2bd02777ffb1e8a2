/*
 * Bulk tensor loads: ranks 1 to 5, every swizzle, element sizes 2, 4 and 8, starts inside, across and outside the tensor's edges. The tile in
 * shared memory is compared byte by byte with the definition, written here element by element. FA4_PROBE_WRITE=folder writes the kernels and
 * the configurations for a device, FA4_PROBE_READ=file compares its shared memory (per configuration 8 bytes of status and 32 KiB). An H200
 * (driver 580.159, maps by its own encoder) gave the same bytes for all 160.
 */
#include "check.h"
#include "emu/emu.h"
#include "kernel/tensormap.h"

#include <stdlib.h>
#include <string.h>

enum { TILE_BYTES = 32768, SOURCE_BYTES = 1 << 20, CONFIGS = 160 };

typedef struct config {
    kernel_tensormap map; /* address 0 is the start of the source */
    int32_t start[5];
} config;

static uint8_t source[SOURCE_BYTES] __attribute__((aligned(256)));
static uint8_t tile[TILE_BYTES] __attribute__((aligned(256)));
static uint64_t seed = 20240229;

static uint32_t pick(uint32_t low, uint32_t high) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return low + (uint32_t)(seed >> 33) % (high - low + 1);
}

static void make_source(void) {
    for (uint32_t i = 0; i < SOURCE_BYTES; i++) source[i] = (uint8_t)(i * 131 + (i >> 8) * 7 + 1);
}

/* Dimensions small enough for the source, a box small enough for the tile; rows padded to multiples of 16 bytes. */
static config make_config(int index) {
    static const int32_t types[] = {KERNEL_TENSORMAP_F16, KERNEL_TENSORMAP_F32, KERNEL_TENSORMAP_U64, KERNEL_TENSORMAP_BF16};
    config c = {.map = {.type = types[pick(0, 3)], .rank = 1 + index % 5, .swizzle = index / 5 % 4}};
    uint32_t size = (uint32_t)kernel_tensormap_element_bytes(c.map.type), span = c.map.swizzle == 3 ? 128 : c.map.swizzle == 2 ? 64 : c.map.swizzle == 1 ? 32 : 256;
    uint32_t inner = 16 * pick(1, span / 16), bytes;
    uint64_t stride = 0;
    if (pick(0, 2) > 0) inner = span;
    bytes = c.map.swizzle ? span : inner; /* the pitch of a row */
    c.map.box[0] = inner / size;
    c.map.dims[0] = pick(1, 2 * c.map.box[0] + 3);
    stride = (c.map.dims[0] * size + 15) / 16 * 16 + 16 * pick(0, 1);
    for (int32_t d = 1; d < c.map.rank; d++) {
        c.map.box[d] = pick(1, d == 1 ? 16 : 4);
        while (bytes * c.map.box[d] > TILE_BYTES) c.map.box[d]--;
        bytes *= c.map.box[d];
        c.map.dims[d] = pick(1, d == 1 ? 20 : 5);
        c.map.strides[d] = stride;
        stride *= c.map.dims[d];
    }
    for (int32_t d = 0; d < c.map.rank; d++)
        c.start[d] = index % 3 == 0 ? 0 : (int32_t)pick(0, (uint32_t)c.map.dims[d] + 2 * c.map.box[d]) - (int32_t)c.map.box[d] - 1;
    c.start[0] = c.start[0] / (int32_t)(16 / size) * (int32_t)(16 / size); /* whole 16 bytes: the device refuses others */
    return c;
}

static void expected(const config *c, uint8_t *want) {
    const kernel_tensormap *m = &c->map;
    uint32_t size = (uint32_t)kernel_tensormap_element_bytes(m->type), mask = m->swizzle == 3 ? 7 : m->swizzle == 2 ? 3 : m->swizzle == 1 ? 1 : 0, total = 1;
    memset(want, 0xa5, TILE_BYTES);
    for (int32_t d = 0; d < m->rank; d++) total *= m->box[d];
    for (uint32_t e = 0; e < total; e++) {
        uint32_t rest = e, pitch = m->swizzle == 3 ? 128 : m->swizzle == 2 ? 64 : m->swizzle == 1 ? 32 : m->box[0] * size, at = e / m->box[0] * pitch + e % m->box[0] * size;
        uint64_t address = 0;
        bool inside = true;
        for (int32_t d = 0; d < m->rank; d++) {
            int64_t x = c->start[d] + (int64_t)(rest % m->box[d]);
            rest /= m->box[d];
            inside = inside && x >= 0 && x < (int64_t)m->dims[d];
            address += (uint64_t)x * (d ? m->strides[d] : size);
        }
        at ^= (at >> 7 & mask) << 4;
        if (inside) memcpy(want + at, source + address, size);
        else memset(want + at, 0, size);
    }
}

static void write_kernel(char *text, size_t bytes, int rank) {
    static const char *const coordinates[6] = {"", "c0", "c0, c1", "c0, c1, c2", "c0, c1, c2, c3", "c0, c1, c2, c3, c4"};
    snprintf(text, bytes, ".version 8.0\n.target sm_90a\n.address_size 64\n"
             ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 pd, .param .u32 tx, .param .align 4 .b8 start[20])\n.maxntid 128\n{\n"
             ".shared .align 1024 .b8 sm[32768];\n.shared .align 8 .b64 bar;\n.reg .pred p, q; .reg .b32 t, i, x, y, s, b, n, c<5>; .reg .b64 o, m, e;\n"
             "mov.u32 t, %%tid.x; mov.u32 s, sm; mov.u32 b, bar; mov.u32 i, t; mov.b32 x, 0xa5a5a5a5;\n"
             "F: shl.b32 y, i, 2; add.s32 y, y, s; st.shared.b32 [y], x; add.s32 i, i, 128; setp.lt.u32 p, i, 8192; @p bra F;\n"
             "fence.proxy.async.shared::cta; setp.eq.s32 q, t, 0; @q mbarrier.init.shared.b64 [b], 1; fence.mbarrier_init.release.cluster; bar.sync 0;\n"
             "ld.param.u32 n, [tx]; ld.param.u32 c0, [start]; ld.param.u32 c1, [start+4]; ld.param.u32 c2, [start+8]; ld.param.u32 c3, [start+12]; ld.param.u32 c4, [start+16];\n"
             "mov.b64 m, map; cvta.param.u64 m, m; @!q bra W; mbarrier.arrive.expect_tx.shared.b64 _, [b], n;\n"
             "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [m, {%s}], [b];\n"
             "W: mbarrier.try_wait.parity.shared.b64 p, [b], 0; @!p bra W;\nmov.u32 i, t; ld.param.u64 o, [pd];\n"
             "G: shl.b32 y, i, 2; cvt.u64.u32 e, y; add.s64 e, e, o; add.s32 y, y, s; ld.shared.b32 x, [y]; st.global.b32 [e], x; add.s32 i, i, 128; setp.lt.u32 p, i, 8192; @p bra G;\nret;\n}\n",
             rank, coordinates[rank]);
}

static void check_config(int index, const config *c, emu_module *module, const uint8_t *device) {
    static uint8_t want[TILE_BYTES];
    static emu_report report;
    struct {
        uint8_t map[128];
        uint64_t out;
        uint32_t tx;
        int32_t start[5];
    } params = {.out = (uint64_t)(uintptr_t)tile, .tx = (uint32_t)kernel_tensormap_box_bytes(&c->map)};
    fa4_error err = {0};
    kernel_tensormap map = c->map;
    map.address = (uint64_t)(uintptr_t)source;
    memcpy(params.start, c->start, sizeof params.start);
    CHECK(kernel_tensormap_encode(&map, params.map, &err) == FA4_OK, "%d: %s", index, err.text);
    emu_region regions[] = {{source, sizeof source, "source", 1}, {tile, sizeof tile, "tile", 0}};
    emu_launch launch = {.grid = {1, 1, 1}, .block = {128, 1, 1}, .params = &params, .param_bytes = 160, .regions = regions, .region_count = 2,
                         .schedule = index % 3, .seed = (uint64_t)index};
    fa4_status status = emu_run(module, &launch, &report, &err);
    expected(c, want);
    CHECK(status == FA4_OK && memcmp(tile, want, TILE_BYTES) == 0, "%d: rank %d, swizzle %d: the tile differs; %s", index, c->map.rank, c->map.swizzle, err.text);
    if (device) CHECK(memcmp(tile, device, TILE_BYTES) == 0, "%d: rank %d, swizzle %d, type %d: the device's tile differs", index, c->map.rank, c->map.swizzle, c->map.type);
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t count) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) return;
    fwrite(bytes, count, 1, file);
    fclose(file);
}

int main(void) {
    static config configs[CONFIGS];
    static uint8_t device[8 + TILE_BYTES];
    static char text[8192];
    const char *folder = getenv("FA4_PROBE_WRITE"), *results = getenv("FA4_PROBE_READ");
    FILE *read = results ? fopen(results, "rb") : NULL;
    emu_module *modules[6] = {0};
    int compared = 0;
    make_source();
    for (int rank = 1; rank <= 5; rank++) {
        fa4_error err = {0};
        char name[16];
        write_kernel(text, sizeof text, rank);
        CHECK(emu_module_load(text, strlen(text), NULL, &modules[rank], &err) == FA4_OK, "%s", err.text);
        snprintf(name, sizeof name, "%d.ptx", rank);
        if (folder) write_file(folder, name, text, strlen(text));
    }
    for (int i = 0; i < CONFIGS; i++) {
        configs[i] = make_config(i);
        bool have = read != NULL && fread(device, sizeof device, 1, read) == 1 && memcmp(device, "\0\0\0\0\0\0\0", 8) == 0;
        check_config(i, &configs[i], modules[configs[i].map.rank], have ? device + 8 : NULL);
        compared += have;
    }
    if (folder) write_file(folder, "configs", configs, sizeof configs), write_file(folder, "source", source, sizeof source);
    if (read != NULL) printf("%d of %d compared with the device\n", compared, CONFIGS), fclose(read);
    for (int rank = 1; rank <= 5; rank++) emu_module_destroy(modules[rank]);
    return check_report();
}
