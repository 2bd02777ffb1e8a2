/*
 * The lists of PTX that this project knows: types, special registers, modifiers and opcodes, each written once and expanded into enums,
 * texts and tables. What is not here is a load error. Nothing here says what an instruction does; that is the emulator's part.
 */
#ifndef FA4_PTX_OPCODES_H
#define FA4_PTX_OPCODES_H

// clang-format off

/* ---- types: id, text, bits ---- */
#define PTX_TYPES(_)                                                                                                             \
    _(PRED, "pred", 1)                                                                                                           \
    _(B8, "b8", 8) _(U8, "u8", 8) _(S8, "s8", 8)                                                                                 \
    _(B16, "b16", 16) _(U16, "u16", 16) _(S16, "s16", 16) _(F16, "f16", 16) _(BF16, "bf16", 16)                                  \
    _(B32, "b32", 32) _(U32, "u32", 32) _(S32, "s32", 32) _(F32, "f32", 32) _(F16X2, "f16x2", 32) _(BF16X2, "bf16x2", 32)        \
    _(TF32, "tf32", 32) _(U16X2, "u16x2", 32) _(S16X2, "s16x2", 32)                                                              \
    _(B64, "b64", 64) _(U64, "u64", 64) _(S64, "s64", 64) _(F64, "f64", 64) _(F32X2, "f32x2", 64)                                \
    _(B128, "b128", 128)                                                                                                         \
    _(E4M3, "e4m3", 8) _(E5M2, "e5m2", 8) _(E4M3X2, "e4m3x2", 16) _(E5M2X2, "e5m2x2", 16)

/* ---- special registers: id, text, bits ---- */
#define PTX_SPECIALS(_)                                                                                                          \
    _(TID_X, "%tid.x", 32) _(TID_Y, "%tid.y", 32) _(TID_Z, "%tid.z", 32)                                                         \
    _(NTID_X, "%ntid.x", 32) _(NTID_Y, "%ntid.y", 32) _(NTID_Z, "%ntid.z", 32)                                                   \
    _(CTAID_X, "%ctaid.x", 32) _(CTAID_Y, "%ctaid.y", 32) _(CTAID_Z, "%ctaid.z", 32)                                             \
    _(NCTAID_X, "%nctaid.x", 32) _(NCTAID_Y, "%nctaid.y", 32) _(NCTAID_Z, "%nctaid.z", 32)                                       \
    _(LANEID, "%laneid", 32) _(WARPID, "%warpid", 32) _(NWARPID, "%nwarpid", 32) _(SMID, "%smid", 32) _(NSMID, "%nsmid", 32)     \
    _(GRIDID, "%gridid", 64) _(CLOCK, "%clock", 32) _(CLOCK_HI, "%clock_hi", 32) _(CLOCK64, "%clock64", 64)                      \
    _(GLOBALTIMER, "%globaltimer", 64) _(GLOBALTIMER_LO, "%globaltimer_lo", 32) _(GLOBALTIMER_HI, "%globaltimer_hi", 32)         \
    _(LANEMASK_EQ, "%lanemask_eq", 32) _(LANEMASK_LE, "%lanemask_le", 32) _(LANEMASK_LT, "%lanemask_lt", 32)                     \
    _(LANEMASK_GE, "%lanemask_ge", 32) _(LANEMASK_GT, "%lanemask_gt", 32)                                                        \
    _(CLUSTERID_X, "%clusterid.x", 32) _(CLUSTERID_Y, "%clusterid.y", 32) _(CLUSTERID_Z, "%clusterid.z", 32)                     \
    _(NCLUSTERID_X, "%nclusterid.x", 32) _(NCLUSTERID_Y, "%nclusterid.y", 32) _(NCLUSTERID_Z, "%nclusterid.z", 32)               \
    _(CLUSTER_CTAID_X, "%cluster_ctaid.x", 32) _(CLUSTER_CTAID_Y, "%cluster_ctaid.y", 32)                                        \
    _(CLUSTER_CTAID_Z, "%cluster_ctaid.z", 32) _(CLUSTER_NCTAID_X, "%cluster_nctaid.x", 32)                                      \
    _(CLUSTER_NCTAID_Y, "%cluster_nctaid.y", 32) _(CLUSTER_NCTAID_Z, "%cluster_nctaid.z", 32)                                    \
    _(CLUSTER_CTARANK, "%cluster_ctarank", 32) _(CLUSTER_NCTARANK, "%cluster_nctarank", 32)                                      \
    _(IS_EXPLICIT_CLUSTER, "%is_explicit_cluster", 1)                                                                            \
    _(DYNAMIC_SMEM_SIZE, "%dynamic_smem_size", 32) _(TOTAL_SMEM_SIZE, "%total_smem_size", 32)                                    \
    _(WARP_SZ, "WARP_SZ", 32)

/*
 * ---- modifier classes ----
 * Each is a field of ptx_form (0 = not written) and a bit of an opcode's sets. Types and spaces are lists of their own.
 */
