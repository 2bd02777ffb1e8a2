/* ptx_parse: the parser's life, its errors, and the finished program. */
#include "ptx/ptx_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a program's owner holds: the public part first. */
typedef struct owned_program {
    ptx_program program;
    ptx_arena arena;
} owned_program;

/* ---- errors ---- */

enum { ROOM_FOR_COUNT = 80 };

static bool note(ptx_parser *p, fa4_status status, uint32_t line, const char *format,
                 va_list args) {
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 32 || (unsigned char)*c == 127) *c = '?';
    if (p->errors++ == 0) p->status = status;
    size_t room = sizeof p->error_text - ROOM_FOR_COUNT - p->error_used;
    char *at = p->error_text + p->error_used;
    int used = snprintf(at, room, "%sline %u: %s", p->error_used ? "\n" : "", line, text);
    if (used > 0 && (size_t)used < room) {
        p->error_used += (size_t)used;
    } else {
        *at = '\0';
        p->untold++;
    }
    return false;
}

bool ptx_fail(ptx_parser *p, uint32_t line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool result = note(p, FA4_BAD_FILE, line, format, args);
    va_end(args);
    return result;
}

bool ptx_fail_unsupported(ptx_parser *p, uint32_t line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool result = note(p, FA4_UNSUPPORTED, line, format, args);
    va_end(args);
    return result;
}

bool ptx_no_memory(ptx_parser *p) {
    p->arena.failed = true;
    return false;
}

static fa4_status report(ptx_parser *p, fa4_error *err) {
    if (p->arena.failed) return error_set(err, FA4_NO_MEMORY, "PTX: out of memory");
    char *at = p->error_text + p->error_used;
    size_t room = sizeof p->error_text - p->error_used;
    int used = 0;
    if (p->untold > 0 || p->errors >= PTX_ERRORS_MAX)
        used = snprintf(at, room, "\nand %s%u more errors",
                        p->errors >= PTX_ERRORS_MAX ? "at least " : "", p->untold);
    if (p->repeats > 0 && used >= 0 && (size_t)used < room)
        snprintf(at + used, room - (size_t)used, "\n(%u more lines with instructions named above)",
                 p->repeats);
    return error_set(err, p->status, "%s", p->error_text);
}

/* ---- marks ---- */

bool ptx_accept(ptx_parser *p, char mark) {
    const ptx_token *t = &p->lexer.token;
    if (t->kind != PTX_TOKEN_MARK || *t->text != mark) return false;
    ptx_lex_next(&p->lexer);
    return true;
}

bool ptx_expect(ptx_parser *p, char mark) {
    if (ptx_accept(p, mark)) return true;
    const ptx_token *t = &p->lexer.token;
    if (t->kind == PTX_TOKEN_END)
        return ptx_fail(p, t->line, "expected '%c', but the text ends", mark);
    return ptx_fail(p, t->line, "expected '%c', got '%.*s'", mark,
                    (int)(t->length > 60 ? 60 : t->length), t->text);
}

/* ---- the program ---- */

static bool prepare(ptx_parser *p) {
    p->functions.item_bytes = sizeof(ptx_function *);
    p->symbols.item_bytes = sizeof(ptx_symbol);
    p->forms.item_bytes = sizeof(const ptx_form *);
    p->files.item_bytes = sizeof(ptx_file_line);
    p->locs.item_bytes = sizeof(ptx_loc);
    p->instrs.item_bytes = sizeof(ptx_instr);
    p->registers.item_bytes = sizeof(ptx_registers);
    p->label_list.item_bytes = sizeof(ptx_label);
    p->fixups.item_bytes = sizeof(ptx_fixup);
    p->targets.item_bytes = sizeof(ptx_operand);
    p->function_index = -1;
    if (ptx_list_add(&p->locs) == NULL) return ptx_no_memory(p);
    return ptx_forms_prepare(p);
}

