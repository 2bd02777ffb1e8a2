/*
 * Memory as instructions see it: state spaces and generic windows, bounds and alignment of every access, unwritten shared memory, loads,
 * stores and atomics (ISA 9.7.9). Global memory is the launch's regions; a global address is a host address.
 */
#include "emu_internal.h"

#include <inttypes.h>
#include <math.h>

void emu_event_send(emu_cta *cta, const emu_warp *w, emu_event_kind kind, emu_memory memory, emu_unit unit, uint32_t lanes, uint64_t address,
                    uint64_t bytes, int64_t value) {
    const emu_listener *listener = cta->machine->launch->listener;
    emu_event event = {.kind = kind, .memory = memory, .unit = unit, .cta = (int32_t)cta->index, .warp = w ? w->index : -1, .lanes = lanes,
                       .pc = w && w->fragment_count > 0 ? emu_pc(w) : 0, .time = cta->time, .address = address, .bytes = bytes, .value = value};
    listener->event(listener->state, &event);
}

/* ---- global ---- */

uint8_t *emu_global(emu_cta *cta, uint64_t address, uint64_t bytes, bool write) {
    const emu_machine *m = cta->machine;
    for (int32_t i = 0; i < m->region_count; i++) {
        int32_t at = (cta->region_hint + i) % m->region_count;
        const emu_region *r = &m->regions[at];
        uint64_t base = (uint64_t)(uintptr_t)r->data;
        if (address < base || address - base > r->bytes || r->bytes - (address - base) < bytes) continue;
        if (write && r->read_only) return NULL;
        cta->region_hint = at;
        return (uint8_t *)r->data + (address - base);
    }
    return NULL;
}

/* "12 bytes past the end of k (4096 bytes)", or where it is nearest to. */
static void describe_global(const emu_cta *cta, uint64_t address, char *text, size_t bytes) {
    const emu_machine *m = cta->machine;
    uint64_t best = UINT64_MAX;
    snprintf(text, bytes, "no buffer was passed");
    for (int32_t i = 0; i < m->region_count; i++) {
        const emu_region *r = &m->regions[i];
        uint64_t base = (uint64_t)(uintptr_t)r->data, end = base + r->bytes;
        uint64_t away = address < base ? base - address : address >= end ? address - end : 0;
        if (away >= best) continue;
        best = away;
        if (address < base) snprintf(text, bytes, "%" PRIu64 " bytes before %s", away, r->name);
        else if (address >= end) snprintf(text, bytes, "%" PRIu64 " bytes past the end of %s (%" PRIu64 " bytes)", away, r->name, r->bytes);
        else snprintf(text, bytes, "at byte %" PRIu64 " of %s (%" PRIu64 " bytes%s)", address - base, r->name, r->bytes, r->read_only ? ", read only" : "");
    }
}

/* ---- shared ---- */

void emu_shared_mark(emu_cta *cta, uint32_t address, uint32_t bytes) {
    while (bytes > 0) {
        uint32_t at = address % 64, n = 64 - at < bytes ? 64 - at : bytes;
        uint64_t ones = n == 64 ? ~0ull : ((1ull << n) - 1) << at;
        cta->written[address / 64] |= ones;
        address += n, bytes -= n;
    }
}

bool emu_shared_ready(const emu_cta *cta, uint32_t address, uint32_t bytes) {
    while (bytes > 0) {
        uint32_t at = address % 64, n = 64 - at < bytes ? 64 - at : bytes;
        uint64_t ones = n == 64 ? ~0ull : ((1ull << n) - 1) << at;
        if ((cta->written[address / 64] & ones) != ones) return false;
        address += n, bytes -= n;
    }
    return true;
}

uint64_t emu_address(emu_warp *w, const emu_op *op, emu_slot base, int lane) {
    return (base == EMU_NO_SLOT ? 0 : emu_get(w, base, op->wide & 2, lane)) + (uint64_t)op->value;
}

static bool is_shared_space(int space) {
    return space == PTX_SPACE_SHARED || space == PTX_SPACE_SHARED_CTA || space == PTX_SPACE_SHARED_CLUSTER;
}

