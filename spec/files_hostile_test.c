/* Hostile files, one by one: each must be refused with the error that says why, at once, without
 * taking memory. */
#include "files.h"

#include <sys/stat.h>
#include <zlib.h>

/* ---- npy ---- */

/* A version-1 file with this header text, padded as numpy pads it, and `data` bytes of zeros. */
static void npy(blob *b, const char *header, size_t data) {
    b->count = 0;
    size_t length = (10 + strlen(header) + 1 + 63) / 64 * 64 - 10;
    put(b, "\x93NUMPY\1\0", 8);
    put_number(b, length, 2);
    put_string(b, header);
    while (b->count < 10 + length - 1)
        put_string(b, " ");
    put_string(b, "\n");
    memset(b->bytes + b->count, 0, data);
    b->count += data;
}

static void refuse_npy(const char *header, size_t data, const char *words) {
    static blob b;
    npy(&b, header, data);
    refuse_blob("bad.npy", &b, words);
}

/* Item 15 of the known answers. */
static void test_known_answers(void) {
    static blob a;
    a.count = 0;
    put(&a, "\x93NUMPY\x02\x00\xf0\xff\xff\xff", 12);
    refuse_blob("a.npy", &a, "4294967280 bytes, in a file of 12");
    refuse_npy("{'descr': '<f2', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }",
               0, "overflow");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 1000), }", 10,
               "4000000 bytes of f32, the file has 10");
    refuse_npy("{'descr': '<ixy', 'fortran_order': False, 'shape': (2,), }", 8, "'<ixy'");
    refuse_npy("{'descr': '', 'fortran_order': False, 'shape': (2,), }", 8, "dtype");
    refuse_npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 8, "'|O'");
}

static void test_npy(void) {
    refuse_npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", 4, "safetensors");
    refuse_npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, "'>f4'");
    refuse_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 16, "'<i8'");
    refuse_npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8,
               "structured");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, "7 bytes of data");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9, "9 bytes of data");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 8, "at least 0");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8,
               "9223372036854775807");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }",
               4, "8 axes");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", 8, "not a tuple");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", 8, "expected ')'");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': [2], }", 8, "expected '('");
    refuse_npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", 8, "True or False");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, }", 8, "are needed");
    refuse_npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8,
               "'descr' twice");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", 8,
               "unknown key 'x'");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", 8,
               "after the dictionary");
    refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), ", 8, "expected '\"'");
    refuse_npy("{'descr': '<f4", 8, "string");
    refuse_npy("{'descr': '<f\\x34', 'fortran_order': False, 'shape': (2,), }", 8, "in a string");
    refuse_npy("", 8, "expected '{'");
    refuse_npy("((((((((((((((((((((((((((((((((((((((((((((((((((", 8, "expected '{'");
    static blob b;
    npy(&b, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8);
    b.bytes[6] = 4;
    refuse_blob("version.npy", &b, "version 4.0");
    b.bytes[6] = 1, b.bytes[7] = 1;
    refuse_blob("version.npy", &b, "version 1.1");
    for (b.bytes[7] = 0, b.count = 6; b.count < 136; b.count++) /* cut off everywhere */
        refuse_blob("cut.npy", &b, b.count < 128 ? "npy header" : "data");
    static blob big;
    big.count = 0;
    put(&big, "\x93NUMPY\2\0", 8);
    put_number(&big, 65537, 4);
    memset(big.bytes + big.count, ' ', 65537);
    big.count += 65537;
    refuse_blob("big.npy", &big, "at most 65536");
}

/* ---- safetensors ---- */

static void safetensors(blob *b, const char *header, size_t data) {
    b->count = 0;
    put_number(b, strlen(header), 8);
    put_string(b, header);
    memset(b->bytes + b->count, 0, data);
    b->count += data;
}

static void refuse_safetensors(const char *header, size_t data, const char *words) {
    static blob b;
    safetensors(&b, header, data);
    refuse_blob("bad.safetensors", &b, words);
}

