/* The PTX reader: every opcode is read and printed back, decoded fields are right, layout is right,
 * errors name their line, all of them. */
#include "check.h"
#include "ptx_lines.h"

#include "ptx/ptx.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEADER(target) ".version 9.0\n.target " target "\n.address_size 64\n"
#define FUNCTION                                                                                   \
    ".func (.param .b32 fr) fn(.param .b32 fa) { .reg .b32 t; ld.param.b32 t, [fa]; "              \
    "st.param.b32 [fr], t; ret; }\n"

static ptx_program *parse(const char *text) {
    fa4_error err = {0};
    ptx_program *program;
    fa4_status status = ptx_parse(text, strlen(text), &program, &err);
    CHECK(status == FA4_OK, "%s\n%.400s", err.text, text);
    return program;
}

static ptx_program *parse_body(const char *target, const char *body) {
    char *text = malloc(strlen(body) + 4096);
    sprintf(text, ".version 9.0\n.target %s\n.address_size 64\n%s%s%s%s\n%s", target,
            PTX_LINES_MODULE, FUNCTION, PTX_LINES_HEAD, body, PTX_LINES_TAIL);
    ptx_program *program = parse(text);
    free(text);
    return program;
}

// The text is refused, and the error holds each of the parts.
static void refuse(const char *text, fa4_status want, const char *part, const char *part2) {
    fa4_error err = {0};
    ptx_program *program;
    fa4_status status = ptx_parse(text, strlen(text), &program, &err);
    CHECK(status == want, "status %d, want %d for %.300s: %s", status, want, text, err.text);
    CHECK(program == NULL, "a refused text gave a program");
    CHECK(strstr(err.text, part) != NULL, "'%s' is not in: %s", part, err.text);
    CHECK(part2 == NULL || strstr(err.text, part2) != NULL, "'%s' is not in: %s", part2, err.text);
    ptx_program_destroy(program);
}

static void refuse_line(const char *target, const char *line, const char *part) {
    char text[8192];
    snprintf(text, sizeof text, ".version 9.0\n.target %s\n.address_size 64\n%s%s%s\n%s", target,
             PTX_LINES_MODULE, PTX_LINES_HEAD, line, PTX_LINES_TAIL);
    refuse(text, FA4_BAD_FILE, "line ", part);
}

/* ---- every opcode ---- */

static void check_round_trip(const ptx_program *program, const char *what) {
    char *text, *again;
    size_t length, length_again;
    fa4_error err = {0};
    ptx_program *second = NULL;
    CHECK(ptx_print(program, &text, &length, &err) == FA4_OK, "%s", err.text);
    fa4_status status = ptx_parse(text, length, &second, &err);
    CHECK(status == FA4_OK, "%s: printed text is refused: %s\n%s", what, err.text, text);
    if (status == FA4_OK) {
        CHECK(ptx_program_equal(program, second), "%s: the printed program differs:\n%s", what,
              text);
        CHECK(ptx_print(second, &again, &length_again, &err) == FA4_OK, "%s", err.text);
        CHECK(length == length_again && memcmp(text, again, length) == 0,
              "%s: printing twice differs", what);
        free(again);
    }
    ptx_program_destroy(second);
    free(text);
}