bool emu_shared_address(emu_warp *w, const emu_op *op, uint64_t address, uint32_t bytes, uint32_t align, int lane, uint32_t *out) {
    char name[96];
    if ((address & EMU_WINDOW_MASK) == EMU_WINDOW_SHARED) address &= ~EMU_WINDOW_MASK;
    address -= w->cta->window;
    if (address > 0xffffffffu || !emu_shared_inside(w->cta, (uint32_t)address, bytes)) {
        emu_fault(w, lane, EMU_OUT_OF_BOUNDS, op, "shared address 0x%" PRIx64 " (%u bytes) is outside 0x%x..0x%x", address, bytes,
                  EMU_SHARED_BASE, w->cta->shared_end);
        return false;
    }
    if (address % align != 0) {
        emu_fault(w, lane, EMU_MISALIGNED, op, "%s is not a multiple of %u", emu_shared_name(w->cta, (uint32_t)address, name, sizeof name), align);
        return false;
    }
    *out = (uint32_t)address;
    return true;
}

/* ---- one access ---- */

typedef struct access {
    uint8_t *bytes;
    uint32_t shared; /* address, 0: not shared */
} access;

static uint8_t *window_bytes(emu_warp *w, uint64_t address, uint32_t bytes, int lane, bool write, int space) {
    const emu_machine *m = w->cta->machine;
    uint64_t offset = address & ~EMU_WINDOW_MASK;
    if (space == PTX_SPACE_LOCAL) {
        uint64_t frame = w->cta->code->function->local_bytes;
        return offset <= frame && frame - offset >= bytes ? w->local + (uint64_t)lane * frame + offset : NULL;
    }
    if (write) return NULL;
    if (space == PTX_SPACE_CONST) {
        uint64_t size = m->module->program->const_bytes;
        return offset <= size && size - offset >= bytes ? m->module->constants + offset : NULL;
    }
    uint64_t size = (uint64_t)m->launch->param_bytes;
    return offset <= size && size - offset >= bytes ? (uint8_t *)(uintptr_t)m->launch->params + offset : NULL;
}

static int space_of(const emu_op *op, uint64_t address) {
    if (op->space != PTX_SPACE_GENERIC) return op->space;
    switch (address & EMU_WINDOW_MASK) {
    case EMU_WINDOW_SHARED: return PTX_SPACE_SHARED;
    case EMU_WINDOW_LOCAL: return PTX_SPACE_LOCAL;
    case EMU_WINDOW_PARAM: return PTX_SPACE_PARAM;
    case EMU_WINDOW_CONST: return PTX_SPACE_CONST;
    default: return PTX_SPACE_GLOBAL;
    }
}

/* Where `bytes` at `address` lie; false after a finding. */
static bool locate(emu_warp *w, const emu_op *op, uint64_t address, uint32_t bytes, int lane, bool write, access *out) {
    int space = space_of(op, address);
    char text[200];
    out->shared = 0;
    if (is_shared_space(space)) {
        if (!emu_shared_address(w, op, address, bytes, bytes, lane, &out->shared)) return false;
        out->bytes = emu_shared_at(w->cta, out->shared);
        return true;
    }
    if (address % bytes != 0) {
        emu_fault(w, lane, EMU_MISALIGNED, op, "address 0x%" PRIx64 " is not a multiple of %u", address, bytes);
        return false;
    }
    bool global = space == PTX_SPACE_GLOBAL;
    out->bytes = global ? emu_global(w->cta, address, bytes, write) : window_bytes(w, address, bytes, lane, write, space);
    if (out->bytes != NULL) return true;
    if (global) describe_global(w->cta, address, text, sizeof text);
    else snprintf(text, sizeof text, "%s offset %" PRIu64, ptx_space_name(space), address & ~EMU_WINDOW_MASK);
    emu_fault(w, lane, EMU_OUT_OF_BOUNDS, op, "%s of %u bytes out of bounds: %s", write ? "store" : "load", bytes, text);
    return false;
}

static void check_written(emu_warp *w, const emu_op *op, uint32_t address, uint32_t bytes, int lane) {
    char name[96];
    if (!w->cta->machine->checked || emu_shared_ready(w->cta, address, bytes)) return;
    emu_fault(w, lane, EMU_UNINITIALISED, op, "read of shared memory that nothing has written: %s, %u bytes",
              emu_shared_name(w->cta, address, name, sizeof name), bytes);
}

static bool touches_barrier(const emu_cta *cta, uint32_t address, uint32_t bytes) {
    for (uint32_t unit = address / 8; unit <= (address + bytes - 1) / 8; unit++)
        if (cta->barriers[unit / 64] >> (unit % 64) & 1) return true;
    return false;
}

static bool check_barrier(emu_warp *w, const emu_op *op, uint32_t address, uint32_t bytes, int lane) {
    char name[96];
    if (!touches_barrier(w->cta, address, bytes)) return true;
    emu_fault(w, lane, EMU_BARRIER_MISUSE, op, "an ordinary access touches the live mbarrier %s", emu_shared_name(w->cta, address & ~7u, name, sizeof name));
    return false;
}

