/*
 * The one list of PTX opcodes that this project knows. What is not here is a load error. Nothing
 * here says what an instruction does; that is the emulator's part.
 */
#ifndef FA4_PTX_OPCODES_H
#define FA4_PTX_OPCODES_H

// clang-format off

/*
 * ---- opcodes: id, text, operands, required classes, allowed classes, types (count, then the set of each), spaces, target ----
 *
 * Operands: one letter each; '|' parts alternatives; '?' makes the operand before it and all later ones optional.
 *   d destination of the first type (twice as wide under .wide)    D the same or wider, or a vector of .vN
 *   s source of the first type      c source as wide as d          T source of the last type or wider    V vector too
 *   U destination b32   u source b32   Q destination b64   q source b64   h source b16   F source f32   i immediate
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
    _(BFIND, "bfind", "Us",  0, 0, T1(INT32|INT64), S0, 0)                                                                       \
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
    _(CVT_PACK, "cvt.pack", "UTTu?", C(sat), 0, T23(INT16|INT8|BITS32, INT32, BITS32), S0, 0)                                    \
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
    _(ATOM, "atom", "Dasq?|Dassq?|DaVq?", C(operation), C(semantics)|C(scope)|C(l2_hint)|C(vector)|C(noftz), T1(ATOMIC), S01, 0) \
    _(RED,  "red",  "asq?|aVq?", C(operation), C(semantics)|C(scope)|C(l2_hint)|C(vector)|C(noftz), T1(ATOMIC), S01, 0)          \
    _(RED_ASYNC, "red.async", "asa", C(operation), C(semantics)|C(scope)|C(completion), T1(INT32|INT64|BITS), S01, 90)           \
    _(PREFETCH, "prefetch", "a", 0, C(evict)|C(l2_evict), T0, S01, 0)                                                            \
    _(PREFETCH_L1, "prefetch.global.L1", "a", 0, 0, T0, S0, 0)                                                                   \
    _(PREFETCH_L2, "prefetch.global.L2", "a", 0, 0, T0, S0, 0)                                                                   \
    _(PREFETCHU_L1, "prefetchu.L1", "a", 0, 0, T0, S0, 0)                                                                        \
    _(DISCARD, "discard.global.L2", "ai", 0, 0, T0, S0, 0)                                                                       \
    _(APPLYPRIORITY, "applypriority.global", "ai", C(l2_evict), 0, T0, S0, 0)                                                    \
    _(CREATEPOLICY, "createpolicy.fractional", "QF?", C(l2_evict), C(l2_evict_second), T1(BITS64), S0, 0)                        \
    _(LDMATRIX, "ldmatrix", "Ma", C(sync)|C(aligned)|C(matrix)|C(repeat), C(trans), T1(BITS16|BITS8), S01, 0)                    \
    _(STMATRIX, "stmatrix", "aN", C(sync)|C(aligned)|C(matrix)|C(repeat), C(trans), T1(BITS16|BITS8), S01, 90)                   \
    _(MOVMATRIX, "movmatrix", "Uu", C(sync)|C(aligned)|C(matrix)|C(trans), 0, T1(BITS16), S0, 0)                                 \
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
    _(CP_ASYNC_BULK_PREFETCH_TENSOR, "cp.async.bulk.prefetch.tensor", "mq?|moq?", C(dimension), C(load_mode)|C(l2_hint)|C(l2), T0, \
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
    _(FENCE, "fence", "", 0, C(semantics)|C(scope)|C(sync_restrict), T0, S0, 0)                                                  \
    _(FENCE_MBARRIER_INIT, "fence.mbarrier_init", "", C(semantics)|C(scope), 0, T0, S0, 90)                                      \
    _(FENCE_PROXY_ASYNC, "fence.proxy.async", "", 0, 0, T0, S01, 90)                                                             \
    _(FENCE_PROXY_ALIAS, "fence.proxy.alias", "", 0, 0, T0, S0, 0)                                                               \
    _(FENCE_PROXY_TENSORMAP, "fence.proxy.tensormap::generic", "|ai", C(semantics)|C(scope), 0, T0, S0, 90)                      \
    _(FENCE_PROXY_ASYNC_GENERIC, "fence.proxy.async::generic", "", C(semantics)|C(scope), C(sync_restrict), T0, S0, 90)          \
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
    _(CLC_GET_FIRST_CTAID, "clusterlaunchcontrol.query_cancel", "Xj|Uj", C(ctaid_axis), C(vector), T2(BITS32, BITS128), S0, 100)

// clang-format on

#endif
