/* The result of data flow over one function: see flow.c. */
#ifndef FA4_EMU_FLOW_H
#define FA4_EMU_FLOW_H

#include "emu_internal.h"

typedef struct emu_flow {
    const ptx_function *function;
    uint32_t class_first[PTX_CLASS_COUNT];
    uint32_t register_count, words; /* 64-bit words of a register set */
    uint32_t *block_of;             /* per instruction, and the end */
    uint32_t *first;                /* per block, and one more */
    uint32_t block_count;
    uint64_t *live;    /* per block: alive at its start */
    uint64_t *pending; /* per block: tensor loads that may be in flight at its start */
    uint32_t *begin, *end; /* per register: first and last instruction of its range */
    uint32_t *const *slots; /* for run-time checks */
} emu_flow;

bool emu_flow_create(emu_flow *flow, const ptx_function *function); /* false: no memory; destroy it all the same */
void emu_flow_destroy(emu_flow *flow);
/* Whether a register's planes hold its value before the instruction `pc`: it has been written and no other has taken its place. */
bool emu_flow_holds(const emu_flow *flow, int reg_class, uint32_t index, uint32_t pc);
/* Sets the flags of instructions that must settle tensor loads or check registers first. */
bool emu_flow_mark(emu_flow *flow, emu_code *code);

#endif