/* ---- loads and stores ---- */

static uint64_t take(const uint8_t *from, uint32_t bits) {
    uint64_t v = 0;
    memcpy(&v, from, bits / 8);
    return v;
}

static void give_register(emu_warp *w, const emu_op *op, uint32_t i, int lane, const uint8_t *from) {
    if (op->bits == 128) {
        for (int p = 0; p < 4; p++) memcpy(emu_lanes(w, op->list[i]) + p * EMU_LANES + lane, from + 4 * p, 4);
        return;
    }
    uint64_t v = take(from, op->bits);
    if (op->is_signed) v = (uint64_t)emu_extend(v, op->bits);
    emu_put(w, op->list[i], op->wide & 1, lane, v);
}

emu_step emu_do_load(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t size = op->bits / 8u, all = size * op->count;
    if (emu_quick_load(w, op, mask)) return EMU_NEXT;
    EMU_EACH_LANE(lane, mask) {
        access a;
        uint64_t address = emu_address(w, op, op->a, (int)lane);
        if (!locate(w, op, address, all, (int)lane, false, &a)) return EMU_STOP;
        if (a.shared) {
            check_written(w, op, a.shared, all, (int)lane);
            if (!check_barrier(w, op, a.shared, all, (int)lane)) return EMU_STOP;
        }
        EMU_EVENT(w->cta, w, EMU_EVENT_READ, a.shared ? EMU_MEMORY_SHARED : EMU_MEMORY_GLOBAL, EMU_UNIT_WARP, 1u << lane,
                  a.shared ? a.shared : address, all, 0);
        uint8_t copy[64];
        memcpy(copy, a.bytes, all); /* a destination may be the address register itself */
        for (uint32_t i = 0; i < op->count; i++) give_register(w, op, i, (int)lane, copy + i * size);
    }
    return EMU_NEXT;
}

emu_step emu_do_store(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t size = op->bits / 8u, all = size * op->count;
    if (emu_quick_store(w, op, mask)) return EMU_NEXT;
    EMU_EACH_LANE(lane, mask) {
        access a;
        uint64_t address = emu_address(w, op, op->a, (int)lane);
        if (!locate(w, op, address, all, (int)lane, true, &a)) return EMU_STOP;
        if (a.shared && !check_barrier(w, op, a.shared, all, (int)lane)) return EMU_STOP;
        for (uint32_t i = 0; i < op->count; i++) {
            if (op->bits == 128) {
                for (int p = 0; p < 4; p++) memcpy(a.bytes + i * size + 4 * p, emu_lanes(w, op->list[i]) + p * EMU_LANES + lane, 4);
                continue;
            }
            uint64_t v = emu_get(w, op->list[i], op->wide & 1, (int)lane);
            memcpy(a.bytes + i * size, &v, size);
        }
        if (a.shared) emu_shared_mark(w->cta, a.shared, all);
        EMU_EVENT(w->cta, w, EMU_EVENT_WRITE, a.shared ? EMU_MEMORY_SHARED : EMU_MEMORY_GLOBAL, EMU_UNIT_WARP, 1u << lane,
                  a.shared ? a.shared : address, all, 0);
    }
    return EMU_NEXT;
}

/* Parameters are the same for every lane unless the address is in a register. */
emu_step emu_do_load_param(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t size = op->bits / 8u, all = size * op->count;
    const uint8_t *bytes = NULL;
    if (op->a == EMU_NO_SLOT && op->bits == 32 && !(op->wide & 1) && mask == ~0u && (bytes = window_bytes(w, (uint64_t)op->value, all, 0, false, PTX_SPACE_PARAM)) != NULL) {
        for (uint32_t i = 0; i < op->count; i++) {
            uint32_t v = (uint32_t)take(bytes + 4 * i, 32), *to = emu_lanes(w, op->list[i]);
            for (int lane = 0; lane < EMU_LANES; lane++) to[lane] = v;
        }
        return EMU_NEXT;
    }
    EMU_EACH_LANE(lane, mask) {
        uint64_t address = emu_address(w, op, op->a, (int)lane);
        if (bytes == NULL || op->a != EMU_NO_SLOT) bytes = window_bytes(w, address, all, (int)lane, false, PTX_SPACE_PARAM);
        if (bytes == NULL)
            return emu_fault(w, (int)lane, EMU_OUT_OF_BOUNDS, op, "parameter offset %" PRIu64 " of %" PRId64 " bytes", address & ~EMU_WINDOW_MASK,
                             w->cta->machine->launch->param_bytes);
        for (uint32_t i = 0; i < op->count; i++) give_register(w, op, i, (int)lane, bytes + i * size);
    }
    return EMU_NEXT;
}

