/*
 * A program as PTX again. Scopes are flattened: registers and labels carry the unique names that
 * the parser gave them. Debugging information and pragmas are left out. Parsing the text gives an
 * equal program.
 */
#include "ptx/ptx_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text that grows ---- */

typedef struct writer {
    char *text;
    size_t used, room;
    bool failed;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
    if (w->failed) return;
    for (;;) {
        va_list args;
        va_start(args, format);
        int need = vsnprintf(w->text + w->used, w->room - w->used, format, args);
        va_end(args);
        if (need >= 0 && (size_t)need < w->room - w->used) {
            w->used += (size_t)need;
            return;
        }
        size_t room = w->room * 2 + (need > 0 ? (size_t)need : 0);
        char *text = realloc(w->text, room);
        if (text == NULL) {
            w->failed = true;
            return;
        }
        w->text = text;
        w->room = room;
    }
}

/* ---- operands into a fixed room ---- */

static void add(char **at, char *end, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char **at, char *end, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int need = *at < end ? vsnprintf(*at, (size_t)(end - *at), format, args) : 0;
    va_end(args);
    if (need > 0) *at = need < end - *at ? *at + need : end;
}

size_t ptx_print_register(const ptx_function *f, int32_t reg_class, uint32_t index, char *text,
                          size_t bytes) {
    static const char *const letters[PTX_CLASS_COUNT] = {"%p", "%rs", "%r", "%rd", "%rq"};
    int n = -1;
    for (uint32_t i = 0; f != NULL && i < f->registers_count; i++) {
        const ptx_registers *r = &f->registers[i];
        if (r->reg_class != reg_class || index < r->first || index - r->first >= r->count) continue;
        n = r->range ? snprintf(text, bytes, "%s%u", r->name, index - r->first)
                     : snprintf(text, bytes, "%s", r->name);
        return n > 0 ? (size_t)n : 0;
    }
    if (reg_class >= 0 && reg_class < PTX_CLASS_COUNT)
        n = snprintf(text, bytes, "%s(%u)", letters[reg_class], index);
    return n > 0 ? (size_t)n : 0;
}

static void add_register(const ptx_function *f, const ptx_operand *o, char **at, char *end) {
    if (*at >= end) return;
    size_t n = ptx_print_register(f, o->reg_class, o->index, *at, (size_t)(end - *at));
    *at = n < (size_t)(end - *at) ? *at + n : end;
}

static void add_symbol(const ptx_program *program, uint32_t index, char **at, char *end) {
    if (program->symbols != NULL && index < program->symbol_count)
        add(at, end, "%s", program->symbols[index].name);
    else
        add(at, end, "variable");
}

static void add_offset(int64_t value, char **at, char *end) {
    if (value != 0) add(at, end, "+%" PRId64, value); /* ptxas reads +-4, not -4 */
}

static void add_address(const ptx_program *program, const ptx_function *f, const ptx_operand *o,
                        char **at, char *end) {
    if (o->sub == PTX_BASE_NONE) {
        add(at, end, "%" PRId64, o->u.value);
        return;
    }
    if (o->sub == PTX_BASE_REGISTER)
        add_register(f, o, at, end);
    else
        add_symbol(program, o->index, at, end);
    add_offset(o->u.value, at, end);
}

static void add_elements(const ptx_program *program, const ptx_function *f, const ptx_operand *o,
                         const char *marks, char **at, char *end) {
    add(at, end, "%c", marks[0]);
    for (uint32_t i = 0; i < o->count; i++) {
        if (i > 0) add(at, end, ", ");
        ptx_operand_print(program, f, &o->u.elements[i], at, end);
    }
    add(at, end, "%c", marks[1]);
}

static void add_immediate(const ptx_operand *o, char **at, char *end) {
    if (o->sub == PTX_LITERAL_F32)
        add(at, end, "0f%08" PRIX32, (uint32_t)o->u.value);
    else if (o->sub == PTX_LITERAL_F64)
        add(at, end, "0d%016" PRIX64, (uint64_t)o->u.value);
    else
        add(at, end, "%" PRId64, o->u.value);
}