static void cover(const char *target, const char *const *lines, size_t count, bool *seen) {
    for (size_t i = 0; i < count; i++) {
        ptx_program *program = parse_body(target, lines[i]);
        if (program == NULL) continue;
        const ptx_function *entry = NULL;
        CHECK(ptx_program_entry(program, "k", &entry, NULL) == FA4_OK, "no entry k");
        CHECK(entry->instr_count >= 2, "'%s' was not kept", lines[i]);
        for (uint32_t k = 0; k < program->form_count; k++)
            seen[program->forms[k]->opcode] = true;
        check_round_trip(program, lines[i]);
        ptx_program_destroy(program);
    }
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void test_every_opcode(void) {
    bool seen[PTX_OP_COUNT] = {false};
    cover("sm_80", ptx_lines_80, COUNT(ptx_lines_80), seen);
    cover("sm_90", ptx_lines_90, COUNT(ptx_lines_90), seen);
    cover("sm_90a", ptx_lines_90a, COUNT(ptx_lines_90a), seen);
    cover("sm_100a", ptx_lines_100a, COUNT(ptx_lines_100a), seen);
    for (int i = 0; i < PTX_OP_COUNT; i++)
        CHECK(seen[i], "no line shows '%s'", ptx_opcode_name(i));
}

/* ---- decoded fields ---- */

static const ptx_instr *only(const ptx_program *program) {
    const ptx_function *entry;
    ptx_program_entry(program, "k", &entry, NULL);
    return &entry->instrs[0];
}

static void test_forms(void) {
    ptx_program *p = parse_body("sm_100a", "@!p3 fma.rz.ftz.f32x2 d1, d2, d3, d4;");
    const ptx_instr *i = only(p);
    CHECK(i->form->opcode == PTX_OP_FMA && i->form->rounding == PTX_RZ && i->form->ftz == 1 &&
              i->form->sat == 0,
          "fma");
    CHECK(i->form->type_count == 1 && i->form->types[0] == PTX_TYPE_F32X2, "fma type");
    CHECK(i->guard == 3 && i->guard_negated == 1, "guard %d", i->guard);
    CHECK(i->operand_count == 4 && i->operands[3].kind == PTX_REGISTER &&
              i->operands[3].reg_class == PTX_CLASS_B64 && i->operands[3].index == 4,
          "d4");
    ptx_program_destroy(p);

    p = parse_body("sm_100a", "cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_"
                              "tx::bytes.L2::cache_hint "
                              "[sh+16], [d1, {r1, 7, r3, r4}], [r5+8], d2;");
    i = only(p);
    CHECK(i->form->dimension == 4 && i->form->load_mode == PTX_TILE &&
              i->form->completion == PTX_COMPLETE_TX && i->form->l2_hint,
          "tensor copy");
    CHECK(i->form->space_count == 2 && i->form->spaces[0] == PTX_SPACE_SHARED_CTA &&
              i->form->spaces[1] == PTX_SPACE_GLOBAL,
          "spaces");
    CHECK(i->operands[0].kind == PTX_ADDRESS && i->operands[0].sub == PTX_BASE_SYMBOL &&
              i->operands[0].u.value == 16,
          "[sh+16]");
    CHECK(strcmp(p->symbols[i->operands[0].index].name, "sh") == 0, "the symbol of [sh+16]");
    const ptx_operand *map = &i->operands[1];
    CHECK(map->kind == PTX_TENSOR && map->u.elements[1].count == 4 &&
              map->u.elements[1].u.elements[1].u.value == 7,
          "coordinates");
    CHECK(i->form->cluster == 0, "a copy within the CTA is no cluster instruction");
    ptx_program_destroy(p);

    p = parse_body("sm_90a", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f1, f2, f3, f4}, "
                             "d1, d2, p1, 1, -1, 0, 1;");
    i = only(p);
    CHECK(i->form->m == 64 && i->form->n == 8 && i->form->k == 16 && i->form->type_count == 3,
          "wgmma shape");
    CHECK(i->operand_count == 8 && i->operands[5].u.value == -1, "wgmma immediates");
    CHECK(i->operands[0].u.elements[3].index == 140 + 4,
          "f registers follow r registers in class b32");
    ptx_program_destroy(p);

    p = parse_body("sm_90", "setp.lt.and.f32 p1|p2, f2, 0.5, !p3;");
    i = only(p);
    CHECK(i->form->compare == PTX_LT && i->form->operation == PTX_AND, "setp");
    CHECK(i->operands[0].kind == PTX_PAIR && i->operands[0].u.elements[1].index == 2, "p1|p2");
    CHECK(i->operands[2].u.value == 0x3f000000 && i->operands[2].sub == PTX_LITERAL_F32,
          "0.5 as f32 bits");
    CHECK(i->operands[3].sub == 1, "!p3");
    ptx_program_destroy(p);

    p = parse_body("sm_90",
                   "setp.lo.u32 p1, r1, 0xFFFFFFFF; mul.lo.u32 r1, r2, 3; mul.hi.s32 r1, r2, 3;");
    i = only(p);
    CHECK(i[0].form->compare == PTX_LO && i[0].operands[2].u.value == -1, "setp.lo");
    CHECK(i[1].form->half == PTX_HALF_LO && i[2].form->half == PTX_HALF_HI, "mul.lo and mul.hi");
    ptx_program_destroy(p);

    static const struct {
        const char *line;
        int64_t value;
    } sums[] = {{"ld.b32 r1, [d1 - 4 + 2];", -2},      {"ld.b32 r1, [d1+-4];", -4},
                {"ld.b32 r1, [ d1 + 0xc ];", 12},      {"ld.shared.b32 r1, [sh+2*(3+1)];", 8},
                {"ld.shared.b32 r1, [64];", 64},       {"ld.shared.b32 r1, [sh-1-1];", -2},
                {"ld.b32 r1, [d1 + 1 - (2 - 3)];", 2}, {"ld.b32 r1, [d1];", 0}};
    for (size_t k = 0; k < COUNT(sums); k++) {
        p = parse_body("sm_90", sums[k].line);
        CHECK(only(p)->operands[1].u.value == sums[k].value, "%s: %lld", sums[k].line,
              (long long)only(p)->operands[1].u.value);
        ptx_program_destroy(p);
    }
    static const char *const cluster[] = {
        "mapa.u64 d1, d2, 1;", "barrier.cluster.arrive;",
        "tcgen05.mma.cta_group::2.kind::f16 [r1], d1, d2, r2, p1;"};
    for (size_t k = 0; k < COUNT(cluster); k++) {
        p = parse_body("sm_100a", cluster[k]);
        CHECK(only(p)->form->cluster == 1, "%s is not marked", cluster[k]);
        ptx_program_destroy(p);
    }
}

