/*
 * The emulator against an H200: runs the PTX of spec/probes/ and compares with what the device gave (spec/probes/h200.txt). Results are
 * bit-equal but for approximations, whose bounds the bundle states. Controls with one input moved must not be equal. FA4_PROBES_RAW names a
 * folder with all results of a device run, for the place of a difference; FA4_PROBES_ONLY part of a name; FA4_PROBES_TABLE a file for the table; FA4_PROBES_CPU
 * an instruction set.
 */
#include "emu/emu.h"
#include "check.h"
#include "kernel/tensormap.h"
#include "probes/probe.h"

enum { RECORDS_MAX = 4096, FORMS_MEASURED_MAX = 256 };

typedef struct record {
    char name[64];
    int32_t form; /* -1: the device stopped with an error */
    uint64_t hash;
    const char *samples; /* or the error */
} record;

typedef struct suite {
    record records[RECORDS_MAX];
    int32_t record_count;
    uint8_t shown[PTX_OP_COUNT]; /* opcode -> in a probe that ran on the device */
    int32_t equal, near_count, refused, stopped, differ, no_record;
    FILE *table;
    const char *raw, *cpu;
} suite;

static void read_records(suite *s, char *text) {
    for (char *line; (line = strsep(&text, "\n")) != NULL && s->record_count < RECORDS_MAX;) {
        record *r = &s->records[s->record_count];
        int used = 0;
        unsigned long long hash;
        if (sscanf(line, "failed %63s %n", r->name, &used) == 1 && used > 0) {
            r->form = -1, r->samples = line + used;
            s->record_count++;
            continue;
        }
        if (sscanf(line, "%63s %d %llx%n", r->name, &r->form, &hash, &used) != 3 || used == 0) continue;
        r->hash = hash;
        r->samples = line + used;
        s->record_count++;
    }
}

static const record *find_record(const suite *s, const char *name, int32_t form) {
    for (int32_t i = 0; i < s->record_count; i++)
        if (s->records[i].form == form && strcmp(s->records[i].name, name) == 0) return &s->records[i];
    return NULL;
}

/* ---- running ---- */

static fa4_status fill_params(const probe *p, const emu_module *m, uint8_t *block, const uint8_t *in, uint8_t *out, fa4_error *err) {
    const ptx_program *program = emu_module_program(m);
    const ptx_function *f = NULL;
    FA4_TRY(ptx_program_entry(program, NULL, &f, err));
    if (f->param_count != (uint32_t)p->map_count + 2) return error_set(err, FA4_BAD_ARGUMENT, "parameters: expected %d, got %u", p->map_count + 2, f->param_count);
    for (int i = 0; i < p->map_count; i++) {
        kernel_tensormap map = {.type = p->maps[i].type, .rank = p->maps[i].rank, .swizzle = p->maps[i].swizzle,
                                .address = (uint64_t)(uintptr_t)(p->maps[i].out ? out : in)};
        uint64_t step = (uint64_t)kernel_tensormap_element_bytes(map.type);
        for (int k = 0; k < map.rank; k++) {
            map.dims[k] = p->maps[i].dims[k], map.box[k] = p->maps[i].box[k], map.strides[k] = step;
            step *= map.dims[k];
        }
        FA4_TRY(kernel_tensormap_encode(&map, block + program->symbols[f->params[i]].offset, err));
    }
    memcpy(block + program->symbols[f->params[p->map_count]].offset, &in, 8);
    memcpy(block + program->symbols[f->params[p->map_count + 1]].offset, &out, 8);
    return FA4_OK;
}

static void *aligned(int64_t bytes) {
    return aligned_alloc(PROBE_ALIGN, (size_t)((bytes + PROBE_ALIGN - 1) / PROBE_ALIGN * PROBE_ALIGN));
}

