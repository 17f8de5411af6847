#include "base/text.h"

#include <stdio.h>

static const char hex_digits[] = "0123456789abcdef";
static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int hf__hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void hf__percent_encode(struct hf_slice text, bool keep_slash, struct hf_buf *ret)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (is_unreserved(c) || (keep_slash && c == '/')) hf__buf_char(ret, c);
        else hf__buf_printf(ret, "%%%02X", (unsigned char)c);
    }
}

void hf__hex_encode(const void *data, size_t len, char *ret)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++) {
        *ret++ = hex_digits[bytes[i] >> 4];
        *ret++ = hex_digits[bytes[i] & 15];
    }
    *ret = '\0';
}

size_t hf__base64_encode(const void *data, size_t len, char *ret)
{
    const unsigned char *in = data;
    char *out = ret;
    for (; len >= 3; len -= 3, in += 3) {
        *out++ = base64_digits[in[0] >> 2];
        *out++ = base64_digits[(in[0] & 3) << 4 | in[1] >> 4];
        *out++ = base64_digits[(in[1] & 15) << 2 | in[2] >> 6];
        *out++ = base64_digits[in[2] & 63];
    }
    if (len > 0) {
        unsigned second = len == 2 ? in[1] : 0;
        *out++ = base64_digits[in[0] >> 2];
        *out++ = base64_digits[(in[0] & 3) << 4 | second >> 4];
        *out++ = len == 2 ? base64_digits[(second & 15) << 2] : '=';
        *out++ = '=';
    }
    *out = '\0';
    return (size_t)(out - ret);
}

/* The value of a digit plus one; 0: it is not a digit. */
static const unsigned char base64_values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
};

bool hf__base64_decode(struct hf_slice text, void *ret, size_t *ret_len)
{
    const unsigned char *in = (const unsigned char *)text.ptr;
    unsigned char *out = ret;
    if (text.len % 4 != 0) return false;
    size_t padding = 0;
    while (padding < 2 && padding < text.len && in[text.len - 1 - padding] == '=') padding++;
    for (size_t at = 0; at < text.len; at += 4) {
        size_t digits = at + 4 < text.len ? 4 : 4 - padding;
        uint32_t bits = 0;
        for (size_t i = 0; i < 4; i++) {
            unsigned value = i < digits ? base64_values[in[at + i]] : 1;
            if (value == 0) return false;
            bits = bits << 6 | (value - 1);
        }
        *out++ = (unsigned char)(bits >> 16);
        if (digits > 2) *out++ = (unsigned char)(bits >> 8);
        if (digits > 3) *out++ = (unsigned char)bits;
        else if (bits & (digits == 3 ? 0xffu : 0xffffu)) return false; /* unused bits */
    }
    *ret_len = (size_t)(out - (unsigned char *)ret);
    return true;
}

size_t hf__utf8_sequence(const char *at, const char *end)
{
    const unsigned char *p = (const unsigned char *)at;
    size_t left = (size_t)(end - at);
    if (left == 0) return 0;
    if (p[0] < 0x80) return 1;
    size_t len = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (len == 0 || left < len) return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0; /* overlong */
    if (p[0] == 0xed && p[1] > 0x9f) return 0; /* surrogate */
    if (p[0] == 0xf0 && p[1] < 0x90) return 0; /* overlong */
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0; /* above U+10FFFF */
    return len;
}

/* The number of leading bytes that are ASCII, counted in words as far as they go. */
static size_t ascii_run(const char *at, const char *end)
{
    const char *from = at;
    for (uint64_t word; end - at >= (ptrdiff_t)sizeof word; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        if (word & 0x8080808080808080u) break;
    }
    return (size_t)(at - from);
}

/* Whether one of eight bytes may be a quote, a backslash, a control character or not ASCII. */
static bool may_stop(uint64_t word)
{
    const uint64_t each = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t quote = word ^ (each * '"'), slash = word ^ (each * '\\');
    uint64_t below = (word - each * 0x20) | (quote - each) | (slash - each);
    return ((word | below) & high) != 0;
}

size_t hf__plain_run(const char *at, const char *end)
{
    static const bool stops[256] = {
        [0 ... 31] = true, ['"'] = true, ['\\'] = true, [128 ... 255] = true};
    const char *from = at;
    for (uint64_t word; end - at >= (ptrdiff_t)sizeof word; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        if (may_stop(word)) break;
    }
    while (at < end && !stops[(unsigned char)*at]) at++;
    return (size_t)(at - from);
}

bool hf__utf8_valid(struct hf_slice text)
{
    const char *at = text.ptr, *end = hf__slice_end(text);
    while (at < end) {
        at += ascii_run(at, end);
        size_t len = hf__utf8_sequence(at, end);
        if (len == 0 && at < end) return false;
        at += len;
    }
    return true;
}

bool hf__parse_int64(struct hf_slice text, int64_t *ret)
{
    bool negative = text.len > 0 && text.ptr[0] == '-';
    size_t i = negative;
    if (i == text.len) return false;
    int64_t value = 0;
    for (; i < text.len; i++) {
        int digit = text.ptr[i] - '0';
        if (digit < 0 || digit > 9) return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, digit, &value)) return false; /* counts down: fits MIN */
    }
    if (!negative && value == INT64_MIN) return false;
    *ret = negative ? value : -value;
    return true;
}