void ptx_operand_print(const ptx_program *program, const ptx_function *f, const ptx_operand *o,
                       char **at, char *end) {
    switch (o->kind) {
    case PTX_REGISTER:
        if (o->sub) add(at, end, "!");
        add_register(f, o, at, end);
        break;
    case PTX_SINK:
        add(at, end, "_");
        break;
    case PTX_IMMEDIATE:
        add_immediate(o, at, end);
        break;
    case PTX_SPECIAL:
        add(at, end, "%s", ptx_special_name((int32_t)o->index));
        break;
    case PTX_SYMBOL:
        add_symbol(program, o->index, at, end);
        add_offset(o->u.value, at, end);
        break;
    case PTX_ADDRESS:
        add(at, end, "[");
        add_address(program, f, o, at, end);
        add(at, end, "]");
        break;
    case PTX_TENSOR:
        add(at, end, "[");
        add_address(program, f, &o->u.elements[0], at, end);
        add(at, end, ", ");
        add_elements(program, f, &o->u.elements[1], "{}", at, end);
        add(at, end, "]");
        break;
    case PTX_VECTOR:
        add_elements(program, f, o, "{}", at, end);
        break;
    case PTX_LIST:
        add_elements(program, f, o, "()", at, end);
        break;
    case PTX_PAIR:
        ptx_operand_print(program, f, &o->u.elements[0], at, end);
        add(at, end, "|");
        ptx_operand_print(program, f, &o->u.elements[1], at, end);
        break;
    case PTX_LABEL:
        add(at, end, "%s", f && f->labels ? f->labels[o->u.value].name : "label");
        break;
    case PTX_TARGETS:
        add(at, end, "targets");
        break;
    case PTX_FUNCTION:
        add(at, end, "%s", program->functions ? program->functions[o->index].name : "function");
        break;
    default:
        break;
    }
}

static size_t print_instr(const ptx_program *program, const ptx_function *f, const ptx_instr *instr,
                          const char *targets, char *text, size_t bytes) {
    char *at = text, *end = text + bytes;
    if (bytes > 0) *text = '\0';
    if (instr->guard >= 0) {
        add(&at, end, instr->guard_negated ? "@!" : "@");
        add_register(f,
                     &(ptx_operand){.reg_class = PTX_CLASS_PRED, .index = (uint32_t)instr->guard},
                     &at, end);
        add(&at, end, " ");
    }
    add(&at, end, "%s", instr->form->text);
    for (uint32_t i = 0; i < instr->operand_count; i++) {
        add(&at, end, i == 0 ? " " : ", ");
        if (instr->operands[i].kind == PTX_TARGETS && targets != NULL)
            add(&at, end, "%s", targets);
        else
            ptx_operand_print(program, f, &instr->operands[i], &at, end);
    }
    add(&at, end, ";");
    return (size_t)(at - text);
}

size_t ptx_print_instr(const ptx_program *program, const ptx_function *f, const ptx_instr *instr,
                       char *text, size_t bytes) {
    return print_instr(program, f, instr, NULL, text, bytes);
}

/* ---- declarations ---- */

static void put_linkage(writer *w, uint8_t linkage) {
    static const char *const texts[] = {"", ".extern ", ".visible ", ".weak ", ".common "};
    put(w, "%s", texts[linkage]);
}

static const ptx_relocation *relocation_at(const ptx_symbol *s, uint64_t at) {
    for (uint32_t i = 0; i < s->relocation_count; i++)
        if (s->relocations[i].at == at) return &s->relocations[i];
    return NULL;
}

static void put_address(writer *w, const ptx_program *program, const ptx_relocation *r) {
    put(w, r->generic ? "generic(%s)" : "%s", program->symbols[r->symbol].name);
    if (r->addend != 0) put(w, "+%" PRId64, r->addend);
}

static void put_initialiser(writer *w, const ptx_program *program, const ptx_symbol *s) {
    uint32_t bytes = (uint32_t)ptx_type_bits(s->type) / 8;
    bool scalar = s->size == (uint64_t)bytes; /* ptxas takes no braces there */
    put(w, scalar ? " = " : " = {");
    for (uint64_t at = 0; at < s->size; at += bytes) {
        const ptx_relocation *r = s->relocation_count ? relocation_at(s, at) : NULL;
        uint64_t value = 0;
        if (at > 0) put(w, ", ");
        for (uint32_t i = 0; i < bytes && i < 8; i++)
            value |= (uint64_t)s->init[at + i] << (8 * i);
        if (r != NULL)
            put_address(w, program, r);
        else if (s->type == PTX_TYPE_F32)
            put(w, "0f%08" PRIX64, value);
        else if (s->type == PTX_TYPE_F64)
            put(w, "0d%016" PRIX64, value);
        else
            put(w, "%" PRIu64, value);
    }
    if (!scalar) put(w, "}");
}

static void put_variable(writer *w, const ptx_program *program, const ptx_symbol *s) {
    static const char *const spaces[PTX_SPACE_COUNT] = {[PTX_SPACE_PARAM_FUNC] = "param"};
    uint64_t element = (uint64_t)ptx_type_bits(s->type) / 8 * s->vector;
    const char *space = spaces[s->space] ? spaces[s->space] : ptx_space_name(s->space);
    put(w, ".%s .align %u ", space, s->align);
    if (s->vector > 1) put(w, ".v%u ", s->vector);
    put(w, ".%s %s", ptx_type_name(s->type), s->name);
    if (s->dynamic)
        put(w, "[]");
    else if (s->size != element)
        put(w, "[%" PRIu64 "]", s->size / element);
    if (s->init != NULL) put_initialiser(w, program, s);
}

