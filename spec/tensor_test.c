/* Storages, views, conversion and random numbers. Conversions are held to a computation of their
 * own: exact neighbours found by searching all 65536 values of a 16-bit format. */
#include "check.h"

#include "core/half.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static fa4_error err;

/* ---- storages ---- */

static void count_release(void *owner) {
    ++*(int *)owner;
}

static void test_storage(void) {
    memory_account account = {0};
    int released = 0;
    fa4_storage *s = NULL;
    CHECK(storage_create(&account, 1000, NULL, count_release, &released, &s, &err) == FA4_OK, "%s",
          err.text);
    CHECK((uintptr_t)fa4_storage_data(s) % 64 == 0, "data %p", fa4_storage_data(s));
    CHECK(fa4_storage_bytes(s) == 1000 && !fa4_storage_freed(s), "bytes");
    CHECK(account.host_bytes == 1000 && account.storages == 1, "%lld",
          (long long)account.host_bytes);
    char in[4] = "abc", out[4] = "";
    CHECK(fa4_storage_write(s, 996, in, 4, &err) == FA4_OK, "%s", err.text);
    CHECK(fa4_storage_read(s, 996, out, 4, &err) == FA4_OK && strcmp(out, "abc") == 0, "%s", out);
    CHECK(fa4_storage_write(s, 997, in, 4, &err) == FA4_BAD_ARGUMENT, "one byte beyond");
    CHECK(fa4_storage_read(s, -1, out, 1, &err) == FA4_BAD_ARGUMENT, "before the start");
    CHECK(fa4_storage_read(s, INT64_MAX, out, INT64_MAX, &err) == FA4_BAD_ARGUMENT,
          "a sum that overflows");
    fa4_storage_retain(s);
    fa4_storage_free(s);
    fa4_storage_free(s);
    CHECK(fa4_storage_freed(s) && fa4_storage_data(s) == NULL, "freed");
    CHECK(account.host_bytes == 0 && account.storages == 0 && account.host_bytes_max == 1000,
          "account");
    CHECK(fa4_storage_read(s, 0, out, 1, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "freed") != NULL,
          "%s", err.text);
    fa4_storage_release(s);
    CHECK(released == 0, "a reference is left");
    fa4_storage_release(s);
    CHECK(released == 1, "the owner goes with the last reference");
    fa4_storage_release(NULL);
    CHECK(storage_create(&account, -1, NULL, count_release, &released, &s, &err) ==
                  FA4_BAD_ARGUMENT &&
              s == NULL,
          "negative");
    CHECK(storage_create(&account, INT64_MAX, NULL, count_release, &released, &s, &err) ==
                  FA4_NO_MEMORY &&
              s == NULL,
          "huge");
    CHECK(storage_create(&account, 0, NULL, NULL, NULL, &s, &err) == FA4_OK &&
              fa4_storage_data(s) == NULL,
          "no bytes");
    fa4_storage_release(s);
    CHECK(account.storages == 0 && released == 1, "failures leave no trace");
}

/* A device that keeps its memory a fixed distance away from the address it shows. */
typedef struct far_memory {
    char bytes[64];
    int live;
} far_memory;

static fa4_status far_create(void *state, int64_t bytes, void **data, fa4_error *e) {
    far_memory *far = state;
    if (bytes > 64) return error_set(e, FA4_NO_MEMORY, "far: 64 bytes at most");
    far->live++;
    *data = (void *)(uintptr_t)0x1000;
    return FA4_OK;
}
static void far_destroy(void *state, void *data, int64_t bytes) {
    (void)bytes;
    (void)data;
    ((far_memory *)state)->live--;
}
static fa4_status far_write(void *state, void *data, int64_t offset, const void *host,
                            int64_t bytes, fa4_error *e) {
    (void)data, (void)e;
    memcpy(((far_memory *)state)->bytes + offset, host, (size_t)bytes);
    return FA4_OK;
}
static fa4_status far_read(void *state, const void *data, int64_t offset, void *host, int64_t bytes,
                           fa4_error *e) {
    (void)data, (void)e;
    memcpy(host, ((far_memory *)state)->bytes + offset, (size_t)bytes);
    return FA4_OK;
}