static void refuse_length(uint64_t length, const char *words) {
    static blob b;
    safetensors(&b, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    for (int i = 0; i < 8; i++)
        b.bytes[i] = (unsigned char)(length >> (8 * i));
    refuse_blob("length.safetensors", &b, words);
}

#define A4 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"

static void test_safetensors_structure(void) {
    refuse_length(1ull << 30, "header of 1073741824 bytes");
    refuse_length(UINT64_MAX, "header of 18446744073709551615 bytes");
    refuse_length(1ull << 63, "header of");
    refuse_length(0, "header of 0 bytes");
    refuse_length(60, "header of 60 bytes");
    refuse_length(53, "expected '}', got the header's end");
    refuse_safetensors("{" A4 "," A4 "}", 4, "'a' twice");
    refuse_safetensors("{" A4
                       ",\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}",
                       4, "'a' twice");
    refuse_safetensors("{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6,
                       "overlap");
    refuse_safetensors("{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                       "overlap");
    refuse_safetensors("{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5,9]}}", 9,
                       "a hole");
    refuse_safetensors("{" A4 "}", 5, "take 4 bytes, the file has 5");
    refuse_safetensors("{" A4 "}", 3, "outside the data of 3 bytes");
    refuse_safetensors("{}", 3, "take 0 bytes, the file has 3");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
                       "outside the data");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
                       "takes 8 bytes, its data_offsets span 4");
    refuse_safetensors("{\"a\":{\"dtype\":\"F4\",\"shape\":[7],\"data_offsets\":[0,4]}}", 4,
                       "span 4");
    refuse_safetensors(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0,
        "overflows");
    refuse_safetensors(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807,9],\"data_offsets\":[0,0]}}", 0,
        "overflows");
    refuse_safetensors(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0,
        "above 9223372036854775807");
    refuse_safetensors(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
        "more than 8 numbers");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
                       "1 numbers, not 2");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4,
                       "more than 2 numbers");
    refuse_safetensors("{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                       "unknown dtype 'F31'");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "are needed");
    refuse_safetensors(
        "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
        "'dtype' twice");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}",
                       4, "unknown field 'x'");
    refuse_safetensors("{\"a\":{}}", 0, "expected '\"'");
    refuse_safetensors("{\"a\":1}", 0, "expected '{', got '1'");
    refuse_safetensors(" {" A4 "}", 4, "must begin with '{'");
    refuse_safetensors("{" A4 "}x", 4, "after the header's end");
    refuse_safetensors("{" A4 ",}", 4, "expected '\"', got '}'");
    refuse_safetensors("{,}", 0, "expected '\"', got ','");
}

static void test_safetensors_json(void) {
    refuse_safetensors("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "metadata key 'k' twice");
    refuse_safetensors("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ twice");
    refuse_safetensors("{\"__metadata__\":{\"k\":1}}", 0, "expected '\"', got '1'");
    refuse_safetensors("{\"__metadata__\":{\"k\":{\"k\":\"\"}}}", 0, "expected '\"', got '{'");
    refuse_safetensors("{\"__metadata__\":[]}", 0, "expected '{', got '['");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
                       "fraction");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1e0],\"data_offsets\":[0,4]}}", 4,
                       "fraction");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4,
                       "leading zero");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
                       "at least 0");
    refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,],\"data_offsets\":[0,4]}}", 4,
                       "whole number");
    refuse_safetensors("{\"a\\x\":1}", 0, "unknown escape");
    refuse_safetensors("{\"a\\u12g4\":1}", 0, "four hexadecimal");
    refuse_safetensors("{\"a\\u0000\":1}", 0, "u0000");
    refuse_safetensors("{\"a\\ud800\":1}", 0, "surrogate");
    refuse_safetensors("{\"a\\ud800\\u0041\":1}", 0, "surrogate");
    refuse_safetensors("{\"a\\udc00\":1}", 0, "surrogate");
    refuse_safetensors("{\"a\n\":1}", 0, "control character 0x0a");
    refuse_safetensors("{\"\xc0\x80\":1}", 0, "not UTF-8");
    refuse_safetensors("{\"\xed\xa0\x80\":1}", 0, "not UTF-8");
    refuse_safetensors("{\"\xf4\x90\x80\x80\":1}", 0, "not UTF-8");
    refuse_safetensors("{\"\xe2\x82\":1}", 0, "not UTF-8");
    refuse_safetensors("{\"abc", 0, "without an end");
    refuse_safetensors("{\"abc\\", 0, "unknown escape");
    refuse_safetensors("{\"abc\\u00", 0, "four hexadecimal");
    static char deep[60001];
    memset(deep, '[', 60000);
    deep[0] = '{', deep[1] = '"', deep[2] = '"', deep[3] = ':';
    refuse_safetensors(deep, 0, "expected '{', got '['");
    for (int i = 0; i < 60000; i += 4)
        memcpy(deep + i, "{\"\":", 4);
    refuse_safetensors(deep, 0, "unknown field ''");
    refuse_safetensors("{\"a\x1b[2J\":1}", 0, "control character 0x1b");
    refuse_safetensors("{\"\\u001b[2J\":{\"x\":1}}", 0, "tensor '?[2J'");
    static blob b;
    safetensors(&b, "{" A4 "}", 4);
    size_t whole = b.count;
    for (b.count = 0; b.count < whole; b.count++)
        refuse_blob("cut.safetensors", &b, path_of(""));
}