#define PTX_CLASSES(_)                                                                                                           \
    _(rounding)    /* .rn .rz .rm .rp; integer roundings of cvt; .rna .rs */                                                     \
    _(ftz) _(sat) _(satfinite) _(relu) _(approx) _(full) _(nan) _(xorsign_abs) _(abs) _(carry)                                   \
    _(compare)     /* setp, set */                                                                                               \
    _(operation)   /* .and .or .xor of setp and bar.red; of atom, red, redux: also .add .min .max .inc .dec .exch .cas .popc */  \
    _(half)        /* mul, mad: .lo .hi .wide */                                                                                 \
    _(shuffle) _(vote) _(match) _(permute) _(direction) _(clamp) _(test)                                                         \
    _(semantics)   /* .weak .relaxed .acquire .release .acq_rel .sc .volatile .mmio */                                           \
    _(scope)       /* .cta .cluster .gpu .sys */                                                                                 \
    _(cache)       /* .ca .cg .cs .lu .cv .wb .wt */                                                                             \
    _(evict) _(l2_evict) _(l2_hint) _(l2_prefetch) _(nc)                                                                         \
    _(vector)      /* 2, 4 or 8 elements */                                                                                      \
    _(sync) _(aligned) _(uni)                                                                                                    \
    _(dimension)   /* of a bulk tensor copy: 1 .. 5 */                                                                           \
    _(load_mode) _(completion) _(multicast) _(cta_group) _(read) _(noinc) _(no_complete) _(parity)                               \
    _(kind) _(collector_a) _(collector_b) _(lanes) /* 32x32b ... */ _(repeat) /* x1 .. x128 */ _(pack) _(arrive_one)             \
    _(matrix)      /* 1: ptx_form.m, n, k hold a shape such as m64n128k16 */                                                     \
    _(layout_a) _(layout_b) _(trans)                                                                                             \
    _(to) _(change) /* setmaxnreg: .inc .dec */ _(ctaid_axis) _(space_sink)