/* ---- scopes, labels, symbols ---- */

static void test_scopes(void) {
    ptx_program *p = parse_body("sm_90", "{ .reg .b32 r1; mov.b32 r1, 1; L: bra L; } { .reg .pred "
                                         "q; L: @q bra L; bra OUT; } OUT: mov.b32 r1, 2;");
    const ptx_function *f;
    CHECK(ptx_program_entry(p, NULL, &f, NULL) == FA4_OK, "entry");
    CHECK(f->instrs[0].operands[0].index == 140 + 80, "the inner r1 is a new register, got %u",
          f->instrs[0].operands[0].index);
    CHECK(f->instrs[1].operands[0].index == 1 && f->instrs[2].operands[0].index == 2,
          "each scope has its own L");
    CHECK(f->instrs[3].operands[0].index == 4, "a label of the outer scope that comes later");
    CHECK(f->instrs[4].operands[0].index == 1, "the outer r1 is back");
    CHECK(f->reg_count[PTX_CLASS_PRED] == 9, "predicates %u", f->reg_count[PTX_CLASS_PRED]);
    char name[64];
    ptx_print_register(f, PTX_CLASS_B32, 220, name, sizeof name);
    CHECK(strcmp(name, "r1__2") == 0, "inner name '%s'", name);
    ptx_print_instr(p, f, &f->instrs[2], name, sizeof name);
    CHECK(strcmp(name, "@q__3 bra L__3;") == 0, "instruction '%s'", name);
    check_round_trip(p, "scopes");
    ptx_program_destroy(p);
}