/* A header of `count` times `entry` (with %d for a number), the last one with number 0 again. */
static void refuse_many(const char *entry, int count, int metadata, const char *words) {
    static char text[2 << 20];
    size_t n = 0;
    text[n++] = '{';
    if (metadata) n += (size_t)sprintf(text + n, "\"__metadata__\":{");
    for (int i = 0; i < count; i++) {
        if (i > 0) text[n++] = ',';
        n += (size_t)sprintf(text + n, entry, i < count - 1 ? i : 0);
    }
    n += (size_t)sprintf(text + n, metadata ? "}}" : "}");
    const char *path = path_of("many.safetensors");
    FILE *f = fopen(path, "wb");
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(n >> (8 * i));
    CHECK(f != NULL && fwrite(length, 1, 8, f) == 8 && fwrite(text, 1, n, f) == n && fclose(f) == 0,
          "%s", path);
    check_refused(path, (int64_t)n + 8, FA4_BAD_FILE, words);
    unlink(path);
}

static void test_safetensors_limits(void) {
    static const char tensor[] = "\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    refuse_many(tensor, 16384, 0, "'0' twice");
    refuse_many(tensor, 16385, 0, "more than 16384");
    refuse_many("\"%d\":\"\"", 8192, 1, "metadata key '0' twice");
    refuse_many("\"%d\":\"\"", 8193, 1, "more than 8192");
}

/* ---- npz ---- */

typedef struct member {
    const char *name;
    const blob *content;
    int method;
    uint32_t crc_change;   /* xor */
    int64_t size_change;   /* added to the unpacked size */
    int64_t packed_change; /* added to the packed size in the directory */
    int64_t header_at_change;
    int flags;
    int cut; /* bytes of the packed data left out */
} member;

static size_t deflate_blob(const blob *in, unsigned char *out, size_t room) {
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (unsigned char *)(uintptr_t)in->bytes, z.avail_in = (uInt)in->count;
    z.next_out = out, z.avail_out = (uInt)room;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return room - z.avail_out;
}

/* An archive of the members, each as its fields distort it. */
static void zip(blob *b, const member *members, int count) {
    b->count = 0;
    size_t at[8], packed[8];
    static unsigned char out[70000];
    for (int i = 0; i < count; i++) {
        const member *m = &members[i];
        at[i] = b->count;
        packed[i] = m->method == 8 ? deflate_blob(m->content, out, sizeof out) : m->content->count;
        if (m->method != 8) memcpy(out, m->content->bytes, m->content->count);
        packed[i] -= (size_t)m->cut;
        put_number(b, 0x04034b50, 4);
        put_number(b, 45, 2), put_number(b, (uint64_t)m->flags, 2),
            put_number(b, (uint64_t)m->method, 2);
        put_number(b, 0, 4), put_number(b, 0, 4);
        put_number(b, 0xffffffff, 4),
            put_number(b, 0xffffffff, 4); /* numpy writes these and a zip64 field */
        put_number(b, strlen(m->name), 2), put_number(b, 20, 2);
        put_string(b, m->name);
        put_number(b, 1, 2), put_number(b, 16, 2), put_number(b, m->content->count, 8),
            put_number(b, packed[i], 8);
        put(b, out, packed[i]);
    }
    size_t directory = b->count;
    for (int i = 0; i < count; i++) {
        const member *m = &members[i];
        put_number(b, 0x02014b50, 4);
        put_number(b, 45, 2), put_number(b, 45, 2), put_number(b, (uint64_t)m->flags, 2),
            put_number(b, (uint64_t)m->method, 2);
        put_number(b, 0, 4);
        put_number(b, crc32(0, m->content->bytes, (uInt)m->content->count) ^ m->crc_change, 4);
        put_number(b, (uint64_t)((int64_t)packed[i] + m->packed_change), 4);
        put_number(b, (uint64_t)((int64_t)m->content->count + m->size_change), 4);
        put_number(b, strlen(m->name), 2), put_number(b, 0, 2), put_number(b, 0, 2),
            put_number(b, 0, 2), put_number(b, 0, 2);
        put_number(b, 0, 4);
        put_number(b, (uint64_t)((int64_t)at[i] + m->header_at_change), 4);
        put_string(b, m->name);
    }
    size_t bytes = b->count - directory;
    put_number(b, 0x06054b50, 4);
    put_number(b, 0, 4), put_number(b, (uint64_t)count, 2), put_number(b, (uint64_t)count, 2);
    put_number(b, bytes, 4), put_number(b, directory, 4), put_number(b, 0, 2);
}