const uint8_t *emu_map_bytes(emu_warp *w, const emu_op *op, uint64_t address, int lane) {
    uint64_t window = address & EMU_WINDOW_MASK;
    const uint8_t *bytes = NULL;
    if (address % 64 != 0) {
        emu_fault(w, lane, EMU_MISALIGNED, op, "tensor map address 0x%" PRIx64 " is not a multiple of 64", address);
        return NULL;
    }
    if (window == EMU_WINDOW_PARAM) bytes = window_bytes(w, address, KERNEL_TENSORMAP_BYTES, lane, false, PTX_SPACE_PARAM);
    else if (window == EMU_WINDOW_CONST) bytes = window_bytes(w, address, KERNEL_TENSORMAP_BYTES, lane, false, PTX_SPACE_CONST);
    else if (window == 0) bytes = emu_global(w->cta, address, KERNEL_TENSORMAP_BYTES, false);
    if (bytes == NULL) emu_fault(w, lane, EMU_COPY_MISUSE, op, "no tensor map at address 0x%" PRIx64, address);
    return bytes;
}

/* ---- atomics ---- */

/* In global memory f32 sums are flushed (ISA 9.7.13.4) and f64 hands a NaN on as it is, the added one first; a CTA's shared memory adds with the
 * f64 unit of its SM, the operands in the other order. */
static uint64_t combine_float(const emu_op *op, uint64_t old, uint64_t b, bool shared) {
    static const emu_mode nearest = {0}, flushing = {.ftz = true};
    if (!op->unordered) {
        if (op->extra == PTX_ADDING && shared) return emu_fp_add(b, old, op->format, &nearest);
        if (op->extra == PTX_ADDING && op->format == EMU_F64 && isnan(emu_double(b))) return b;
        if (op->extra == PTX_ADDING && op->format == EMU_F64 && isnan(emu_double(old))) return old;
        if (op->extra == PTX_ADDING) return emu_fp_add(old, b, op->format, op->format == EMU_F32 ? &flushing : &nearest);
        return emu_fp_minmax(old, b, op->extra == PTX_MAXIMUM, op->format, &nearest);
    }
    uint64_t r = 0;
    for (int at = 0; at < 32; at += 16) {
        uint64_t x = old >> at & 0xffff, y = b >> at & 0xffff;
        r |= (op->extra == PTX_ADDING ? emu_fp_add(x, y, op->format, &nearest) : emu_fp_minmax(x, y, op->extra == PTX_MAXIMUM, op->format, &nearest)) << at;
    }
    return r;
}

static uint64_t combine(const emu_op *op, uint64_t old, uint64_t b, uint64_t c, bool shared) {
    bool floating = op->format != EMU_FORMATS;
    switch (op->extra) {
    case PTX_AND: return old & b;
    case PTX_OR: return old | b;
    case PTX_XOR: return old ^ b;
    case PTX_EXCH: return b;
    case PTX_CAS: return emu_cut(old, op->bits) == emu_cut(b, op->bits) ? c : old;
    case PTX_INC: return emu_cut(old, op->bits) >= emu_cut(b, op->bits) ? 0 : old + 1;
    case PTX_DEC: return old == 0 || emu_cut(old, op->bits) > emu_cut(b, op->bits) ? b : old - 1;
    case PTX_ADDING: return floating ? combine_float(op, old, b, shared) : old + b;
    default:
        if (floating) return combine_float(op, old, b, shared);
        return emu_int_compare(old, b, EMU_GT, op->is_signed, op->bits) == (op->extra == PTX_MAXIMUM) ? old : b;
    }
}

/* What combine reads of an instruction: operation, width, sign, format, and whether a word holds two elements. */
void emu_atomic_describe(emu_op *op, int operation, int type) {
    op->extra = (uint32_t)operation;
    op->bits = (uint8_t)ptx_type_bits(type);
    op->is_signed = type == PTX_TYPE_S32 || type == PTX_TYPE_S64;
    op->format = type == PTX_TYPE_F32 ? EMU_F32 : type == PTX_TYPE_F64 ? EMU_F64 : type == PTX_TYPE_F16 || type == PTX_TYPE_F16X2 ? EMU_F16
               : type == PTX_TYPE_BF16 || type == PTX_TYPE_BF16X2 ? EMU_BF16 : EMU_FORMATS;
    op->unordered = type == PTX_TYPE_F16X2 || type == PTX_TYPE_BF16X2;
}