static void test_layout(void) {
    refuse(HEADER("sm_90") ".global .u64 x[2] = {later, 7};\n.global .u64 later;\n", FA4_BAD_FILE,
           "unknown variable 'later'", NULL);
    ptx_program *p = parse(HEADER("sm_90") ".global .align 4 .b32 one[2] = {1, -1};\n.shared "
                                           ".align 8 .b8 unused[4096];\n.shared .align 4 .b32 a;\n"
                                           ".extern .shared .align 1024 .b8 dyn[];\n.global .align "
                                           "8 .u64 ptrs[3] = {one+4, generic(one), 7};\n"
                                           ".const .f32 half = 0.5;\n"
                                           ".visible .entry e1(.param .u8 x, .param .align 64 .b8 "
                                           "map[128], .param .u32 y) .reqntid 64 { .reg .b32 r;\n"
                                           " .shared .align 16 .b8 mine[20]; ld.shared.b32 r, [a]; "
                                           "st.shared.b32 [mine], r; mov.b32 r, dyn; ret; }\n"
                                           ".visible .entry e2() { ret; }\n");
    const ptx_function *e1, *e2;
    fa4_error err;
    CHECK(ptx_program_entry(p, "e1", &e1, &err) == FA4_OK &&
              ptx_program_entry(p, "e2", &e2, &err) == FA4_OK,
          "entries");
    CHECK(ptx_program_entry(p, NULL, &e2, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "e1, e2") != NULL,
          "%s", err.text);
    CHECK(ptx_program_entry(p, "e3", &e2, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "e3") != NULL,
          "%s", err.text);
    CHECK(e1->shared_bytes == 36 && e1->shared_dynamic == 1024 && e1->shared_align == 1024,
          "shared %u, dynamic at %u", e1->shared_bytes, e1->shared_dynamic);
    CHECK(e1->shared_offset[1] == PTX_NOWHERE && e1->shared_offset[2] == 0,
          "a is first, unused is nowhere");
    CHECK(p->symbols[e1->params[1]].offset == 64 && p->symbols[e1->params[2]].offset == 192 &&
              e1->param_bytes == 196,
          "parameters");
    CHECK(e1->reqntid[0] == 64 && e1->reqntid[1] == 1 && e1->reqntid[2] == 1, "reqntid");
    const ptx_symbol *ptrs = &p->symbols[4];
    CHECK(strcmp(ptrs->name, "ptrs") == 0 && ptrs->relocation_count == 2 &&
              ptrs->relocations[0].addend == 4 && ptrs->relocations[1].generic == 1,
          "relocations");
    CHECK(ptrs->offset == 8 && p->global_bytes == 32 && ptrs->init[16] == 7, "global segment");
    CHECK(memcmp(p->symbols[5].init, &(float){0.5f}, 4) == 0, "a scalar's initial value");
    check_round_trip(p, "layout");
    ptx_program_destroy(p);
}

static void test_lines(void) {
    ptx_program *p = parse(HEADER("sm_90") ".visible .entry k() {\n.loc 1 10 3\nmembar.gl;\n\n.loc "
                                           "2 20 5, function_name $L0, inlined_at 1 11 7\nret;\n}\n"
                                           ".file 1 \"a.cu\"\n.file 2 \"b.h\", 5, 6\n.section "
                                           ".debug_str\n{\n$L0:\n.b8 1\n}\n");
    const ptx_function *f = &p->functions[0];
    const ptx_loc *loc = &p->locs[f->instrs[0].loc];
    CHECK(f->instrs[0].line == 6 && f->instrs[1].line == 9, "PTX lines %u, %u", f->instrs[0].line,
          f->instrs[1].line);
    CHECK(loc->line == 10 && strcmp(p->files[loc->file], "a.cu") == 0 && loc->inlined == 0,
          "first loc");
    loc = &p->locs[f->instrs[1].loc];
    CHECK(loc->line == 20 && strcmp(p->files[loc->file], "b.h") == 0, "second loc");
    CHECK(p->locs[loc->inlined].line == 11 && p->locs[loc->inlined].file == 1,
          "where it was inlined");
    ptx_program_destroy(p);
}