static bool keep_program(ptx_parser *p) {
    ptx_program *program = p->program;
    if (!ptx_keep_files(p) || !ptx_layout_shared(p)) return false;
    ptx_function *functions = ptx_arena_take(&p->arena, p->functions.count * sizeof *functions);
    if (functions == NULL) return ptx_no_memory(p);
    for (size_t i = 0; i < p->functions.count; i++)
        functions[i] = *((ptx_function **)p->functions.items)[i];
    program->functions = functions;
    program->function_count = (uint32_t)p->functions.count;
    program->symbol_count = (uint32_t)p->symbols.count;
    program->symbols = ptx_list_copy(&p->symbols, &p->arena);
    program->form_count = (uint32_t)p->forms.count;
    program->forms = ptx_list_copy(&p->forms, &p->arena);
    program->loc_count = (uint32_t)p->locs.count;
    program->locs = ptx_list_copy(&p->locs, &p->arena);
    return !p->arena.failed;
}

static void free_parser(ptx_parser *p) {
    ptx_list *lists[] = {&p->functions, &p->symbols,   &p->forms,      &p->files,  &p->locs,
                         &p->instrs,    &p->registers, &p->label_list, &p->fixups, &p->targets};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        ptx_list_free(lists[i]);
    ptx_names *tables[] = {&p->names, &p->labels, &p->unique, &p->forms_by_text, &p->modifiers};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        ptx_names_free(tables[i]);
}

fa4_status ptx_parse(const char *text, size_t length, ptx_program **out, fa4_error *err) {
    *out = NULL;
    if (length > PTX_TEXT_BYTES_MAX)
        return error_set(err, FA4_BAD_FILE, "PTX of %zu bytes: at most %d are read", length,
                         PTX_TEXT_BYTES_MAX);
    owned_program *owner = calloc(1, sizeof *owner);
    ptx_parser *p = calloc(1, sizeof *p);
    fa4_status status = FA4_NO_MEMORY;
    if (owner != NULL && p != NULL) {
        p->program = &owner->program;
        ptx_lex_start(&p->lexer, text, length);
        bool good = prepare(p) && ptx_parse_module(p) && p->errors == 0 && keep_program(p);
        status = good && p->errors == 0 ? FA4_OK : report(p, err);
        owner->arena = p->arena;
        free_parser(p);
    } else {
        status = error_set(err, FA4_NO_MEMORY, "PTX: out of memory");
    }
    free(p);
    if (status == FA4_OK)
        *out = &owner->program;
    else if (owner != NULL)
        ptx_program_destroy(&owner->program);
    return status;
}

void ptx_program_destroy(ptx_program *program) {
    if (program == NULL) return;
    owned_program *owner = (owned_program *)program;
    ptx_arena_free(&owner->arena);
    free(owner);
}

fa4_status ptx_program_entry(const ptx_program *program, const char *name,
                             const ptx_function **entry, fa4_error *err) {
    char names[1024] = "";
    size_t used = 0;
    uint32_t count = 0;
    *entry = NULL;
    for (uint32_t i = 0; i < program->function_count; i++) {
        const ptx_function *f = &program->functions[i];
        if (!f->entry || f->prototype) continue;
        if (name == NULL || strcmp(name, f->name) == 0) *entry = f;
        count++;
        int n = snprintf(names + used, sizeof names - used, "%s%.200s", used ? ", " : "", f->name);
        if (n > 0 && used + (size_t)n < sizeof names) used += (size_t)n;
    }
    if (count == 0) return error_set(err, FA4_BAD_ARGUMENT, "the PTX has no entry");
    if (name == NULL && count > 1)
        return *entry = NULL, error_set(err, FA4_BAD_ARGUMENT,
                                        "entry: the PTX has %u, name one of: %s", count, names);
    if (*entry == NULL)
        return error_set(err, FA4_BAD_ARGUMENT, "entry: no '%.200s'; there are: %s", name, names);
    return FA4_OK;
}