int64_t hf__days_from_date(int64_t year, int month, int day)
{
    year -= month <= 2; /* the year begins in March, so that the leap day is its last */
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

void hf__date_from_days(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month = (int)((5 * day_of_year + 2) / 153);
    *ret_day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    *ret_month = month < 10 ? month + 3 : month - 9;
    *ret_year = year_of_era + era * 400 + (*ret_month <= 2);
}

/* Reads exactly `digits` decimal digits and moves on; -1 if they are not there. */
static int take_digits(struct hf_slice *text, size_t digits)
{
    if (text->len < digits) return -1;
    int value = 0;
    for (size_t i = 0; i < digits; i++) {
        if (text->ptr[i] < '0' || text->ptr[i] > '9') return -1;
        value = value * 10 + (text->ptr[i] - '0');
    }
    text->ptr += digits;
    text->len -= digits;
    return value;
}

static bool take_char(struct hf_slice *text, char c)
{
    if (text->len == 0 || text->ptr[0] != c) return false;
    text->ptr++;
    text->len--;
    return true;
}

/* hh:mm:ss as seconds of the day; a leap second is taken as the second before it. */
static int take_time(struct hf_slice *text)
{
    int hour = take_digits(text, 2);
    if (hour < 0 || hour > 23 || !take_char(text, ':')) return -1;
    int minute = take_digits(text, 2);
    if (minute < 0 || minute > 59 || !take_char(text, ':')) return -1;
    int second = take_digits(text, 2);
    if (second < 0 || second > 60) return -1;
    return hour * 3600 + minute * 60 + (second == 60 ? 59 : second);
}

static bool date_exists(int year, int month, int day)
{
    static const char length[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 0 || month < 1 || month > 12 || day < 1) return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= length[month - 1] + (month == 2 && leap);
}

bool hf__parse_rfc3339(struct hf_slice text, int64_t *ret_unix_ms)
{
    int year = take_digits(&text, 4);
    if (year < 0 || !take_char(&text, '-')) return false;
    int month = take_digits(&text, 2);
    if (month < 0 || !take_char(&text, '-')) return false;
    int day = take_digits(&text, 2);
    if (!date_exists(year, month, day)) return false;
    if (!take_char(&text, 'T') && !take_char(&text, 't')) return false;
    int seconds = take_time(&text);
    if (seconds < 0) return false;
    int64_t ms = 0;
    if (take_char(&text, '.')) {
        int weight = 100, digit, count = 0;
        for (; (digit = take_digits(&text, 1)) >= 0; weight /= 10, count++) ms += digit * weight;
        if (count == 0) return false;
    }
    int64_t offset_s = 0;
    if (!take_char(&text, 'Z') && !take_char(&text, 'z')) {
        bool west = take_char(&text, '-');
        if (!west && !take_char(&text, '+')) return false;
        int hour = take_digits(&text, 2);
        if (hour < 0 || hour > 23 || !take_char(&text, ':')) return false;
        int minute = take_digits(&text, 2);
        if (minute < 0 || minute > 59) return false;
        offset_s = (west ? -1 : 1) * (hour * 3600 + minute * 60);
    }
    if (text.len != 0) return false;
    int64_t days = hf__days_from_date(year, month, day);
    *ret_unix_ms = (days * 86400 + seconds - offset_s) * 1000 + ms;
    return true;
}

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

void hf__print_http_date(int64_t unix_s, char ret[HF_HTTP_DATE_SIZE])
{
    static const char days[] = "ThuFriSatSunMonTueWed"; /* from 1970-01-01 on */
    int64_t year, day_number = unix_s / 86400;
    int month, day, seconds = (int)(unix_s % 86400);
    hf__date_from_days(day_number, &year, &month, &day);
    snprintf(ret, HF_HTTP_DATE_SIZE, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
             days + day_number % 7 * 3, (unsigned)day % 100, months + (month - 1) * 3,
             (unsigned)year % 10000, (unsigned)seconds / 3600 % 100, (unsigned)seconds / 60 % 60,
             (unsigned)seconds % 60);
}

bool hf__parse_http_date(struct hf_slice text, int64_t *ret_unix_s)
{
    if (text.len != 29 || memcmp(text.ptr + 3, ", ", 2) != 0) return false;
    text = hf__slice(text.ptr + 5, text.len - 5);
    int day = take_digits(&text, 2);
    if (day < 0 || !take_char(&text, ' ')) return false;
    int month = 0;
    while (month < 12 && memcmp(text.ptr, months + month * 3, 3) != 0) month++;
    if (month == 12) return false;
    text = hf__slice(text.ptr + 3, text.len - 3);
    if (!take_char(&text, ' ')) return false;
    int year = take_digits(&text, 4);
    if (!date_exists(year, month + 1, day) || !take_char(&text, ' ')) return false;
    int seconds = take_time(&text);
    if (seconds < 0 || !hf__slice_is(text, " GMT")) return false;
    *ret_unix_s = hf__days_from_date(year, month + 1, day) * 86400 + seconds;
    return true;
}
