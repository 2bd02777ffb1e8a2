/* Strict JSON for safetensors headers: see json.h. */
#include "files/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

fa4_status json_refuse(const json_reader *in, fa4_error *err, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c != '\0';
         c++) /* a file's own words must not reach a terminal as commands */
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return error_set(err, FA4_BAD_FILE, "%s: header byte %lld: %s", in->path, (long long)in->at,
                     text);
}

static void skip_space(json_reader *in) {
    while (in->at < in->bytes && strchr(" \t\r\n", in->text[in->at]) != NULL &&
           in->text[in->at] != '\0')
        in->at++;
}

bool json_accept(json_reader *in, char c) {
    skip_space(in);
    if (in->at >= in->bytes || in->text[in->at] != c) return false;
    in->at++;
    return true;
}

fa4_status json_expect(json_reader *in, char c, fa4_error *err) {
    if (json_accept(in, c)) return FA4_OK;
    if (in->at >= in->bytes) return json_refuse(in, err, "expected '%c', got the header's end", c);
    unsigned char got = (unsigned char)in->text[in->at];
    if (got >= 0x20 && got < 0x7f) return json_refuse(in, err, "expected '%c', got '%c'", c, got);
    return json_refuse(in, err, "expected '%c', got byte 0x%02x", c, got);
}

int32_t json_utf8(const unsigned char *p, int64_t left) {
    if (left < 1) return 0;
    if (p[0] < 0x80) return 1;
    int32_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || length > left) return 0;
    for (int32_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool surrogate = p[0] == 0xed && p[1] > 0x9f;
    bool beyond = p[0] == 0xf4 && p[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : length;
}

/* Four hexadecimal digits at `at`; -1 when they are not. */
static int32_t hex4(const json_reader *in, int64_t at) {
    int32_t value = 0;
    if (at + 4 > in->bytes) return -1;
    for (int64_t i = at; i < at + 4; i++) {
        char c = in->text[i];
        int32_t digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *out, int32_t code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 63));
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    }
    return out;
}

/* in->at is behind "\u". */
static fa4_status decode_unicode(json_reader *in, char **out, fa4_error *err) {
    int32_t code = hex4(in, in->at);
    if (code < 0) return json_refuse(in, err, "\\u needs four hexadecimal digits");
    in->at += 4;
    if (code >= 0xd800 && code <= 0xdbff) {
        int32_t low =
            in->at + 6 <= in->bytes && in->text[in->at] == '\\' && in->text[in->at + 1] == 'u'
                ? hex4(in, in->at + 2)
                : -1;
        if (low < 0xdc00 || low > 0xdfff) return json_refuse(in, err, "half of a surrogate pair");
        in->at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return json_refuse(in, err, "half of a surrogate pair");
    }
    if (code == 0) return json_refuse(in, err, "\\u0000 in a string");
    *out = put_utf8(*out, code);
    return FA4_OK;
}

static fa4_status decode_escape(json_reader *in, char **out, fa4_error *err) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = in->text[in->at]; /* the text ends with NUL */
    if (c == 'u') {
        in->at++;
        return decode_unicode(in, out, err);
    }
    const char *found = c == '\0' ? NULL : strchr(names, c);
    if (found == NULL) return json_refuse(in, err, "unknown escape in a string");
    *(*out)++ = values[found - names];
    in->at++;
    return FA4_OK;
}

fa4_status json_string(json_reader *in, char **string, fa4_error *err) {
    FA4_TRY(json_expect(in, '"', err));
    char *out = in->text + in->at;
    *string = out;
    while (in->at < in->bytes) {
        unsigned char c = (unsigned char)in->text[in->at];
        if (c == '"') {
            in->at++;
            *out = '\0'; /* at most on the closing quote */
            return FA4_OK;
        }
        if (c < 0x20) return json_refuse(in, err, "control character 0x%02x in a string", c);
        if (c == '\\') {
            in->at++;
            FA4_TRY(decode_escape(in, &out, err));
            continue;
        }
        int32_t length = json_utf8((const unsigned char *)in->text + in->at, in->bytes - in->at);
        if (length == 0) return json_refuse(in, err, "bytes in a string that are not UTF-8");
        memmove(out, in->text + in->at, (size_t)length);
        out += length;
        in->at += length;
    }
    return json_refuse(in, err, "a string without an end");
}

fa4_status json_whole_number(json_reader *in, int64_t *number, fa4_error *err) {
    skip_space(in);
    int64_t start = in->at, value = 0;
    for (; in->at < in->bytes && in->text[in->at] >= '0' && in->text[in->at] <= '9'; in->at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, in->text[in->at] - '0', &value))
            return json_refuse(in, err, "a number above 9223372036854775807");
    }
    if (in->at == start) return json_refuse(in, err, "expected a whole number of at least 0");
    if (in->at - start > 1 && in->text[start] == '0')
        return json_refuse(in, err, "a number with a leading zero");
    if (in->at < in->bytes && strchr(".eE", in->text[in->at]) != NULL && in->text[in->at] != '\0')
        return json_refuse(in, err, "expected a whole number, got a fraction");
    *number = value;
    return FA4_OK;
}

fa4_status json_end(json_reader *in, fa4_error *err) {
    skip_space(in);
    if (in->at < in->bytes) return json_refuse(in, err, "text after the header's end");
    return FA4_OK;
}

int32_t json_position(json_reader *in) {
    skip_space(in);
    return (int32_t)in->at;
}

void json_seek(json_reader *in, int32_t position) {
    in->at = position;
}
