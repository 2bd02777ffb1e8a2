/*
 * The small lists of PTX that this project knows: types, special registers, state spaces and
 * modifiers, each written once and expanded into enums, texts and tables.
 */
#ifndef FA4_PTX_MODIFIERS_H
#define FA4_PTX_MODIFIERS_H

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
    _(E4M3, "e4m3", 8) _(E5M2, "e5m2", 8) _(E4M3X2, "e4m3x2", 16) _(E5M2X2, "e5m2x2", 16) _(UE8M0X2, "ue8m0x2", 16)

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
    _(to) _(change) /* setmaxnreg: .inc .dec */ _(ctaid_axis) _(noftz) _(l2_evict_second) _(l2) _(sync_restrict)

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
    _("get_first_ctaid::z", ctaid_axis, 3)                                                                                       \
    _("noftz", noftz, 1) _("L2", l2, 1)                                                                                          \
    _("L2::evict_first", l2_evict_second, PTX_EVICT_FIRST) _("L2::evict_unchanged", l2_evict_second, PTX_EVICT_UNCHANGED)        \
    _("sync_restrict::shared::cta", sync_restrict, 1) _("sync_restrict::shared::cluster", sync_restrict, 2)

/* ---- state spaces: id, text ---- */
#define PTX_SPACES(_)                                                                                                            \
    _(GENERIC, "") _(GLOBAL, "global") _(SHARED, "shared") _(SHARED_CTA, "shared::cta") _(SHARED_CLUSTER, "shared::cluster")     \
    _(PARAM, "param") _(PARAM_ENTRY, "param::entry") _(PARAM_FUNC, "param::func") _(LOCAL, "local") _(CONST, "const")

// clang-format on

#endif