static void refuse_member(member m, const char *words) {
    static blob good;
    npy(&good, "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", 20);
    member members[2] = {{.name = "first.npy", .content = &good}, m};
    static blob b;
    zip(&b, members, 2);
    refuse_blob("bad.npz", &b, words);
}

static void test_npz_members(void) {
    static blob good;
    npy(&good, "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", 20);
    for (int method = 0; method <= 8; method += 8) {
        member m = {.name = "x.npy", .content = &good, .method = method};
        member both[2] = {{.name = "first.npy", .content = &good}, m};
        static blob b;
        zip(&b, both, 2);
        fa4_file *file = open_good(save("good.npz", b.bytes, b.count), 0);
        CHECK(file != NULL && fa4_file_count(file) == 2 && strcmp(fa4_file_name(file, 1), "x") == 0,
              "a good archive");
        fa4_file_close(file);
        while (--b.count > 3)
            refuse_blob("cut.npz", &b, "zip");
        member bad = m;
        bad.crc_change = 1;
        refuse_member(bad, "checksum");
        bad = m, bad.flags = 1;
        refuse_member(bad, "encrypted");
        bad = m, bad.packed_change = 1000;
        refuse_member(bad, "outside the file");
        bad = m, bad.packed_change = -1;
        refuse_member(bad, method == 8 ? "deflated data" : "two sizes");
        bad = m, bad.size_change = 1;
        refuse_member(bad, method == 8 ? "shorter" : "two sizes");
        bad = m, bad.size_change = -1;
        refuse_member(bad, method == 8 ? "data" : "two sizes");
        bad = m, bad.size_change = 0x7fff0000;
        refuse_member(bad, method == 8 ? "beyond its data" : "two sizes");
        bad = m, bad.header_at_change = -1;
        refuse_member(bad, "no member where");
        bad = m, bad.header_at_change = 100000;
        refuse_member(bad, "outside the file");
        bad = m, bad.name = "first.npy";
        refuse_member(bad, "'first.npy' twice");
        bad = m, bad.name = "x.txt";
        refuse_member(bad, "not an .npy file");
        bad = m, bad.name = "\xff.npy";
        refuse_member(bad, "UTF-8");
        static blob other;
        npy(&other, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 20);
        bad = m, bad.content = &other;
        refuse_member(bad, "member 'x.npy'");
        other.count = 9;
        refuse_member(bad, "no npy header");
    }
    member m = {.name = "x.npy", .content = &good, .method = 12};
    refuse_member(m, "compression method 12");
    m.method = 8, m.cut = 3;
    refuse_member(m, "broken");
}

/* 64 KB of zeros in 100 bytes, declared honestly but broken at the end: found before their memory
 * is taken. */
