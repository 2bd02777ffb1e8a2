/* What the files that decode a function share: the state of one lowering and the helpers that turn operands into slots. */
#ifndef FA4_EMU_LOWER_INTERNAL_H
#define FA4_EMU_LOWER_INTERNAL_H

#include "emu_internal.h"

typedef struct lowering {
    emu_module *module;
    const ptx_function *function;
    emu_code *code;
    uint32_t constant_max, block_max;
    int32_t special_slot[PTX_SPECIAL_COUNT]; /* -1: not used */
    uint32_t plane_next;
    const char *reason; /* why the last instruction was refused; static text */
    bool no_memory;
    char text[FA4_ERROR_TEXT_BYTES];
    size_t text_length;
    int64_t errors;
} lowering;

void *emu_lower_block(lowering *l, size_t bytes);
emu_slot emu_lower_constant(lowering *l, uint64_t value, bool wide);
/* The slot of an operand that is read or written as a register; *wide: it has two planes. */
emu_slot emu_lower_slot(lowering *l, const ptx_operand *operand, bool want_wide, bool *wide);
bool emu_lower_predicate(lowering *l, const ptx_operand *operand, emu_predicate *predicate);
bool emu_lower_place(lowering *l, const ptx_operand *operand, emu_place *place);
/* A register vector, or one register, as a list of slots. */
const emu_slot *emu_lower_list(lowering *l, const ptx_operand *operand, bool want_wide, uint8_t *count, bool *wide);
emu_more *emu_lower_more(lowering *l, emu_op *op);
/* lower_memory.c, lower_units.c, lower_cluster.c: each true when the opcode is theirs and was accepted; l->reason when refused. */
bool emu_lower_memory(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine);
bool emu_lower_unit(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine);
bool emu_lower_cluster(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine);
const ptx_function *emu_inline(lowering *l, const ptx_function *entry); /* inline.c: the entry without calls */
bool emu_lower_mma(lowering *l, const ptx_instr *instr, emu_op *op);
void emu_lower_visit(lowering *l, emu_op *op); /* lets an access follow its address into other CTAs */

#endif