static fa4_status run_probe(const probe *p, const emu_module *m, const uint8_t *in, uint8_t *out, int schedule, fa4_error *err) {
    _Alignas(64) uint8_t block[512] = {0};
    static emu_report report;
    const ptx_function *f;
    memset(out, PROBE_FILL, (size_t)p->out_bytes);
    FA4_TRY(fill_params(p, m, block, in, out, err));
    FA4_TRY(ptx_program_entry(emu_module_program(m), NULL, &f, err));
    emu_region regions[] = {{(void *)(uintptr_t)in, (uint64_t)p->in_bytes, "in", 1}, {out, (uint64_t)p->out_bytes, "out", 0}};
    emu_launch launch = {.grid = {p->grid, 1, 1}, .block = {p->block, 1, 1}, .shared_bytes = p->shared, .params = block, .param_bytes = f->param_bytes,
                         .regions = regions, .region_count = 2, .seed = 1, .schedule = schedule, .max_instructions = 1 << 22};
    return emu_run(m, &launch, &report, err);
}

/* ---- comparing ---- */

static double real(uint64_t bits, const char *form, int half) {
    if (strstr(form, ".f64")) {
        double x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    uint32_t word = (uint32_t)bits;
    if (strstr(form, "bf16") && !strstr(form, "m64n")) word = half ? word & 0xffff0000u : word << 16;
    else if (strstr(form, "k16.f16") || (strstr(form, ".f16") && !strstr(form, "m64n"))) {
        uint32_t h = half ? word >> 16 : word & 0xffff, e = h >> 10 & 31, m = h & 0x3ff;
        double x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
        return h & 0x8000 ? -x : x;
    }
    float x;
    memcpy(&x, &word, sizeof x);
    return (double)x;
}

typedef struct distance {
    double relative, absolute; /* the largest seen */
    int64_t different, beyond, count;
    int64_t first;
} distance;

static void measure(const probe *p, const char *form, uint64_t device, uint64_t mine, int64_t at, distance *d) {
    d->count++;
    if (device == mine) return;
    d->different++;
    for (int half = 0; half < (strstr(form, "x2") || strstr(form, "k16.f16") ? 2 : 1); half++) {
        double x = real(device, form, half), y = real(mine, form, half), gap = fabs(x - y);
        if (x == y || (isnan(x) && isnan(y))) continue;
        bool inside = gap <= p->absolute + p->relative * fabs(y);
        if (!inside && d->beyond++ == 0) d->first = at;
        if (gap > d->absolute) d->absolute = gap;
        if (fabs(y) > 1e-37 && gap / fabs(y) > d->relative) d->relative = gap / fabs(y);
        if (isnan(gap)) d->relative = NAN;
    }
}

static uint64_t element(const probe *p, const uint8_t *form, int64_t i) {
    uint64_t value = 0;
    memcpy(&value, form + i * p->width, (size_t)p->width);
    return value;
}

static bool compare_near(suite *s, const probe *p, int f, const uint8_t *form, const record *r) {
    distance d = {0};
    const char *at = r->samples;
    for (int64_t i = 0; i < probe_samples(p); i++) {
        char *end;
        uint64_t device = strtoull(at, &end, 16);
        if (end == at) break;
        at = end;
        int64_t place = probe_sample_at(p, i);
        measure(p, p->forms[f], device, element(p, form, place), place, &d);
    }
    CHECK(d.count == probe_samples(p) && d.beyond == 0, "%s, %s: %lld of %lld samples beyond the bound, first at %lld; largest relative %g, absolute %g", p->name, p->forms[f],
          (long long)d.beyond, (long long)d.count, (long long)d.first, d.relative, d.absolute);
    if (s->table)
        fprintf(s->table, "near %s | %s | %lld of %lld differ, relative %.3g (bound %.3g), absolute %.3g (bound %.3g)\n", p->name, p->forms[f], (long long)d.different, (long long)d.count,
                d.relative, p->relative, d.absolute, p->absolute);
    return d.beyond == 0;
}

/* With the raw results of a run at hand: where and how the two differ. */
static void explain(const suite *s, const probe *p, int f, const uint8_t *form, const uint8_t *in) {
    char path[512], name[64];
    int number;
    long long offset = -1, bytes;
    snprintf(path, sizeof path, "%s/raw.txt", s->raw);
    FILE *file = fopen(path, "r");
    while (file != NULL && fscanf(file, "%63s %d %lld %lld", name, &number, &offset, &bytes) == 4 && strcmp(name, p->name) != 0) offset = -1;
    if (file) fclose(file);
    if (offset < 0) return;
    uint8_t *device = malloc((size_t)p->form_bytes);
    snprintf(path, sizeof path, "%s/raw.%d.bin", s->raw, number);
    file = fopen(path, "rb");
    if (file && fseek(file, offset + f * p->form_bytes, SEEK_SET) == 0 && fread(device, 1, (size_t)p->form_bytes, file) == (size_t)p->form_bytes) {
        distance d = {0};
        int64_t shown = 0, differ = 0;
        for (int64_t i = 0; i < p->form_bytes / p->width; i++) {
            uint64_t x = element(p, device, i), y = element(p, form, i);
            measure(p, p->forms[f], x, y, i, &d);
            differ += x != y;
            bool beyond = p->relative > 0 || p->absolute > 0 ? d.beyond > shown : x != y;
            if (!beyond || shown++ >= 8) continue;
            printf("    %s, %s [%lld]: device %llx, emulator %llx; inputs", p->name, p->forms[f], (long long)i, (unsigned long long)x, (unsigned long long)y);
            for (int k = 0; k < p->input_count && p->form_bytes == p->n * p->width; k++) {
                uint64_t value = 0;
                int32_t size = probe_kind_bytes(p->inputs[k].kind);
                memcpy(&value, in + p->inputs[k].offset + i * size, (size_t)size);
                printf(" %llx", (unsigned long long)value);
            }
            printf("\n");
        }
        printf("%s, %s: %lld of %lld differ, %lld beyond; relative %.4g, absolute %.4g\n", p->name, p->forms[f], (long long)differ, (long long)(p->form_bytes / p->width),
               (long long)d.beyond, d.relative, d.absolute);
    }
    if (file) fclose(file);
    free(device);
}

static void mark_opcodes(suite *s, const probe *p, const ptx_program *program) {
    uint8_t seen[PTX_OP_COUNT] = {0};
    for (uint32_t i = 0; i < program->function_count; i++)
        for (uint32_t k = 0; k < program->functions[i].instr_count; k++) seen[program->functions[i].instrs[k].form->opcode] = 1;
    for (int i = 0; i < PTX_OP_COUNT; i++) {
        s->shown[i] |= seen[i];
        if (s->table && seen[i]) fprintf(s->table, "opcode %s | %s | %lld\n", ptx_opcode_name(i), p->name, (long long)p->n);
    }
}

static void compare(suite *s, const probe *p, const uint8_t *in, const uint8_t *out) {
    for (int f = 0; f < p->form_count; f++) {
        const uint8_t *form = out + f * p->form_bytes;
        const record *r = find_record(s, p->name, f);
        bool is_near = p->relative > 0 || p->absolute > 0, good;
        CHECK(r != NULL, "%s, %s: the device's result is not recorded", p->name, p->forms[f]);
        if (r == NULL) {
            s->no_record++;
            continue;
        }
        if (is_near) good = compare_near(s, p, f, form, r);
        else {
            good = probe_hash(form, (size_t)p->form_bytes, PROBE_HASH_START) == r->hash;
            CHECK(good, "%s, %s: not what the device gave", p->name, p->forms[f]);
        }
        if (!good) s->differ++;
        else if (is_near) s->near_count++;
        else s->equal++;
        if (s->raw && (!good || is_near)) explain(s, p, f, form, in);
    }
}

/* One input moved by one place must be noticed. */
static void control(const suite *s, const probe *p, const emu_module *m, uint8_t *in, uint8_t *out) {
    fa4_error err = {0};
    const record *r = find_record(s, p->name, 0);
    int64_t step = probe_kind_bytes(p->inputs[0].kind) * (strncmp(p->name, "wgmma", 5) == 0 ? 64 : 16); /* a row */
    memmove(in, in + step, (size_t)(p->in_bytes - step));
    fa4_status status = run_probe(p, m, in, out, EMU_ROUND_ROBIN, &err);
    CHECK(status == FA4_OK && r != NULL && probe_hash(out, (size_t)p->form_bytes, PROBE_HASH_START) != r->hash, "%s with its input shifted by a row equals the device", p->name);
}

static bool is_control(const char *name) {
    return strcmp(name, "wgmma.ss.bf16.n64") == 0 || strcmp(name, "tensor.load.2d.swizzle.128") == 0 || strcmp(name, "fma.f32") == 0;
}

static void one_probe(suite *s, const probe *p) {
    emu_module *m = NULL;
    fa4_error err = {0};
    ptx_program *program = NULL;
    CHECK(ptx_parse(p->ptx, p->ptx_bytes, &program, &err) == FA4_OK, "%s: %s", p->name, err.text);
    if (program != NULL && find_record(s, p->name, 0)) mark_opcodes(s, p, program);
    ptx_program_destroy(program);
    fa4_status status = emu_module_load(p->ptx, p->ptx_bytes, s->cpu, &m, &err);
    if (status == FA4_UNSUPPORTED) {
        CHECK(p->refused, "%s: %s", p->name, err.text);
        s->refused++;
        if (s->table) fprintf(s->table, "refused %s | %s\n", p->name, err.text);
        return;
    }
    CHECK(status == FA4_OK, "%s: %s", p->name, err.text);
    if (status != FA4_OK) return;
    uint8_t *in = aligned(p->in_bytes), *out = aligned(p->out_bytes);
    probe_fill_inputs(p, in);
    status = run_probe(p, m, in, out, EMU_ROUND_ROBIN, &err);
    const record *stopped = find_record(s, p->name, -1);
    if (stopped != NULL) {
        CHECK(status == FA4_FINDING, "%s: the device stopped (%s), the emulator found nothing", p->name, stopped->samples);
        s->stopped++;
        if (s->table) fprintf(s->table, "stopped %s | %s | %s\n", p->name, stopped->samples, err.text);
    } else {
        CHECK(status == FA4_OK, "%s: %s", p->name, err.text);
    }
    if (status == FA4_OK && !stopped) compare(s, p, in, out);
    if (status == FA4_OK && is_control(p->name)) control(s, p, m, in, out);
    free(in);
    free(out);
    emu_module_destroy(m);
}

/* Every opcode that sm_90a has is shown; the others are Blackwell's. */
static void check_opcodes(const suite *s) {
    static const uint8_t blackwell[PTX_OP_COUNT] = {
#define ROW(id, ...) [PTX_OP_##id] = PTX_OP_##id >= PTX_OP_TCGEN05_ALLOC,
        PTX_OPCODES(ROW)
#undef ROW
    };
    for (int i = 0; i < PTX_OP_COUNT; i++) {
        CHECK(s->shown[i] || blackwell[i], "%s: no probe shows it", ptx_opcode_name(i));
        if (s->table && !s->shown[i]) fprintf(s->table, "not shown %s\n", ptx_opcode_name(i));
    }
}

int main(void) {
    static suite s;
    static probe p;
    const char *only = getenv("FA4_PROBES_ONLY"), *table = getenv("FA4_PROBES_TABLE"), *bundle_path = getenv("FA4_PROBES_PTX"), *record_path = getenv("FA4_PROBES_RECORD");
    char *bundle = probe_read_file(bundle_path ? bundle_path : FA4_SOURCE_DIR "/spec/probes/probes.ptx");
    char *records = probe_read_file(record_path ? record_path : FA4_SOURCE_DIR "/spec/probes/h200.txt");
    int count = 0;
    CHECK(bundle != NULL && records != NULL, "spec/probes/probes.ptx or h200.txt cannot be read");
    if (bundle == NULL || records == NULL) return check_report();
    s.raw = getenv("FA4_PROBES_RAW");
    s.cpu = getenv("FA4_PROBES_CPU");
    s.table = table ? fopen(table, "w") : NULL;
    read_records(&s, records);
    for (const char *at = bundle; probe_read(&at, &p);) {
        if (only && !strstr(p.name, only)) continue;
        one_probe(&s, &p);
        count++;
    }
    if (only == NULL) {
        CHECK(count >= 150, "%d probes", count);
        check_opcodes(&s);
    }
    printf("%d probes: %d results bit-equal, %d within their bounds, %d differ, %d not recorded; %d probes refused by the emulator, %d stopped on both\n", count, s.equal, s.near_count, s.differ,
           s.no_record, s.refused, s.stopped);
    if (s.table) fclose(s.table);
    free(bundle);
    free(records);
    return check_report();
}