/* ---- refusals ---- */

static void test_refusals(void) {
    static const struct {
        const char *line, *part;
    } bad[] = {
        {"frobnicate.b32 r1, r2;", "unknown opcode 'frobnicate.b32'"},
        {"add.rn.wobble.f32 f1, f2, f3;", "'.wobble' in 'add.rn.wobble.f32'"},
        {"add.f16x4 r1, r2, r3;", "'.f16x4'"},
        {"shl.f32 f1, f2, r3;", "a type that this opcode does not take: '.f32'"},
        {"add.rn.rz.f32 f1, f2, f3;", "'.rz'"},
        {"ex2.f32 f1, f2;", "lacks a modifier: approx"},
        {"add f1, f2, f3;", "lacks a type"},
        {"add.s32 r1, r2;", "does not take 2 operands"},
        {"add.s32 r1, r2, r3, r4;", "does not take 4 operands"},
        {"add.s32 d1, r2, r3;", "operand 1 (d1)"},
        {"add.s32 r1, r2, h3;", "operand 3 (h3)"},
        {"add.s32 r1, [d2], r3;", "operand 2 ([d2])"},
        {"add.f32 f1, f2, 7;", "operand 3 (7)"},
        {"mov.b64 {h1, h2}, d1;", "operand 1"},
        {"ld.global.v2.f32 {f1, f2, f3}, [d1];", "operand 1"},
        {"ld.global.f32 f1, [nowhere];", "unknown variable 'nowhere'"},
        {"mov.b32 r1, r140;", "unknown name 'r140'"},
        {"mov.b32 r1, %r5;", "unknown register '%r5'"},
        {"bra r1|END;", "operand 1 (r1|label)"},
        {"bra NOWHERE;", "unknown label 'NOWHERE'"},
        {"@r1 bra END;", "expected a predicate register"},
        {"X: X: ret;", "defined twice"},
        {".reg .b32 r<3>;", "declared twice"},
        {".reg .b32 z<0>;", "0 registers"},
        {".reg .b32 z<4000000000>;", "registers 'z'"},
        {".reg .b33 z;", "unknown register type '.b33'"},
        {".weird 3;", "unknown directive '.weird'"},
        {"mov.b32 r1, 0x1ffffffffffffffff;", "expected a number"},
        {"mov.b32 r1, ((((1;", "expected"},
        {"mov.f32 f1, 0f3F80000;", "expected a number"},
        {"max.f32 f1, f2, f3, f4;", "needs sm_100"},
        {"add.rn.f32x2 d1, d2, d3;", "needs sm_100 or higher, the target is sm_90"},
        {"wgmma.fence.sync.aligned;", "needs sm_90a"},
        {"tcgen05.wait::ld.sync.aligned;", "needs sm_100a"},
        {"setmaxnreg.inc.sync.aligned.u32 64;", "needs sm_90a or sm_100a"},
        {"cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [d1, {r1, r2}], [sh];",
         "needs 3 coordinates, got 2"},
        {"shfl.sync.idx.b32 r1, r2, r3, r4;", "does not take 4 operands"},
        {"call fn, (r1);", "'fn'"},
        {"ret", "expected ';'"},
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        refuse_line("sm_90", bad[i].line, bad[i].part);
    refuse_line("sm_100a", "tcgen05.ld.sync.aligned.32x32b.x4.b32 {r1, r2}, [r5];",
                "needs 4 registers, got 2");
    refuse_line("sm_80", "elect.sync _|p1, -1;", "needs sm_90 or higher");
}

static void test_module_refusals(void) {
    refuse("", FA4_BAD_FILE, "not PTX", NULL);
    refuse("\x7f"
           "ELF\x02\x01",
           FA4_BAD_FILE, "not PTX", NULL);
    refuse("int main() {}", FA4_BAD_FILE, "not PTX", "'int'");
    refuse(".version 9.0\n.entry k() { ret; }", FA4_BAD_FILE, ".target", NULL);
    refuse(HEADER("sm_120a") ".entry k() { ret; }", FA4_UNSUPPORTED, "sm_120a", "line 2");
    refuse(HEADER("sm_103a") ".entry k() { ret; }", FA4_UNSUPPORTED, "sm_103a", NULL);
    refuse(".version 12.0\n.target sm_90\n", FA4_UNSUPPORTED, "12.0", NULL);
    refuse(".version 9.0\n.target sm_90\n.address_size 32\n", FA4_UNSUPPORTED, "32", NULL);
    refuse(HEADER("sm_90") ".entry k() { ret;", FA4_BAD_FILE, "ends inside the function", NULL);
    refuse(HEADER("sm_90") ".entry k() { ret; } .entry k() { ret; }", FA4_BAD_FILE,
           "declared twice", NULL);
    refuse(HEADER("sm_90") ".global .b8 x[99999999999];", FA4_BAD_FILE, "too large", NULL);
    refuse(HEADER("sm_90") ".global .b32 x[2] = {1, 2, 3};", FA4_BAD_FILE, "more values", NULL);
    refuse(HEADER("sm_90") ".shared .b32 x = 3;", FA4_BAD_FILE, "initial", NULL);
    refuse(HEADER("sm_90") ".global .b8 x[];", FA4_BAD_FILE, "without size", NULL);
    refuse(HEADER("sm_90") ".global .align 3 .b8 x;", FA4_BAD_FILE, "power of two", NULL);
    // All errors are told, in order, and one spelling is told once.
    refuse(HEADER("sm_90") ".entry k() { .reg .b32 r; foo.a r;\n bar.b r;\n foo.a r;\n baz.c r; }",
           FA4_BAD_FILE, "'foo.a'\nline 5: unknown opcode 'bar.b'\nline 7", "1 more line");
}

// The error of a text with very many mistakes says how many were left out.
static void test_many_errors(void) {
    char *text = malloc(1 << 20), *at = text;
    at += sprintf(at, HEADER("sm_90") ".entry k() { .reg .b32 r;\n");
    for (int i = 0; i < 2000; i++)
        at += sprintf(at, "nothing%d.b32 r;\n", i);
    sprintf(at, "}\n");
    refuse(text, FA4_BAD_FILE, "nothing0.b32", "more errors");
    free(text);
}

static void test_nesting(void) {
    char *text = malloc(1 << 20), *at = text;
    at += sprintf(at, HEADER("sm_90") ".entry k() ");
    for (int i = 0; i < 100000; i++)
        *at++ = '{';
    *at = '\0';
    refuse(text, FA4_BAD_FILE, "nested deeper", NULL);
    at = text + sprintf(text, HEADER("sm_90") ".entry k() { .reg .b32 r; mov.b32 r, ");
    for (int i = 0; i < 100000; i++)
        *at++ = '-';
    *at = '\0';
    refuse(text, FA4_BAD_FILE, "nested deeper", NULL);
    free(text);
}

// Every prefix of a text, and every text with one byte changed, is read or refused without harm.
static void test_damage(void) {
    ptx_program *p = parse_body(
        "sm_100a", "{ TS: .branchtargets END, N; brx.idx r1, TS; N: } "
                   "tcgen05.mma.cta_group::1.kind::f16 [r1], [r2+4], d2, r3, {r4, r5, r6, r7}, p1;"
                   "ld.global.v4.f32 {f1, f2, f3, f4}, [d1+16]; mov.f32 f1, 0f7F800000; "
                   "setp.lt.and.f32 p1|p2, f2, f3, !p3;");
    char *text;
    size_t length;
    CHECK(ptx_print(p, &text, &length, NULL) == FA4_OK, "print");
    ptx_program_destroy(p);
    uint64_t state = 88172645463325252u;
    int read = 0, refused = 0;
    for (size_t i = 0; i < length + 3000; i++) {
        char *copy = malloc(length + 1); /* exact size: a sanitizer sees a step beyond */
        size_t bytes = i < length ? i : length;
        memcpy(copy, text, length);
        if (i >= length) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            copy[state % length] = (char)(state >> 32);
        }
        char *exact = malloc(bytes ? bytes : 1);
        memcpy(exact, copy, bytes);
        if (ptx_parse(exact, bytes, &p, NULL) == FA4_OK)
            read++;
        else
            refused++;
        ptx_program_destroy(p);
        free(exact);
        free(copy);
    }
    CHECK(read > 50 && refused > 1000, "%d read, %d refused", read, refused);
    free(text);
}

