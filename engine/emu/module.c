/* Modules: PTX text parsed, its segments laid out and initialised, every entry decoded for the best instruction set at hand. */
#include "emu_internal.h"

#include <stdlib.h>

const ptx_program *emu_module_program(const emu_module *module) {
    return module->program;
}

const ptx_function *emu_module_function(const emu_module *module, const ptx_function *entry) {
    return module->codes[entry - module->program->functions].function;
}

static fa4_status choose_kits(emu_module *m, const char *cpu, fa4_error *err) {
    bool avx2 = false, avx512 = false;
#if defined(__x86_64__)
    avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
    bool scalar = cpu != NULL && strcmp(cpu, "scalar") == 0, only_avx2 = cpu != NULL && strcmp(cpu, "avx2") == 0;
    bool want_512 = cpu == NULL || strncmp(cpu, "avx512", 6) == 0;
    if (cpu != NULL && !scalar && !only_avx2 && !want_512)
        return error_set(err, FA4_BAD_ARGUMENT, "emulator: cpu: expected \"scalar\", \"avx2\" or \"avx512\", got \"%s\"", cpu);
    m->alu = &emu_alu_portable;
    m->mma = &emu_mma_portable;
    if (avx2 && !scalar) m->alu = &emu_alu_avx2, m->mma = &emu_mma_avx2;
    if (avx512 && want_512) m->alu = &emu_alu_avx512, m->mma = &emu_mma_avx512;
    return FA4_OK;
}

static fa4_status lay_segments(emu_module *m, fa4_error *err) {
    const ptx_program *p = m->program;
    if (p->global_bytes > (1ull << 32) || p->const_bytes > (1ull << 20))
        return error_set(err, FA4_UNSUPPORTED, "the module's .global or .const data is too large");
    m->globals = aligned_alloc(256, (p->global_bytes + 256) / 256 * 256);
    m->constants = aligned_alloc(256, (p->const_bytes + 256) / 256 * 256);
    if (m->globals == NULL || m->constants == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    memset(m->globals, 0, (p->global_bytes + 256) / 256 * 256);
    memset(m->constants, 0, (p->const_bytes + 256) / 256 * 256);
    for (uint32_t i = 0; i < p->symbol_count; i++) {
        const ptx_symbol *s = &p->symbols[i];
        if (s->space != PTX_SPACE_GLOBAL && s->space != PTX_SPACE_CONST) continue;
        uint8_t *at = (s->space == PTX_SPACE_GLOBAL ? m->globals : m->constants) + s->offset;
        if (s->init != NULL) memcpy(at, s->init, s->size);
        for (uint32_t r = 0; r < s->relocation_count; r++) {
            const ptx_symbol *to = &p->symbols[s->relocations[r].symbol];
            uint64_t address = to->space == PTX_SPACE_GLOBAL ? (uint64_t)(uintptr_t)m->globals + to->offset
                                                             : to->offset | (s->relocations[r].generic ? EMU_WINDOW_CONST : 0);
            address += (uint64_t)s->relocations[r].addend;
            memcpy(at + s->relocations[r].at, &address, s->relocations[r].bytes);
        }
    }
    return FA4_OK;
}

static fa4_status load(emu_module *m, const char *text, size_t length, const char *cpu, fa4_error *err) {
    FA4_TRY(choose_kits(m, cpu, err));
    FA4_TRY(ptx_parse(text, length, &m->program, err));
    if (m->program->address_bits != 64) return error_set(err, FA4_UNSUPPORTED, "only .address_size 64 is executed, this is %d", m->program->address_bits);
    FA4_TRY(lay_segments(m, err));
    m->codes = calloc(m->program->function_count + 1, sizeof *m->codes);
    if (m->codes == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < m->program->function_count; i++)
        if (m->program->functions[i].entry && !m->program->functions[i].prototype)
            FA4_TRY(emu_lower(m, &m->program->functions[i], &m->codes[i], err));
    return FA4_OK;
}

fa4_status emu_module_load(const char *text, size_t length, const char *cpu, emu_module **module, fa4_error *err) {
    emu_module *m = calloc(1, sizeof *m);
    *module = NULL;
    if (m == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    fa4_status status = load(m, text, length, cpu, err);
    if (status != FA4_OK) emu_module_destroy(m);
    else *module = m;
    return status;
}

void emu_module_destroy(emu_module *m) {
    if (m == NULL) return;
    for (uint32_t i = 0; m->codes != NULL && i < m->program->function_count; i++) emu_code_destroy(&m->codes[i]);
    free(m->codes);
    free(m->globals);
    free(m->constants);
    ptx_program_destroy(m->program);
    free(m);
}