static void test_device_storage(void) {
    memory_account account = {0};
    far_memory far = {{0}, 0};
    storage_device device = {&far, far_create, far_destroy, far_write, far_read};
    fa4_storage *s;
    CHECK(storage_create(&account, 65, &device, NULL, NULL, &s, &err) == FA4_NO_MEMORY, "refused");
    CHECK(storage_create(&account, 64, &device, NULL, NULL, &s, &err) == FA4_OK, "%s", err.text);
    CHECK(account.device_bytes == 64 && account.host_bytes == 0, "on the device's account");
    int32_t in = 77, out = 0;
    CHECK(fa4_storage_write(s, 8, &in, 4, &err) == FA4_OK &&
              fa4_storage_read(s, 8, &out, 4, &err) == FA4_OK && out == 77,
          "%d", out);
    fa4_storage_release(s);
    CHECK(far.live == 0 && account.device_bytes == 0, "given back");
}

/* ---- conversion ---- */

static fa4_tensor view1(void *data, int32_t dtype, int64_t n) {
    return (fa4_tensor){.data = data, .dtype = dtype, .rank = 1, .shape = {n}, .strides = {1}};
}

/* The value of 16 bits by the formats' definition: sign, exponent, fraction. */
static double value16(int32_t dtype, uint32_t bits) {
    int fraction_bits = dtype == FA4_F16 ? 10 : 7, bias = dtype == FA4_F16 ? 15 : 127;
    int top = dtype == FA4_F16 ? 31 : 255;
    uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    int exponent = (int)((bits & 0x7fffu) >> fraction_bits);
    double sign = bits & 0x8000u ? -1 : 1;
    if (exponent == top) return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp((1u << fraction_bits) | fraction, exponent - bias - fraction_bits);
}