/* ---- modifiers: text, class, enum value (0 is "absent"); a text may stand in several classes, the opcode decides ---- */
#define PTX_MODIFIERS(_)                                                                                                         \
    _("rn", rounding, PTX_RN) _("rz", rounding, PTX_RZ) _("rm", rounding, PTX_RM) _("rp", rounding, PTX_RP)                      \
    _("rna", rounding, PTX_RNA) _("rs", rounding, PTX_RS)                                                                        \
    _("rni", rounding, PTX_RNI) _("rzi", rounding, PTX_RZI) _("rmi", rounding, PTX_RMI) _("rpi", rounding, PTX_RPI)              \
    _("ftz", ftz, 1) _("sat", sat, 1) _("satfinite", satfinite, 1) _("relu", relu, 1) _("approx", approx, 1) _("full", full, 1)  \
    _("NaN", nan, 1) _("xorsign", xorsign_abs, 1) _("abs", abs, 1) _("cc", carry, 1)                                             \
    _("eq", compare, PTX_EQ) _("ne", compare, PTX_NE) _("lt", compare, PTX_LT) _("le", compare, PTX_LE)                          \
    _("gt", compare, PTX_GT) _("ge", compare, PTX_GE) _("lo", compare, PTX_LO) _("ls", compare, PTX_LS)                          \
    _("hi", compare, PTX_HI) _("hs", compare, PTX_HS) _("equ", compare, PTX_EQU) _("neu", compare, PTX_NEU)                      \
    _("ltu", compare, PTX_LTU) _("leu", compare, PTX_LEU) _("gtu", compare, PTX_GTU) _("geu", compare, PTX_GEU)                  \
    _("num", compare, PTX_NUM) _("nan", compare, PTX_NAN)                                                                        \
    _("and", operation, PTX_AND) _("or", operation, PTX_OR) _("xor", operation, PTX_XOR) _("add", operation, PTX_ADDING)         \
    _("min", operation, PTX_MINIMUM) _("max", operation, PTX_MAXIMUM) _("inc", operation, PTX_INC) _("dec", operation, PTX_DEC)  \
    _("exch", operation, PTX_EXCH) _("cas", operation, PTX_CAS) _("popc", operation, PTX_POPCOUNT)                               \
    _("lo", half, PTX_HALF_LO) _("hi", half, PTX_HALF_HI) _("wide", half, PTX_HALF_WIDE)                                         \
    _("up", shuffle, PTX_SHFL_UP) _("down", shuffle, PTX_SHFL_DOWN) _("bfly", shuffle, PTX_SHFL_BFLY)                            \
    _("idx", shuffle, PTX_SHFL_IDX)                                                                                              \
    _("all", vote, PTX_VOTE_ALL) _("any", vote, PTX_VOTE_ANY) _("uni", vote, PTX_VOTE_UNI) _("ballot", vote, PTX_VOTE_BALLOT)    \
    _("any", match, PTX_MATCH_ANY) _("all", match, PTX_MATCH_ALL)                                                                \
    _("f4e", permute, PTX_PRMT_F4E) _("b4e", permute, PTX_PRMT_B4E) _("rc8", permute, PTX_PRMT_RC8)                              \
    _("ecl", permute, PTX_PRMT_ECL) _("ecr", permute, PTX_PRMT_ECR) _("rc16", permute, PTX_PRMT_RC16)                            \
    _("l", direction, PTX_LEFT) _("r", direction, PTX_RIGHT) _("clamp", clamp, PTX_CLAMP) _("wrap", clamp, PTX_WRAP)             \
    _("finite", test, PTX_FINITE) _("infinite", test, PTX_INFINITE) _("number", test, PTX_NUMBER)                                \
    _("notanumber", test, PTX_NOTANUMBER) _("normal", test, PTX_NORMAL) _("subnormal", test, PTX_SUBNORMAL)                      \
    _("weak", semantics, PTX_WEAK) _("relaxed", semantics, PTX_RELAXED) _("acquire", semantics, PTX_ACQUIRE)                     \
    _("release", semantics, PTX_RELEASE) _("acq_rel", semantics, PTX_ACQ_REL) _("sc", semantics, PTX_SC)                         \
    _("volatile", semantics, PTX_VOLATILE) _("mmio", semantics, PTX_MMIO)                                                        \
    _("cta", scope, PTX_SCOPE_CTA) _("cluster", scope, PTX_SCOPE_CLUSTER) _("gpu", scope, PTX_SCOPE_GPU)                         \
    _("sys", scope, PTX_SCOPE_SYS) _("gl", scope, PTX_SCOPE_GPU)                                                                 \
    _("ca", cache, PTX_CACHE_CA) _("cg", cache, PTX_CACHE_CG) _("cs", cache, PTX_CACHE_CS) _("lu", cache, PTX_CACHE_LU)          \
    _("cv", cache, PTX_CACHE_CV) _("wb", cache, PTX_CACHE_WB) _("wt", cache, PTX_CACHE_WT)                                       \
    _("L1::evict_normal", evict, PTX_EVICT_NORMAL) _("L1::evict_unchanged", evict, PTX_EVICT_UNCHANGED)                          \
    _("L1::evict_first", evict, PTX_EVICT_FIRST) _("L1::evict_last", evict, PTX_EVICT_LAST)                                      \
    _("L1::no_allocate", evict, PTX_NO_ALLOCATE)                                                                                 \
    _("L2::evict_normal", l2_evict, PTX_EVICT_NORMAL) _("L2::evict_first", l2_evict, PTX_EVICT_FIRST)                            \
    _("L2::evict_last", l2_evict, PTX_EVICT_LAST) _("L2::evict_unchanged", l2_evict, PTX_EVICT_UNCHANGED)                        \
    _("L2::cache_hint", l2_hint, 1)                                                                                              \
    _("L2::64B", l2_prefetch, 1) _("L2::128B", l2_prefetch, 2) _("L2::256B", l2_prefetch, 3) _("nc", nc, 1)                      \
    _("v2", vector, 2) _("v4", vector, 4) _("v8", vector, 8)                                                                     \
    _("sync", sync, 1) _("aligned", aligned, 1) _("uni", uni, 1)                                                                 \
    _("1d", dimension, 1) _("2d", dimension, 2) _("3d", dimension, 3) _("4d", dimension, 4) _("5d", dimension, 5)                \
    _("tile", load_mode, PTX_TILE) _("im2col", load_mode, PTX_IM2COL) _("im2col_no_offs", load_mode, PTX_IM2COL_NO_OFFS)         \
    _("tile::gather4", load_mode, PTX_TILE_GATHER4) _("tile::scatter4", load_mode, PTX_TILE_SCATTER4)                            \
    _("im2col::w", load_mode, PTX_IM2COL_W) _("im2col::w::128", load_mode, PTX_IM2COL_W_128)                                     \
    _("mbarrier::complete_tx::bytes", completion, PTX_COMPLETE_TX) _("bulk_group", completion, PTX_BULK_GROUP)                   \
    _("multicast::cluster", multicast, 1) _("multicast::cluster::all", multicast, 2)                                             \
    _("cta_group::1", cta_group, 1) _("cta_group::2", cta_group, 2)                                                              \
    _("read", read, 1) _("noinc", noinc, 1) _("noComplete", no_complete, 1) _("parity", parity, 1)                               \
    _("kind::f16", kind, PTX_KIND_F16) _("kind::tf32", kind, PTX_KIND_TF32) _("kind::f8f6f4", kind, PTX_KIND_F8F6F4)             \
    _("kind::i8", kind, PTX_KIND_I8) _("kind::mxf8f6f4", kind, PTX_KIND_MXF8F6F4) _("kind::mxf4", kind, PTX_KIND_MXF4)           \
    _("kind::mxf4nvf4", kind, PTX_KIND_MXF4NVF4)                                                                                 \
    _("collector::a::fill", collector_a, PTX_FILL) _("collector::a::use", collector_a, PTX_USE)                                  \
    _("collector::a::lastuse", collector_a, PTX_LASTUSE) _("collector::a::discard", collector_a, PTX_DISCARD)                    \
    _("32x32b", lanes, PTX_32X32B) _("16x64b", lanes, PTX_16X64B) _("16x128b", lanes, PTX_16X128B)                               \
    _("16x256b", lanes, PTX_16X256B) _("16x32bx2", lanes, PTX_16X32BX2)                                                          \
    _("128x256b", lanes, PTX_128X256B) _("4x256b", lanes, PTX_4X256B) _("128x128b", lanes, PTX_128X128B)                         \
    _("x1", repeat, 1) _("x2", repeat, 2) _("x4", repeat, 4) _("x8", repeat, 8) _("x16", repeat, 16) _("x32", repeat, 32)        \
    _("x64", repeat, 64) _("x128", repeat, 128)                                                                                  \
    _("pack::16b", pack, 1) _("unpack::16b", pack, 2)                                                                            \
    _("mbarrier::arrive::one", arrive_one, 1)                                                                                    \
    _("row", layout_a, PTX_ROW) _("col", layout_a, PTX_COL) _("row", layout_b, PTX_ROW) _("col", layout_b, PTX_COL)              \
    _("trans", trans, 1) _("to", to, 1)                                                                                          \
    _("inc", change, PTX_CHANGE_INC) _("dec", change, PTX_CHANGE_DEC)                                                            \
    _("get_first_ctaid", ctaid_axis, 4) _("get_first_ctaid::x", ctaid_axis, 1) _("get_first_ctaid::y", ctaid_axis, 2)            \
    _("get_first_ctaid::z", ctaid_axis, 3)