void emu_reduce_global(uint8_t *global, const uint8_t *from, uint64_t bytes, int operation, int type) {
    emu_op op = {0};
    emu_atomic_describe(&op, operation, type);
    uint64_t size = op.bits / 8u;
    for (uint64_t at = 0; at + size <= bytes; at += size) {
        uint64_t new = combine(&op, take(global + at, op.bits), take(from + at, op.bits), 0, false);
        memcpy(global + at, &new, size);
    }
}

emu_step emu_do_atomic_vector(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t size = op->bits / 8u, count = op->more->count2;
    EMU_EACH_LANE(lane, mask) {
        access a;
        uint64_t address = emu_address(w, op, op->a, (int)lane);
        if (!locate(w, op, address, size * count, (int)lane, true, &a)) return EMU_STOP;
        for (uint32_t e = 0; e < count; e++) {
            uint64_t old = take(a.bytes + e * size, op->bits), new = combine(op, old, emu_get(w, op->more->list2[e], false, (int)lane), 0, a.shared != 0);
            memcpy(a.bytes + e * size, &new, size);
            if (op->list) emu_put(w, op->list[e], false, (int)lane, old);
        }
        EMU_EVENT(w->cta, w, EMU_EVENT_WRITE, a.shared ? EMU_MEMORY_SHARED : EMU_MEMORY_GLOBAL, EMU_UNIT_WARP, 1u << lane,
                  a.shared ? a.shared : address, size * count, 1);
    }
    w->cta->changes++;
    return EMU_NEXT;
}

static emu_step atomic(emu_warp *w, const emu_op *op, uint32_t mask, bool result) {
    uint32_t size = op->bits / 8u;
    EMU_EACH_LANE(lane, mask) {
        access a;
        uint64_t address = emu_address(w, op, op->a, (int)lane), old, b, c = 0;
        if (!locate(w, op, address, size, (int)lane, true, &a)) return EMU_STOP;
        if (a.shared) check_written(w, op, a.shared, size, (int)lane);
        b = emu_get(w, op->b, op->wide & 4, (int)lane);
        if (op->c != EMU_NO_SLOT) c = emu_get(w, op->c, op->wide & 8, (int)lane);
        bool turns = a.shared == 0 && w->cta->machine->threaded;
        if (turns) pthread_mutex_lock(&w->cta->machine->atomics);
        old = take(a.bytes, op->bits);
        uint64_t new = combine(op, old, b, c, a.shared != 0);
        memcpy(a.bytes, &new, size);
        if (turns) pthread_mutex_unlock(&w->cta->machine->atomics);
        if (result) emu_put(w, op->d, op->wide & 1, (int)lane, old);
        EMU_EVENT(w->cta, w, EMU_EVENT_WRITE, a.shared ? EMU_MEMORY_SHARED : EMU_MEMORY_GLOBAL, EMU_UNIT_WARP, 1u << lane,
                  a.shared ? a.shared : address, size, 1);
    }
    w->cta->changes++;
    return EMU_NEXT;
}

emu_step emu_do_atomic(emu_warp *w, const emu_op *op, uint32_t mask) { return atomic(w, op, mask, true); }
emu_step emu_do_reduce(emu_warp *w, const emu_op *op, uint32_t mask) { return atomic(w, op, mask, false); }

/* ---- addresses ---- */

static uint64_t window_of(int space) {
    switch (space) {
    case PTX_SPACE_SHARED: case PTX_SPACE_SHARED_CTA: case PTX_SPACE_SHARED_CLUSTER: return EMU_WINDOW_SHARED;
    case PTX_SPACE_LOCAL: return EMU_WINDOW_LOCAL;
    case PTX_SPACE_PARAM: case PTX_SPACE_PARAM_ENTRY: return EMU_WINDOW_PARAM;
    case PTX_SPACE_CONST: return EMU_WINDOW_CONST;
    default: return 0;
    }
}

emu_step emu_do_convert_address(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint64_t window = window_of(op->space);
    EMU_EACH_LANE(lane, mask) {
        uint64_t a = emu_get(w, op->a, op->wide & 2, (int)lane);
        if (!op->extra) a |= window;
        else if (window != 0) a &= ~EMU_WINDOW_MASK;
        emu_put(w, op->d, op->wide & 1, (int)lane, a);
    }
    return EMU_NEXT;
}

emu_step emu_do_is_space(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t r = 0;
    EMU_EACH_LANE(lane, mask) {
        uint64_t a = emu_get(w, op->a, op->wide & 2, (int)lane);
        r |= (uint32_t)((a & EMU_WINDOW_MASK) == window_of(op->space)) << lane;
    }
    emu_set_pred(w, op->p, r, mask);
    return EMU_NEXT;
}