static void test_npz_bomb(void) {
    static blob zeros;
    npy(&zeros, "{'descr': '<f4', 'fortran_order': False, 'shape': (16000,), }", 64000);
    member members[8];
    static char names[8][16];
    for (int i = 0; i < 8; i++) {
        snprintf(names[i], sizeof names[i], "%d.npy", i);
        members[i] = (member){.name = names[i], .content = &zeros, .method = 8};
    }
    members[7].crc_change = 5;
    static blob b;
    zip(&b, members, 8);
    CHECK(b.count < 4000, "%zu bytes", b.count);
    int64_t peak = account.host_bytes_max;
    refuse_blob("bomb.npz", &b, "checksum");
    CHECK(account.host_bytes_max == peak, "%lld bytes of storages",
          (long long)account.host_bytes_max);
    members[7].crc_change = 0;
    zip(&b, members, 8);
    fa4_file *file = open_good(save("good.npz", b.bytes, b.count), 0);
    CHECK(file != NULL && fa4_file_count(file) == 8 && account.host_bytes == 8 * 64000,
          "a good one is read");
    fa4_file_close(file);
}

static void test_npz_ends(void) {
    static blob empty;
    empty.count = 0;
    put_number(&empty, 0x06054b50, 4);
    put_number(&empty, 0, 8), put_number(&empty, 0, 8), put_number(&empty, 0, 2);
    fa4_file *file = open_good(save("empty.npz", empty.bytes, empty.count), 0);
    CHECK(file != NULL && fa4_file_count(file) == 0, "an empty archive");
    fa4_file_close(file);
    static blob b;
    b = empty;
    b.bytes[10] = b.bytes[8] = 1;
    refuse_blob("end.npz", &b, "more members");
    b.bytes[8] = 0;
    refuse_blob("end.npz", &b, "several disks");
    b.bytes[8] = b.bytes[10] = 1, b.bytes[9] = b.bytes[11] = 12;
    refuse_blob("end.npz", &b, "3073 members");
    b = empty, b.bytes[12] = 1;
    refuse_blob("end.npz", &b, "outside the file");
    b = empty, b.bytes[20] = 1;
    refuse_blob("end.npz", &b, "no end");
    b = empty, memset(b.bytes + 8, 0xff, 12);
    refuse_blob("end.npz", &b, "zip64");
    /* A zip64 end that points at itself, far away, or at nothing. */
    static const uint64_t counts[] = {0, UINT64_MAX, 1ull << 40}, places[] = {0, UINT64_MAX, 200};
    for (int i = 0; i < 9; i++) {
        static blob z;
        z.count = 0;
        put_number(&z, 0x04034b50, 4);
        put_number(&z, 0x06064b50, 4), put_number(&z, 44, 8), put_number(&z, 45, 2),
            put_number(&z, 45, 2), put_number(&z, 0, 8);
        put_number(&z, counts[i % 3], 8), put_number(&z, counts[i % 3], 8);
        put_number(&z, i % 3 == 1 ? UINT64_MAX : 5, 8),
            put_number(&z, i % 3 == 2 ? UINT64_MAX - 4 : 0, 8);
        put_number(&z, 0x07064b50, 4), put_number(&z, 0, 4),
            put_number(&z, i / 3 == 0 ? 4 : places[i / 3], 8), put_number(&z, 1, 4);
        size_t end = z.count;
        put(&z, empty.bytes, empty.count);
        memset(z.bytes + end + 8, 0xff, 12);
        refuse_blob("end64.npz", &z, "zip:");
    }
}

/* ---- other things at the path ---- */

static void test_not_files(void) {
    check_refused(path_of("missing.npy"), 0, FA4_IO, "No such file");
    check_refused(folder, 0, FA4_IO, "directory");
    check_refused("/dev/zero", 0, FA4_BAD_FILE, "not a regular file");
    const char *pipe = path_of("pipe.npz");
    CHECK(mkfifo(pipe, 0600) == 0, "a pipe");
    check_refused(pipe, 0, FA4_BAD_FILE, "not a regular file");
    unlink(pipe);
    static blob b;
    b.count = 0;
    refuse_blob("empty", &b, "neither");
    put_string(&b, "hello, world, this is text");
    refuse_blob("text", &b, "neither .npy, .npz nor safetensors");
    refuse_blob("text.safetensors", &b, "header of");
}

int main(void) {
    folder_create();
    test_known_answers();
    test_npy();
    test_safetensors_structure();
    test_safetensors_json();
    test_safetensors_limits();
    test_npz_members();
    test_npz_bomb();
    test_npz_ends();
    test_not_files();
    unlink(path_of("good.npz"));
    unlink(path_of("empty.npz"));
    CHECK(rmdir(folder) == 0, "%s is empty again", folder);
    return check_report();
}