/* ---- whole files ---- */

// Every .ptx of a folder is read and survives the round trip; returns how many there were.
static int check_folder(const char *folder) {
    DIR *list = opendir(folder);
    int count = 0;
    for (struct dirent *e; list != NULL && (e = readdir(list)) != NULL;) {
        const char *ending = strrchr(e->d_name, '.');
        char path[4096];
        if (ending == NULL || strcmp(ending, ".ptx") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *file = fopen(path, "rb");
        char *text = calloc(1, 4 << 20);
        fa4_error err = {0};
        ptx_program *program;
        size_t length = fread(text, 1, (4 << 20) - 1, file);
        fclose(file);
        CHECK(ptx_parse(text, length, &program, &err) == FA4_OK, "%s: %s", e->d_name, err.text);
        if (program != NULL) check_round_trip(program, e->d_name);
        ptx_program_destroy(program);
        free(text);
        count++;
    }
    if (list != NULL) closedir(list);
    return count;
}

// FA4_PEER_PTX may name a folder of PTX that other projects' generators made: then that is read too.
static void test_files(void) {
    CHECK(check_folder(FA4_SOURCE_DIR "/spec/fuzz/seeds/ptx") >= 5,
          "the fuzzer's seeds are not there");
    const char *peers = getenv("FA4_PEER_PTX");
    if (peers == NULL || *peers == '\0') return;
    int count = check_folder(peers);
    CHECK(count > 0, "FA4_PEER_PTX: no .ptx in %s", peers);
    fprintf(stderr, "ptx: %d files of other generators\n", count);
}

/* ---- speed ---- */

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* other work on the machine does not count */
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void test_speed(void) {
    char *text = malloc(1 << 20), *at = text;
    at += sprintf(at, HEADER("sm_100a") "%s%s", PTX_LINES_MODULE, PTX_LINES_HEAD);
    for (int i = 0; at - text < 320 * 1024; i++)
        at += sprintf(at,
                      "L%d:\nfma.rn.ftz.f32x2 d1, d2, d3, d4;\n{ .reg .b32 x; mov.b64 {x, r%d}, "
                      "d5; mov.b32 r1, x; }\n@p1 bra L%d;\nadd.s32 r%d, r7, %d;\n",
                      i, i % 139, i, i % 139, i);
    sprintf(at, "%s", PTX_LINES_TAIL);
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double from = milliseconds();
        ptx_program *p = parse(text);
        double spent = milliseconds() - from;
        if (spent < best) best = spent;
        ptx_program_destroy(p);
    }
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(best < 20, "320 KB took %.1f ms", best);
#endif
    fprintf(stderr, "ptx: 320 KB in %.1f ms\n", best);
    free(text);
}

int main(void) {
    test_every_opcode();
    test_forms();
    test_scopes();
    test_layout();
    test_lines();
    test_refusals();
    test_module_refusals();
    test_many_errors();
    test_nesting();
    test_damage();
    test_speed();
    test_files();
    return check_report();
}