static void put_params(writer *w, const ptx_program *program, const uint32_t *symbols,
                       uint32_t count) {
    put(w, "(");
    for (uint32_t i = 0; i < count; i++) {
        put(w, i ? ",\n    " : "\n    ");
        put_variable(w, program, &program->symbols[symbols[i]]);
    }
    put(w, ")");
}

static void put_extent(writer *w, const char *name, const int32_t extent[3]) {
    if (extent[0] || extent[1] || extent[2])
        put(w, "\n%s %d, %d, %d", name, extent[0], extent[1], extent[2]);
}

static void put_head(writer *w, const ptx_program *program, const ptx_function *f) {
    put_linkage(w, f->linkage);
    put(w, f->entry ? ".entry " : ".func ");
    if (f->result_count) put_params(w, program, f->results, f->result_count);
    put(w, " %s", f->name);
    put_params(w, program, f->params, f->param_count);
    put_extent(w, ".reqntid", f->reqntid);
    put_extent(w, ".maxntid", f->maxntid);
    put_extent(w, ".reqnctapercluster", f->reqnctapercluster);
    if (f->cluster_explicit) put(w, "\n.explicitcluster");
    if (f->minnctapersm) put(w, "\n.minnctapersm %d", f->minnctapersm);
    if (f->maxnreg) put(w, "\n.maxnreg %d", f->maxnreg);
    if (f->maxclusterrank) put(w, "\n.maxclusterrank %d", f->maxclusterrank);
}

/* ---- bodies ---- */

static void put_targets(writer *w, const ptx_function *f, const ptx_operand *list,
                        const char *name) {
    put(w, "%s: .branchtargets ", name);
    for (uint32_t i = 0; i < list->count; i++)
        put(w, "%s%s", i ? ", " : "", f->labels[list->u.elements[i].u.value].name);
    put(w, ";\n");
}

static void put_body(writer *w, const ptx_program *program, const ptx_function *f) {
    char line[16384], targets[32] = "";
    int32_t owner = (int32_t)(f - program->functions);
    put(w, "\n{\n");
    for (uint32_t i = 0; i < f->registers_count; i++) {
        const ptx_registers *r = &f->registers[i];
        if (r->range)
            put(w, "    .reg .%s %s<%u>;\n", ptx_type_name(r->type), r->name, r->count);
        else
            put(w, "    .reg .%s %s;\n", ptx_type_name(r->type), r->name);
    }
    for (uint32_t i = 0; i < program->symbol_count; i++) {
        const ptx_symbol *s = &program->symbols[i];
        if (s->function != owner || s->space == PTX_SPACE_PARAM) continue;
        put(w, "    ");
        put_variable(w, program, s);
        put(w, ";\n");
    }
    uint32_t label = 0;
    for (uint32_t i = 0; i <= f->instr_count; i++) {
        for (; label < f->label_count && f->labels[label].instr == i; label++)
            put(w, "%s:\n", f->labels[label].name);
        if (i == f->instr_count) break;
        const ptx_instr *instr = &f->instrs[i];
        for (uint32_t k = 0; k < instr->operand_count; k++) {
            if (instr->operands[k].kind != PTX_TARGETS) continue;
            snprintf(targets, sizeof targets, "$targets_%u", i);
            put_targets(w, f, &instr->operands[k], targets);
        }
        (void)print_instr(program, f, instr, targets, line, sizeof line);
        put(w, "    %s\n", line);
    }
    put(w, "}\n\n");
}

fa4_status ptx_print(const ptx_program *program, char **text, size_t *length, fa4_error *err) {
    writer w = {.text = malloc(65536), .room = 65536};
    *text = NULL;
    *length = 0;
    if (w.text == NULL) return error_set(err, FA4_NO_MEMORY, "PTX: out of memory while printing");
    put(&w, ".version %d.%d\n.target %s\n.address_size 64\n\n", program->version_major,
        program->version_minor, program->target);
    for (uint32_t i = 0; i < program->symbol_count; i++) {
        if (program->symbols[i].function >= 0) continue;
        put_linkage(&w, program->symbols[i].linkage);
        put_variable(&w, program, &program->symbols[i]);
        put(&w, ";\n");
    }
    for (uint32_t i = 0; i < program->function_count; i++) {
        if (program->functions[i].entry && !program->functions[i].prototype) continue;
        put_head(&w, program, &program->functions[i]);
        put(&w, ";\n");
    }
    for (uint32_t i = 0; i < program->function_count; i++) {
        if (program->functions[i].prototype) continue;
        put_head(&w, program, &program->functions[i]);
        put_body(&w, program, &program->functions[i]);
    }
    if (w.failed) {
        free(w.text);
        return error_set(err, FA4_NO_MEMORY, "PTX: out of memory while printing");
    }
    *text = w.text;
    *length = w.used;
    return FA4_OK;
}