/* ---- state spaces: id, text ---- */
#define PTX_SPACES(_)                                                                                                            \
    _(GENERIC, "") _(GLOBAL, "global") _(SHARED, "shared") _(SHARED_CTA, "shared::cta") _(SHARED_CLUSTER, "shared::cluster")     \
    _(PARAM, "param") _(PARAM_ENTRY, "param::entry") _(PARAM_FUNC, "param::func") _(LOCAL, "local") _(CONST, "const")            \
    _(TENSORMAP, "tensormap")

/*
 * ---- opcodes: id, text, operands, required classes, allowed classes, types (count, then the set of each), spaces, target ----
 *
 * Operands: one letter each; '|' parts alternatives; '?' makes the operand before it and all later ones optional.
 *   d destination of the first type (twice as wide under .wide)    D the same or wider, or a vector of .vN
 *   s source of the first type      c source as wide as d          T source of the last type or wider    V vector too
 *   U destination b32   u source b32   Q destination b64   q source b64   h source b16   i immediate
 *   P predicate, or p|q             p source predicate, !p, or an immediate
 *   r destination b32, or r|p       k destination b64 (mbarrier state)    g state b64, or parity b32 under .parity
 *   a address [..]    m tensor address [map, {..}]    x source b32 or list of them    X destination list    o offsets {..} b16
 *   M, N destination, source list (or one register) of matrix fragments    j source b128    b label    f function    l (list)
 * Targets: 0, 90, 100: at least sm_N; A90 sm_90a only; A100 sm_100a; A90_100 either.
 */