static void test_all_16_bit_values(int32_t dtype) {
    static uint16_t bits[65536], back[65536], back64[65536];
    static float wide[65536];
    static double wide64[65536];
    for (uint32_t i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    fa4_tensor t16 = view1(bits, dtype, 65536), t32 = view1(wide, FA4_F32, 65536),
               t64 = view1(wide64, FA4_F64, 65536);
    fa4_tensor b16 = view1(back, dtype, 65536), b64 = view1(back64, dtype, 65536);
    CHECK(fa4_tensor_copy(&t32, &t16, &err) == FA4_OK, "%s", err.text);
    CHECK(fa4_tensor_copy(&b16, &t32, &err) == FA4_OK, "%s", err.text);
    CHECK(fa4_tensor_copy(&t64, &t16, &err) == FA4_OK, "%s", err.text);
    CHECK(fa4_tensor_copy(&b64, &t64, &err) == FA4_OK, "%s", err.text);
    int wrong = 0, lost = 0;
    for (uint32_t i = 0; i < 65536; i++) {
        double want = value16(dtype, i);
        if (isnan(want)) {
            wrong += !isnan(wide[i]) || !isnan(wide64[i]);
            lost += !isnan(value16(dtype, back[i])) || !isnan(value16(dtype, back64[i]));
            lost += (back[i] & 0x8000u) != (i & 0x8000u) || (back64[i] & 0x8000u) != (i & 0x8000u);
        } else {
            wrong += (double)wide[i] != want || wide64[i] != want ||
                     !!signbit(wide[i]) != (int)(i >> 15);
            lost += back[i] != i || back64[i] != i;
        }
    }
    CHECK(wrong == 0, "dtype %d: %d values widen wrongly", dtype, wrong);
    CHECK(lost == 0, "dtype %d: %d values do not come back", dtype, lost);
}

/* Between each two neighbours: just below the middle, the middle, just above it. */
static void test_rounding(int32_t dtype) {
    uint16_t bits;
    fa4_tensor t = view1(&bits, dtype, 1);
    int64_t zero = 0;
    int wrong = 0;
    uint32_t first_inf = dtype == FA4_F16 ? 0x7c00 : 0x7f80;
    for (uint32_t i = 0; i < first_inf; i++) {
        double low = value16(dtype, i), step = i + 1 == first_inf ? low - value16(dtype, i - 1)
                                                                  : value16(dtype, i + 1) - low;
        double middle = low + step / 2;
        double inputs[3] = {nextafter(middle, 0), middle, nextafter(middle, INFINITY)};
        uint32_t wants[3] = {i, i % 2 == 0 ? i : i + 1, i + 1};
        for (int k = 0; k < 6; k++) {
            uint32_t sign = k >= 3 ? 0x8000u : 0;
            fa4_status status =
                fa4_tensor_set(&t, &zero, k >= 3 ? -inputs[k - 3] : inputs[k], &err);
            wrong += status != FA4_OK || bits != (wants[k % 3] | sign);
        }
    }
    CHECK(wrong == 0, "dtype %d: %d roundings of doubles next to a tie are wrong", dtype, wrong);
    static const double extremes[] = {1e300, INFINITY, 5e-324, 0.0};
    static const int to_inf[] = {1, 1, 0, 0};
    for (int k = 0; k < 4; k++) {
        fa4_tensor_set(&t, &zero, -extremes[k], &err);
        CHECK(bits == (0x8000u | (to_inf[k] ? first_inf : 0)), "%g became %04x", -extremes[k],
              bits);
    }
}

static void test_i32(void) {
    int32_t i[6];
    double d[6] = {2.5, 3.5, -2.5, 1e10, -INFINITY, NAN};
    fa4_tensor ti = view1(i, FA4_I32, 6), td = view1(d, FA4_F64, 6);
    CHECK(fa4_tensor_copy(&ti, &td, &err) == FA4_OK, "%s", err.text);
    CHECK(i[0] == 2 && i[1] == 4 && i[2] == -2, "%d %d %d", i[0], i[1], i[2]);
    CHECK(i[3] == INT32_MAX && i[4] == INT32_MIN && i[5] == 0, "%d %d %d", i[3], i[4], i[5]);
    CHECK(fa4_tensor_fill(&ti, 2147483648.0, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "i32") != NULL,
          "%s", err.text);
    CHECK(fa4_tensor_fill(&ti, NAN, &err) == FA4_BAD_ARGUMENT, "NaN");
    CHECK(i[3] == INT32_MAX, "a refused fill writes nothing");
    CHECK(fa4_tensor_fill(&ti, -2147483648.0, &err) == FA4_OK && i[5] == INT32_MIN, "the least");
}

/* ---- views ---- */

/* Copies between every pair of dtypes and several layouts; each element is compared through its
 * address. */
static void test_layouts(void) {
    enum { N = 4 * 5 * 6 };
    static const int64_t shape[3] = {4, 5, 6};
    static const int64_t layouts[5][3] = {
        {30, 6, 1}, {1, 4, 20}, {6, 24, 1}, {-30, 6, -1}, {70, 14, 2}};
    static const int64_t starts[5] = {0, 0, 0, 95, 0}, readonly[3] = {0, 1, 5};
    static double from_memory[400], to_memory[400];
    for (int pair = 0; pair < 25; pair++)
        for (int a = 0; a < 6; a++)
            for (int b = 0; b < 5; b++) {
                int32_t to_dtype = pair / 5, from_dtype = pair % 5;
                fa4_tensor from = {.dtype = from_dtype, .rank = 3},
                           to = {.dtype = to_dtype, .rank = 3};
                memcpy(from.shape, shape, sizeof shape);
                memcpy(to.shape, shape, sizeof shape);
                memcpy(from.strides, a == 5 ? readonly : layouts[a], sizeof shape);
                memcpy(to.strides, layouts[b], sizeof shape);
                from.data =
                    (char *)from_memory + (a == 5 ? 0 : starts[a]) * fa4_dtype_bytes(from_dtype);
                to.data = (char *)to_memory + starts[b] * fa4_dtype_bytes(to_dtype);
                fa4_tensor all = view1(from_memory, from_dtype, 400);
                for (int64_t i = 0; i < 400; i++)
                    fa4_tensor_set(&all, &i, (double)(i % 211) - 100, &err);
                fa4_tensor everywhere = view1(to_memory, to_dtype, 400);
                fa4_tensor_fill(&everywhere, 99, &err);
                fa4_status status = fa4_tensor_copy(&to, &from, &err);
                int wrong = 0, touched = 0;
                for (int64_t i = 0; i < N; i++) {
                    int64_t at[3] = {i / 30, i / 6 % 5, i % 6};
                    double x = 0, y = 1;
                    fa4_tensor_get(&from, at, &x, &err);
                    fa4_tensor_get(&to, at, &y, &err);
                    wrong += x != y;
                }
                for (int64_t i = 0; i < 400; i++) {
                    double x = 0;
                    fa4_tensor_get(&everywhere, &i, &x, &err);
                    touched += x != 99;
                }
                CHECK(status == FA4_OK && wrong == 0, "dtypes %d <- %d, layouts %d <- %d: %d wrong",
                      to_dtype, from_dtype, b, a, wrong);
                CHECK(touched <= N, "%d elements touched", touched);
            }
}

static void test_copy_arguments(void) {
    float x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    fa4_tensor a = {.data = x, .dtype = FA4_F32, .rank = 2, .shape = {3, 4}, .strides = {4, 1}};
    fa4_tensor b = a;
    b.shape[1] = 3;
    CHECK(fa4_tensor_copy(&a, &b, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "axis 1") != NULL,
          "%s", err.text);
    b = a;
    b.strides[0] = 0;
    CHECK(fa4_tensor_copy(&b, &a, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "destination.strides") != NULL,
          "%s", err.text);
    b = a;
    b.strides[0] = INT64_MAX / 2;
    CHECK(fa4_tensor_copy(&a, &b, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "source.strides") != NULL,
          "%s", err.text);
    b = a;
    b.data = NULL;
    CHECK(fa4_tensor_copy(&a, &b, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "source.data") != NULL,
          "%s", err.text);
    b.shape[0] = 0;
    fa4_tensor c = b;
    CHECK(fa4_tensor_copy(&b, &c, &err) == FA4_OK, "an empty tensor may have no data: %s",
          err.text);
    b = a;
    b.device = 1;
    CHECK(fa4_tensor_copy(&a, &b, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "host") != NULL,
          "%s", err.text);
    b = a;
    b.rank = 9;
    CHECK(fa4_tensor_copy(&b, &a, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "rank") != NULL,
          "%s", err.text);
    b = a;
    b.dtype = 5;
    CHECK(fa4_tensor_copy(&b, &a, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "dtype") != NULL,
          "%s", err.text);
    int64_t at[2] = {1, 4};
    double v;
    CHECK(fa4_tensor_get(&a, at, &v, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "axis 1: 4") != NULL,
          "%s", err.text);
    /* Reversing in place goes through a copy. */
    fa4_tensor forward = view1(x, FA4_F32, 12), backward = view1(x + 11, FA4_F32, 12);
    backward.strides[0] = -1;
    CHECK(fa4_tensor_copy(&forward, &backward, &err) == FA4_OK && x[0] == 11 && x[11] == 0 &&
              x[4] == 7,
          "reversed");
    int64_t big[3] = {INT64_C(4294967296), INT64_C(4294967296), 4}, n = 0;
    CHECK(fa4_shape_elements(big, 3, FA4_F16, &n, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "overflows") != NULL,
          "%s", err.text);
    int64_t zero[3] = {INT64_C(4294967296), 0, 4};
    CHECK(fa4_shape_elements(zero, 3, FA4_F16, &n, &err) == FA4_OK && n == 0,
          "zero sizes are legal");
    CHECK(fa4_shape_elements(zero, 0, FA4_F64, &n, &err) == FA4_OK && n == 1, "a scalar");
}

/* Against marking every byte. */
static bool overlap_by_marking(const fa4_tensor *a, const fa4_tensor *b) {
    static uint8_t marks[4096];
    memset(marks, 0, sizeof marks);
    for (int pass = 0; pass < 2; pass++) {
        const fa4_tensor *t = pass ? b : a;
        int64_t n = tensor_elements(t), width = fa4_dtype_bytes(t->dtype);
        for (int64_t i = 0; i < n; i++) {
            int64_t rest = i, at = 0;
            for (int32_t axis = t->rank - 1; axis >= 0; axis--) {
                at += rest % t->shape[axis] * t->strides[axis];
                rest /= t->shape[axis];
            }
            for (int64_t k = 0; k < width; k++) {
                int64_t byte = (int64_t)(intptr_t)t->data + at * width + k;
                if (pass && marks[byte]) return true;
                if (!pass) marks[byte] = 1;
            }
        }
    }
    return false;
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void test_overlap(void) {
    uint32_t state = 1;
    int seen[2] = {0, 0}, wrong = 0;
    for (int round = 0; round < 20000; round++) {
        fa4_tensor t[2];
        for (int k = 0; k < 2; k++) {
            t[k] = (fa4_tensor){.dtype = (int32_t)(next_random(&state) % 4),
                                .rank = (int32_t)(next_random(&state) % 4)};
            int64_t width = fa4_dtype_bytes(t[k].dtype);
            t[k].data = (void *)(uintptr_t)(1600 + width * (next_random(&state) % 40));
            for (int32_t i = 0; i < t[k].rank; i++) {
                t[k].shape[i] = next_random(&state) % 5;
                t[k].strides[i] = (int64_t)(next_random(&state) % 33) - 16;
            }
        }
        bool want = overlap_by_marking(&t[0], &t[1]);
        wrong += tensor_overlap(&t[0], &t[1]) != want;
        seen[want]++;
    }
    CHECK(wrong == 0 && seen[0] > 1500 && seen[1] > 1500, "%d wrong, %d apart, %d overlapping",
          wrong, seen[0], seen[1]);
    /* q, k and v as thirds of one (batch, seq, 3 heads, dim) tensor: ranges interleave, bytes do
     * not. */
    static uint16_t packed[2 * 100 * 3 * 8];
    fa4_tensor q = {.data = packed,
                    .dtype = FA4_F16,
                    .rank = 4,
                    .shape = {2, 100, 1, 8},
                    .strides = {2400, 24, 8, 1}},
               k = q;
    k.data = packed + 8;
    CHECK(!tensor_overlap(&q, &k), "neighbouring heads");
    k.data = packed + 7;
    CHECK(tensor_overlap(&q, &k), "one element shared");
    CHECK(tensor_distinct(&q), "heads");
    q.strides[2] = 0;
    CHECK(tensor_distinct(&q), "a stride of 0 on an axis of size 1");
    q.strides[1] = 0;
    CHECK(!tensor_distinct(&q), "a stride of 0");
}

/* ---- random numbers ---- */

static void test_philox(void) {
    static const uint32_t zero[4] = {0, 0, 0, 0}, ones[4] = {~0u, ~0u, ~0u, ~0u};
    static const uint32_t pi[6] = {0x243f6a88, 0x85a308d3, 0x13198a2e,
                                   0x03707344, 0xa4093822, 0x299f31d0};
    static const uint32_t wants[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    uint32_t out[4];
    tensor_philox(zero, zero, out);
    CHECK(memcmp(out, wants[0], 16) == 0, "%08x %08x %08x %08x", out[0], out[1], out[2], out[3]);
    tensor_philox(ones, ones, out);
    CHECK(memcmp(out, wants[1], 16) == 0, "%08x %08x %08x %08x", out[0], out[1], out[2], out[3]);
    tensor_philox(pi, pi + 4, out);
    CHECK(memcmp(out, wants[2], 16) == 0, "%08x %08x %08x %08x", out[0], out[1], out[2], out[3]);
}

static uint64_t hash_bytes(const void *bytes, size_t count) {
    uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ull;
    return h;
}

/* The normal numbers by libm, from the same words: agreement to 1e-14, never asked to be the same
 * bits. */
static double libm_normal(uint64_t seed, int64_t i) {
    uint32_t counter[4] = {(uint32_t)(i / 2), 0, 0, 0},
             key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, w[4];
    tensor_philox(counter, key, w);
    uint64_t a = ((uint64_t)w[1] << 32) | w[0], b = ((uint64_t)w[3] << 32) | w[2];
    double radius = sqrt(-2 * log((double)((a >> 11) + 1) * 0x1p-53));
    double turn = (double)(b >> 62) * 0.25 +
                  ((double)((b & 0x3fffffffffffffffull) >> 9) + 0.5) * 0x1p-55 - 0.125;
    return radius * (i % 2 ? sin(turn * 2 * 3.14159265358979323846)
                           : cos(turn * 2 * 3.14159265358979323846));
}

/* The bits that every machine must give. */
static const uint64_t PIN_NORMAL = 0x0c5067b28ad61b53, PIN_UNIFORM = 0x53aec359b80584c7;
static const double PIN_X0 = -0x1.9dd8a619349fcp-2, PIN_X1 = -0x1.f270863e34376p-3,
                    PIN_X999 = -0x1.8ed2229d8b5cp-1;

static void test_random_pinned(void) {
    static double x[1000];
    static float f[1000];
    static uint16_t h[1000];
    fa4_tensor t = view1(x, FA4_F64, 1000), t32 = view1(f, FA4_F32, 1000),
               t16 = view1(h, FA4_F16, 1000);
    CHECK(fa4_tensor_random(&t, FA4_RANDOM_NORMAL, 1, 1.0, &err) == FA4_OK, "%s", err.text);
    double worst = 0;
    for (int i = 0; i < 1000; i++)
        worst = fmax(worst, fabs(x[i] - libm_normal(1, i)));
    CHECK(worst < 1e-14, "%g from libm", worst);
    CHECK(hash_bytes(x, sizeof x) == PIN_NORMAL, "0x%llx %a %a %a",
          (unsigned long long)hash_bytes(x, sizeof x), x[0], x[1], x[999]);
    CHECK(x[0] == PIN_X0 && x[1] == PIN_X1 && x[999] == PIN_X999, "%a %a %a", x[0], x[1], x[999]);
    CHECK(fa4_tensor_random(&t32, FA4_RANDOM_NORMAL, 1, 1.0, &err) == FA4_OK, "%s", err.text);
    CHECK(fa4_tensor_random(&t16, FA4_RANDOM_NORMAL, 1, 1.0, &err) == FA4_OK, "%s", err.text);
    int wrong = 0;
    for (int64_t i = 0; i < 1000; i++)
        wrong += f[i] != (float)x[i] ||
                 fabs(value16(FA4_F16, h[i]) - x[i]) > fabs(x[i]) * 0x1p-11 + 0x1p-25;
    CHECK(wrong == 0, "%d elements of f32 or f16 are not f64 rounded", wrong);
    CHECK(fa4_tensor_random(&t, FA4_RANDOM_UNIFORM, 0xfedcba9876543210ull, 2.0, &err) == FA4_OK,
          "%s", err.text);
    CHECK(hash_bytes(x, sizeof x) == PIN_UNIFORM, "0x%llx",
          (unsigned long long)hash_bytes(x, sizeof x));
}

static void test_random_layout(void) {
    static float flat[4 * 250], strided[4 * 600];
    fa4_tensor a = {
        .data = flat, .dtype = FA4_F32, .rank = 2, .shape = {4, 250}, .strides = {250, 1}};
    fa4_tensor b = {
        .data = strided, .dtype = FA4_F32, .rank = 2, .shape = {4, 250}, .strides = {1, 8}};
    CHECK(fa4_tensor_random(&a, FA4_RANDOM_NORMAL, 7, 3.0, &err) == FA4_OK, "%s", err.text);
    CHECK(fa4_tensor_random(&b, FA4_RANDOM_NORMAL, 7, 3.0, &err) == FA4_OK, "%s", err.text);
    int wrong = 0;
    for (int i = 0; i < 1000; i++)
        wrong += flat[i] != strided[i / 250 + i % 250 * 8];
    CHECK(wrong == 0, "%d elements depend on the layout", wrong);
    /* An odd row length, so that rows start inside a block. */
    fa4_tensor c = {
        .data = strided, .dtype = FA4_F32, .rank = 2, .shape = {3, 251}, .strides = {300, 1}};
    fa4_tensor_random(&c, FA4_RANDOM_NORMAL, 7, 3.0, &err);
    wrong = 0;
    for (int i = 0; i < 3 * 251; i++)
        wrong += flat[i] != strided[i / 251 * 300 + i % 251];
    CHECK(wrong == 0, "%d elements depend on the shape", wrong);
    fa4_tensor_random(&a, FA4_RANDOM_NORMAL, 8, 3.0, &err);
    wrong = 0;
    for (int i = 0; i < 3 * 251; i++)
        wrong += flat[i] == strided[i / 251 * 300 + i % 251];
    CHECK(wrong == 0, "%d elements are the same for another seed", wrong);
}

static void test_random_statistics(void) {
    enum { N = 200000 };
    static float x[N];
    fa4_tensor t = view1(x, FA4_F32, N);
    fa4_tensor_random(&t, FA4_RANDOM_NORMAL, 3, 1.0, &err);
    double mean = 0, square = 0, fourth = 0, pair = 0;
    int beyond2 = 0;
    for (int i = 0; i < N; i++) {
        double v = x[i];
        mean += v / N, square += v * v / N, fourth += v * v * v * v / N, beyond2 += fabs(v) > 2;
        if (i > 0) pair += v * x[i - 1] / N;
    }
    /* Five deviations of each estimate. */
    CHECK(fabs(mean) < 5 / sqrt(N), "mean %g", mean);
    CHECK(fabs(square - 1) < 5 * sqrt(2.0 / N), "second moment %g", square);
    CHECK(fabs(fourth - 3) < 5 * sqrt(96.0 / N), "fourth moment %g", fourth);
    CHECK(fabs(pair) < 5 / sqrt(N), "neighbours' product %g", pair);
    CHECK(fabs(beyond2 - 0.0455003 * N) < 5 * sqrt(0.0455 * N), "beyond two deviations: %d",
          beyond2);
    static const double scales[] = {1.0, 0.1, 3.0, 6e-8, 65504.0, 0.0};
    static uint16_t h[N];
    for (int k = 0; k < 12; k++) {
        double scale = scales[k / 2], low = INFINITY, high = -INFINITY;
        fa4_tensor u = view1(h, k % 2 ? FA4_BF16 : FA4_F16, N);
        CHECK(fa4_tensor_random(&u, FA4_RANDOM_UNIFORM, 5, scale, &err) == FA4_OK, "%s", err.text);
        for (int i = 0; i < N; i++)
            low = fmin(low, value16(u.dtype, h[i])), high = fmax(high, value16(u.dtype, h[i]));
        CHECK(low >= -scale && (high < scale || scale == 0), "scale %g: %g to %g", scale, low,
              high);
        CHECK(scale < 1e-3 || (low < -0.98 * scale && high > 0.98 * scale),
              "scale %g: only %g to %g", scale, low, high);
    }
    CHECK(fa4_tensor_random(&t, FA4_RANDOM_NORMAL, 5, -1.0, &err) == FA4_BAD_ARGUMENT,
          "negative scale");
    CHECK(fa4_tensor_random(&t, FA4_RANDOM_NORMAL, 5, NAN, &err) == FA4_BAD_ARGUMENT, "NaN scale");
    CHECK(fa4_tensor_random(&t, 2, 5, 1.0, &err) == FA4_BAD_ARGUMENT, "unknown distribution");
    fa4_tensor u = view1(h, FA4_F16, N);
    CHECK(fa4_tensor_random(&u, FA4_RANDOM_UNIFORM, 5, 1e6, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "range of f16") != NULL,
          "%s", err.text);
    t.dtype = FA4_I32;
    CHECK(fa4_tensor_random(&t, FA4_RANDOM_UNIFORM, 5, 1.0, &err) == FA4_BAD_ARGUMENT, "i32");
}

int main(void) {
    CHECK(strcmp(fa4_dtype_name(FA4_BF16), "bf16") == 0 && fa4_dtype_name(5) == NULL &&
              fa4_dtype_name(-1) == NULL,
          "names");
    CHECK(fa4_dtype_bytes(FA4_I32) == 4 && fa4_dtype_bytes(5) == 0 && fa4_dtype_bytes(-1) == 0,
          "bytes");
    test_storage();
    test_device_storage();
    test_all_16_bit_values(FA4_F16);
    test_all_16_bit_values(FA4_BF16);
    test_rounding(FA4_F16);
    test_rounding(FA4_BF16);
    test_i32();
    test_layouts();
    test_copy_arguments();
    test_overlap();
    test_philox();
    test_random_pinned();
    test_random_layout();
    test_random_statistics();
    return check_report();
}