#define PTX_OPCODES(_)                                                                                                           \
    /* integer and floating arithmetic */                                                                                        \
    _(ADD,  "add",  "dss",   0, C(rounding)|C(ftz)|C(sat)|C(carry), T1(ARITH), S0, 0)                                            \
    _(SUB,  "sub",  "dss",   0, C(rounding)|C(ftz)|C(sat)|C(carry), T1(ARITH), S0, 0)                                            \
    _(ADDC, "addc", "dss",   0, C(carry), T1(INT32|INT64), S0, 0)                                                                \
    _(SUBC, "subc", "dss",   0, C(carry), T1(INT32|INT64), S0, 0)                                                                \
    _(MUL,  "mul",  "dss",   0, C(rounding)|C(ftz)|C(sat)|C(half), T1(ARITH), S0, 0)                                             \
    _(MAD,  "mad",  "dssc",  0, C(rounding)|C(ftz)|C(sat)|C(half)|C(carry), T1(INT|FLOAT), S0, 0)                                \
    _(MADC, "madc", "dssc",  C(half), C(carry), T1(INT32|INT64), S0, 0)                                                          \
    _(MUL24, "mul24", "dss", C(half), 0, T1(INT32), S0, 0)                                                                       \
    _(MAD24, "mad24", "dssc", C(half), C(sat), T1(INT32), S0, 0)                                                                 \
    _(FMA,  "fma",  "dsss",  C(rounding), C(ftz)|C(sat)|C(relu), T1(FLOAT|HALF|F32X2S), S0, 0)                                   \
    _(DIV,  "div",  "dss",   0, C(rounding)|C(ftz)|C(approx)|C(full), T1(INT|FLOAT), S0, 0)                                      \
    _(REM,  "rem",  "dss",   0, 0, T1(INT), S0, 0)                                                                               \
    _(ABS,  "abs",  "ds",    0, C(ftz), T1(INT|FLOAT|HALF), S0, 0)                                                               \
    _(NEG,  "neg",  "ds",    0, C(ftz), T1(INT|FLOAT|HALF), S0, 0)                                                               \
    _(MIN,  "min",  "dsss?", 0, C(ftz)|C(nan)|C(xorsign_abs)|C(abs)|C(relu), T1(INT|INT16X2|FLOAT|HALF), S0, 0)                  \
    _(MAX,  "max",  "dsss?", 0, C(ftz)|C(nan)|C(xorsign_abs)|C(abs)|C(relu), T1(INT|INT16X2|FLOAT|HALF), S0, 0)                  \
    _(SAD,  "sad",  "dsss",  0, 0, T1(INT), S0, 0)                                                                               \
    _(DP4A, "dp4a", "duuu",  0, 0, T2(INT32, INT32), S0, 0)                                                                      \
    _(DP2A, "dp2a", "duuu",  C(half), 0, T2(INT32, INT32), S0, 0)                                                                \
    _(COPYSIGN, "copysign", "dss", 0, 0, T1(FLOAT), S0, 0)                                                                       \
    _(TESTP, "testp", "Ps",  C(test), 0, T1(FLOAT), S0, 0)                                                                       \
    _(RCP,  "rcp",  "ds",    0, C(rounding)|C(ftz)|C(approx), T1(FLOAT), S0, 0)                                                  \
    _(SQRT, "sqrt", "ds",    0, C(rounding)|C(ftz)|C(approx), T1(FLOAT), S0, 0)                                                  \
    _(RSQRT, "rsqrt", "ds",  C(approx), C(ftz), T1(FLOAT), S0, 0)                                                                \
    _(SIN,  "sin",  "ds",    C(approx), C(ftz), T1(F32S), S0, 0)                                                                 \
    _(COS,  "cos",  "ds",    C(approx), C(ftz), T1(F32S), S0, 0)                                                                 \
    _(LG2,  "lg2",  "ds",    C(approx), C(ftz), T1(F32S), S0, 0)                                                                 \
    _(EX2,  "ex2",  "ds",    C(approx), C(ftz), T1(F32S|HALF), S0, 0)                                                            \
    _(TANH, "tanh", "ds",    C(approx), 0, T1(F32S|HALF), S0, 0)                                                                 \
    /* comparison and selection */                                                                                               \
    _(SETP, "setp", "Pss|Pssp", C(compare), C(operation)|C(ftz), T1(BITS|INT|FLOAT|HALF), S0, 0)                                 \
    _(SET,  "set",  "dTT|dTTp", C(compare), C(operation)|C(ftz), T2(INT32|F32S|HALF|INT16, BITS|INT|FLOAT|HALF), S0, 0)          \
    _(SELP, "selp", "dssp",  0, 0, T1(BITS|INT|FLOAT), S0, 0)                                                                    \
    _(SLCT, "slct", "dssT",  0, C(ftz), T2(BITS|INT|FLOAT, INT32|F32S), S0, 0)                                                   \
    /* bits */                                                                                                                   \
    _(AND,  "and",  "dss",   0, 0, T1(BITS|PREDICATE), S0, 0)                                                                    \
    _(OR,   "or",   "dss",   0, 0, T1(BITS|PREDICATE), S0, 0)                                                                    \
    _(XOR,  "xor",  "dss",   0, 0, T1(BITS|PREDICATE), S0, 0)                                                                    \
    _(NOT,  "not",  "ds",    0, 0, T1(BITS|PREDICATE), S0, 0)                                                                    \
    _(CNOT, "cnot", "ds",    0, 0, T1(BITS), S0, 0)                                                                              \
    _(LOP3, "lop3", "dsssi", 0, 0, T1(BITS32), S0, 0)                                                                            \
    _(SHL,  "shl",  "dsu",   0, 0, T1(BITS), S0, 0)                                                                              \
    _(SHR,  "shr",  "dsu",   0, 0, T1(BITS|INT), S0, 0)                                                                          \
    _(SHF,  "shf",  "dssu",  C(direction)|C(clamp), 0, T1(BITS32), S0, 0)                                                        \
    _(POPC, "popc", "Us",    0, 0, T1(BITS32|BITS64), S0, 0)                                                                     \
    _(CLZ,  "clz",  "Us",    0, 0, T1(BITS32|BITS64), S0, 0)                                                                     \
    _(BFIND, "bfind", "Us",  0, C(space_sink), T1(INT32|INT64), S0, 0)                                                           \
    _(BFIND_SHIFTAMT, "bfind.shiftamt", "Us", 0, 0, T1(INT32|INT64), S0, 0)                                                      \
    _(FNS,  "fns",  "duuu",  0, 0, T1(BITS32), S0, 0)                                                                            \
    _(BREV, "brev", "ds",    0, 0, T1(BITS32|BITS64), S0, 0)                                                                     \
    _(BFE,  "bfe",  "dsuu",  0, 0, T1(INT32|INT64), S0, 0)                                                                       \
    _(BFI,  "bfi",  "dssuu", 0, 0, T1(BITS32|BITS64), S0, 0)                                                                     \
    _(BMSK, "bmsk", "duu",   C(clamp), 0, T1(BITS32), S0, 0)                                                                     \
    _(SZEXT, "szext", "dsu", C(clamp), 0, T1(INT32), S0, 0)                                                                      \
    _(PRMT, "prmt", "dssu",  0, C(permute), T1(BITS32), S0, 0)                                                                   \
    /* moves and conversions */                                                                                                  \
    _(MOV,  "mov",  "DV",    0, 0, T1(BITS|BITS128|INT|FLOAT|PREDICATE), S0, 0)                                                  \
    _(CVT,  "cvt",  "DT|DTT|DTTT", 0, C(rounding)|C(ftz)|C(sat)|C(satfinite)|C(relu), T2(CONVERT, CONVERT), S0, 0)               \
    _(CVT_PACK, "cvt.pack", "dTTu?", C(sat), 0, T23(INT16|INT8|BITS32, INT32, BITS32), S0, 0)                                    \
    _(CVTA, "cvta", "DV",    0, C(to), T1(INT32|INT64), S1, 0)                                                                   \
    _(ISSPACEP, "isspacep", "PT", 0, 0, T0, S1, 0)                                                                               \
    _(MAPA, "mapa", "dVu",   0, 0, T1(INT32|INT64), S01, 90)                                                                     \
    _(GETCTARANK, "getctarank", "UT", 0, 0, T1(INT32|INT64), S01, 90)                                                            \
    /* memory */                                                                                                                 \
    _(LD,   "ld",   "Daq?",  0, C(semantics)|C(scope)|C(cache)|C(evict)|C(l2_evict)|C(l2_hint)|C(l2_prefetch)|C(nc)|C(vector),   \
      T1(MEMORY), S01, 0)                                                                                                        \
    _(LDU,  "ldu",  "Da",    0, C(vector), T1(MEMORY), S01, 0)                                                                   \
    _(ST,   "st",   "aVq?",  0, C(semantics)|C(scope)|C(cache)|C(evict)|C(l2_evict)|C(l2_hint)|C(vector), T1(MEMORY), S01, 0)    \
    _(ST_ASYNC, "st.async", "aVa", 0, C(semantics)|C(scope)|C(completion)|C(vector), T1(MEMORY), S01, 90)                        \
    _(ATOM, "atom", "Dasq?|Dassq?|DaVq?", C(operation), C(semantics)|C(scope)|C(l2_hint)|C(vector), T1(ATOMIC), S01, 0)          \
    _(ATOM_NOFTZ, "atom.add.noftz", "Dasq?|DaVq?", 0, C(semantics)|C(scope)|C(l2_hint)|C(vector), T1(HALF), S01, 0)              \
    _(RED,  "red",  "asq?|aVq?", C(operation), C(semantics)|C(scope)|C(l2_hint)|C(vector), T1(ATOMIC), S01, 0)                   \
    _(RED_NOFTZ, "red.add.noftz", "asq?|aVq?", 0, C(semantics)|C(scope)|C(l2_hint)|C(vector), T1(HALF), S01, 0)                  \
    _(RED_ASYNC, "red.async", "asa", C(operation), C(semantics)|C(scope)|C(completion), T1(INT32|INT64|BITS), S01, 90)           \
    _(PREFETCH, "prefetch", "a", 0, C(evict)|C(l2_evict), T0, S01, 0)                                                            \
    _(PREFETCH_L1, "prefetch.global.L1", "a", 0, 0, T0, S0, 0)                                                                   \
    _(PREFETCH_L2, "prefetch.global.L2", "a", 0, 0, T0, S0, 0)                                                                   \
    _(PREFETCHU_L1, "prefetchu.L1", "a", 0, 0, T0, S0, 0)                                                                        \
    _(DISCARD, "discard.global.L2", "ai", 0, 0, T0, S0, 0)                                                                       \
    _(APPLYPRIORITY, "applypriority.global", "ai", C(l2_evict), 0, T0, S0, 0)                                                    \
    _(CREATEPOLICY, "createpolicy.fractional", "Qu?", C(l2_evict), C(l2_evict), T1(BITS64), S0, 0)                               \
    _(LDMATRIX, "ldmatrix", "Ma", C(sync)|C(aligned)|C(matrix)|C(repeat), C(trans), T1(BITS16|BITS8), S01, 0)                    \
    _(STMATRIX, "stmatrix", "aN", C(sync)|C(aligned)|C(matrix)|C(repeat), C(trans), T1(BITS16|BITS8), S01, 90)                   \
    _(MOVMATRIX, "movmatrix", "du", C(sync)|C(aligned)|C(matrix)|C(trans), 0, T1(BITS16), S0, 0)                                 \
    _(MMA,  "mma",  "MNNN",  C(sync)|C(aligned)|C(matrix)|C(layout_a)|C(layout_b), C(satfinite),                                 \
      T4(F32S|HALF|INT32, MULTIPLICAND, MULTIPLICAND, F32S|HALF|INT32), S0, 0)                                                   \
    /* asynchronous copies */                                                                                                    \
    _(CP_ASYNC, "cp.async", "aai|aaiu|aaip|aaiq|aaiuq", C(cache), C(l2_hint)|C(l2_prefetch), T0, S2, 0)                          \
    _(CP_ASYNC_COMMIT_GROUP, "cp.async.commit_group", "", 0, 0, T0, S0, 0)                                                       \
    _(CP_ASYNC_WAIT_GROUP, "cp.async.wait_group", "i", 0, 0, T0, S0, 0)                                                          \
    _(CP_ASYNC_WAIT_ALL, "cp.async.wait_all", "", 0, 0, T0, S0, 0)                                                               \
    _(CP_ASYNC_MBARRIER_ARRIVE, "cp.async.mbarrier.arrive", "a", 0, C(noinc), T1(BITS64), S01, 0)                                \
    _(CP_ASYNC_BULK, "cp.async.bulk", "aauq?|aauaq?|aauahq?", C(completion), C(multicast)|C(l2_hint), T0, S2, 90)                \
    _(CP_REDUCE_ASYNC_BULK, "cp.reduce.async.bulk", "aauq?|aauaq?", C(completion)|C(operation), C(l2_hint), T1(ATOMIC), S2, 90)  \
    _(CP_ASYNC_BULK_PREFETCH, "cp.async.bulk.prefetch.L2", "auq?", 0, C(l2_hint), T0, S1, 90)                                    \
    _(CP_ASYNC_BULK_TENSOR, "cp.async.bulk.tensor", "maq?|amaq?|amahq?|amaoq?|amaohq?", C(dimension)|C(completion),              \
      C(load_mode)|C(multicast)|C(cta_group)|C(l2_hint), T0, S2, 90)                                                             \
    _(CP_REDUCE_ASYNC_BULK_TENSOR, "cp.reduce.async.bulk.tensor", "maq?", C(dimension)|C(completion)|C(operation),               \
      C(load_mode)|C(l2_hint), T0, S2, 90)                                                                                       \
    _(CP_ASYNC_BULK_PREFETCH_TENSOR, "cp.async.bulk.prefetch.tensor", "mq?|moq?", C(dimension), C(load_mode)|C(l2_hint), T0,     \
      S1, 90)                                                                                                                    \
    _(CP_ASYNC_BULK_COMMIT_GROUP, "cp.async.bulk.commit_group", "", 0, 0, T0, S0, 90)                                            \
    _(CP_ASYNC_BULK_WAIT_GROUP, "cp.async.bulk.wait_group", "i", 0, C(read), T0, S0, 90)                                         \
    _(PREFETCH_TENSORMAP, "prefetch.tensormap", "a", 0, 0, T0, S01, 90)                                                          \
    _(PREFETCH_PARAM_TENSORMAP, "prefetch.param.tensormap", "a", 0, 0, T0, S0, 90)                                               \
    _(PREFETCH_CONST_TENSORMAP, "prefetch.const.tensormap", "a", 0, 0, T0, S0, 90)                                               \
    /* barriers */                                                                                                               \
    _(BAR_SYNC, "bar.sync", "uu?", 0, 0, T0, S0, 0)                                                                              \
    _(BAR_ARRIVE, "bar.arrive", "uu", 0, 0, T0, S0, 0)                                                                           \
    _(BAR_RED, "bar.red", "Pup|Puup|Uup|Uuup", C(operation), 0, T1(PREDICATE|U32S), S0, 0)                                       \
    _(BAR_WARP_SYNC, "bar.warp.sync", "u", 0, 0, T0, S0, 0)                                                                      \
    _(BAR_CTA_SYNC, "bar.cta.sync", "uu?", 0, 0, T0, S0, 0)                                                                      \
    _(BAR_CTA_ARRIVE, "bar.cta.arrive", "uu", 0, 0, T0, S0, 0)                                                                   \
    _(BAR_CTA_RED, "bar.cta.red", "Pup|Puup|Uup|Uuup", C(operation), 0, T1(PREDICATE|U32S), S0, 0)                               \
    _(BARRIER_SYNC, "barrier.sync", "uu?", 0, C(aligned), T0, S0, 0)                                                             \
    _(BARRIER_ARRIVE, "barrier.arrive", "uu", 0, C(aligned), T0, S0, 0)                                                          \
    _(BARRIER_RED, "barrier.red", "Pup|Puup|Uup|Uuup", C(operation), C(aligned), T1(PREDICATE|U32S), S0, 0)                      \
    _(BARRIER_CTA_SYNC, "barrier.cta.sync", "uu?", 0, C(aligned), T0, S0, 0)                                                     \
    _(BARRIER_CTA_ARRIVE, "barrier.cta.arrive", "uu", 0, C(aligned), T0, S0, 0)                                                  \
    _(BARRIER_CTA_RED, "barrier.cta.red", "Pup|Puup|Uup|Uuup", C(operation), C(aligned), T1(PREDICATE|U32S), S0, 0)              \
    _(BARRIER_CLUSTER_ARRIVE, "barrier.cluster.arrive", "", 0, C(semantics)|C(aligned), T0, S0, 90)                              \
    _(BARRIER_CLUSTER_WAIT, "barrier.cluster.wait", "", 0, C(semantics)|C(aligned), T0, S0, 90)                                  \
    _(MEMBAR, "membar", "", C(scope), 0, T0, S0, 0)                                                                              \
    _(FENCE, "fence", "", 0, C(semantics)|C(scope), T0, S0, 0)                                                                   \
    _(FENCE_MBARRIER_INIT, "fence.mbarrier_init", "", C(semantics)|C(scope), 0, T0, S0, 90)                                      \
    _(FENCE_PROXY_ASYNC, "fence.proxy.async", "", 0, 0, T0, S01, 90)                                                             \
    _(FENCE_PROXY_ALIAS, "fence.proxy.alias", "", 0, 0, T0, S0, 0)                                                               \
    _(FENCE_PROXY_TENSORMAP, "fence.proxy.tensormap::generic", "|ai", C(semantics)|C(scope), 0, T0, S0, 90)                      \
    _(FENCE_PROXY_ASYNC_GENERIC, "fence.proxy.async::generic", "", C(semantics)|C(scope), C(space_sink), T0, S01, 90)            \
    _(FENCE_ACQUIRE_RESTRICT, "fence.acquire.sync_restrict::shared::cluster.cluster", "", 0, 0, T0, S0, 90)                      \
    _(FENCE_RELEASE_RESTRICT, "fence.release.sync_restrict::shared::cta.cluster", "", 0, 0, T0, S0, 90)                          \
    _(MBARRIER_INIT, "mbarrier.init", "au", 0, 0, T1(BITS64), S01, 0)                                                            \
    _(MBARRIER_INVAL, "mbarrier.inval", "a", 0, 0, T1(BITS64), S01, 0)                                                           \
    _(MBARRIER_EXPECT_TX, "mbarrier.expect_tx", "au", 0, C(semantics)|C(scope), T1(BITS64), S01, 90)                             \
    _(MBARRIER_COMPLETE_TX, "mbarrier.complete_tx", "au", 0, C(semantics)|C(scope), T1(BITS64), S01, 90)                         \
    _(MBARRIER_ARRIVE, "mbarrier.arrive", "kau?|au?", 0, C(semantics)|C(scope)|C(no_complete), T1(BITS64), S01, 0)               \
    _(MBARRIER_ARRIVE_EXPECT_TX, "mbarrier.arrive.expect_tx", "kau|au", 0, C(semantics)|C(scope), T1(BITS64), S01, 90)           \
    _(MBARRIER_ARRIVE_DROP, "mbarrier.arrive_drop", "kau?|au?", 0, C(semantics)|C(scope)|C(no_complete), T1(BITS64), S01, 0)     \
    _(MBARRIER_ARRIVE_DROP_EXPECT_TX, "mbarrier.arrive_drop.expect_tx", "kau|au", 0, C(semantics)|C(scope), T1(BITS64), S01, 90) \
    _(MBARRIER_TEST_WAIT, "mbarrier.test_wait", "Pag", 0, C(semantics)|C(scope)|C(parity), T1(BITS64), S01, 0)                   \
    _(MBARRIER_TRY_WAIT, "mbarrier.try_wait", "Pagu?", 0, C(semantics)|C(scope)|C(parity), T1(BITS64), S01, 90)                  \
    _(MBARRIER_PENDING_COUNT, "mbarrier.pending_count", "Uq", 0, 0, T1(BITS64), S0, 0)                                           \
    /* warps */                                                                                                                  \
    _(SHFL, "shfl", "ruuuu", C(sync)|C(shuffle), 0, T1(BITS32), S0, 0)                                                           \
    _(VOTE, "vote", "Ppu|Upu", C(sync)|C(vote), 0, T1(PREDICATE|BITS32), S0, 0)                                                  \
    _(MATCH, "match", "rsu", C(sync)|C(match), 0, T1(BITS32|BITS64), S0, 0)                                                      \
    _(REDUX, "redux", "dsu", C(sync)|C(operation), C(abs)|C(nan), T1(BITS32|INT32|F32S), S0, 0)                                  \
    _(ACTIVEMASK, "activemask", "d", 0, 0, T1(BITS32), S0, 0)                                                                    \
    _(ELECT, "elect", "ru", C(sync), 0, T0, S0, 90)                                                                              \
    _(SETMAXNREG, "setmaxnreg", "i", C(change)|C(sync)|C(aligned), 0, T1(U32S), S0, A90_100)                                     \
    _(GRIDDEPCONTROL_WAIT, "griddepcontrol.wait", "", 0, 0, T0, S0, 90)                                                          \
    _(GRIDDEPCONTROL_LAUNCH_DEPENDENTS, "griddepcontrol.launch_dependents", "", 0, 0, T0, S0, 90)                                \
    _(NANOSLEEP, "nanosleep", "u", 0, 0, T1(U32S), S0, 0)                                                                        \
    _(PMEVENT, "pmevent", "i", 0, 0, T0, S0, 0)                                                                                  \
    /* control */                                                                                                                \
    _(BRA,  "bra",  "b", 0, C(uni), T0, S0, 0)                                                                                   \
    _(BRX_IDX, "brx.idx", "ub", 0, C(uni), T0, S0, 0)                                                                            \
    _(CALL, "call", "f|fl|lfl|lf", 0, C(uni), T0, S0, 0)                                                                         \
    _(RET,  "ret",  "", 0, C(uni), T0, S0, 0)                                                                                    \
    _(EXIT, "exit", "", 0, 0, T0, S0, 0)                                                                                         \
    _(TRAP, "trap", "", 0, 0, T0, S0, 0)                                                                                         \
    _(BRKPT, "brkpt", "", 0, 0, T0, S0, 0)                                                                                       \
    /* Hopper tensor cores */                                                                                                    \
    _(WGMMA_FENCE, "wgmma.fence", "", C(sync)|C(aligned), 0, T0, S0, A90)                                                        \
    _(WGMMA_COMMIT_GROUP, "wgmma.commit_group", "", C(sync)|C(aligned), 0, T0, S0, A90)                                          \
    _(WGMMA_WAIT_GROUP, "wgmma.wait_group", "i", C(sync)|C(aligned), 0, T0, S0, A90)                                             \
    _(WGMMA_MMA_ASYNC, "wgmma.mma_async", "Mqqpiiii|Mqqpii|MNqpiii|MNqpii|Mqqp|MNqp", C(sync)|C(aligned)|C(matrix),              \
      C(satfinite), T3(F32S|HALF|INT32, MULTIPLICAND, MULTIPLICAND), S0, A90)                                                    \
    /* Blackwell tensor cores */                                                                                                 \
    _(TCGEN05_ALLOC, "tcgen05.alloc", "au", C(cta_group)|C(sync)|C(aligned), 0, T1(BITS32), S01, A100)                           \
    _(TCGEN05_DEALLOC, "tcgen05.dealloc", "uu", C(cta_group)|C(sync)|C(aligned), 0, T1(BITS32), S0, A100)                        \
    _(TCGEN05_RELINQUISH_ALLOC_PERMIT, "tcgen05.relinquish_alloc_permit", "", C(cta_group)|C(sync)|C(aligned), 0, T0, S0, A100)  \
    _(TCGEN05_LD, "tcgen05.ld", "Xai?", C(sync)|C(aligned)|C(lanes)|C(repeat), C(pack), T1(BITS32), S0, A100)                    \
    _(TCGEN05_ST, "tcgen05.st", "ax|aix", C(sync)|C(aligned)|C(lanes)|C(repeat), C(pack), T1(BITS32), S0, A100)                  \
    _(TCGEN05_WAIT_LD, "tcgen05.wait::ld", "", C(sync)|C(aligned), 0, T0, S0, A100)                                              \
    _(TCGEN05_WAIT_ST, "tcgen05.wait::st", "", C(sync)|C(aligned), 0, T0, S0, A100)                                              \
    _(TCGEN05_MMA, "tcgen05.mma", "aqqupi?|aqquxpi?|aaqupi?|aaquxpi?", C(cta_group)|C(kind), C(collector_a), T0, S0, A100)       \
    _(TCGEN05_CP, "tcgen05.cp", "aq", C(cta_group)|C(lanes), 0, T0, S0, A100)                                                    \
    _(TCGEN05_COMMIT, "tcgen05.commit", "ah?", C(cta_group)|C(arrive_one), C(multicast), T1(BITS64), S01, A100)                  \
    _(TCGEN05_FENCE_BEFORE, "tcgen05.fence::before_thread_sync", "", 0, 0, T0, S0, A100)                                         \
    _(TCGEN05_FENCE_AFTER, "tcgen05.fence::after_thread_sync", "", 0, 0, T0, S0, A100)                                           \
    /* cluster launch control */                                                                                                 \
    _(CLC_TRY_CANCEL, "clusterlaunchcontrol.try_cancel.async", "aa", C(completion), C(multicast), T1(BITS128), S01, 100)         \
    _(CLC_IS_CANCELED, "clusterlaunchcontrol.query_cancel.is_canceled", "Pj", 0, 0, T2(PREDICATE, BITS128), S0, 100)             \
    _(CLC_GET_FIRST_CTAID, "clusterlaunchcontrol.query_cancel", "Xj|Uj", C(ctaid_axis), 0, T2(BITS32, BITS128), S0, 100)

// clang-format on

#endif
