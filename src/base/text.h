/* Bytes as text and back: hex, base64, UTF-8, small decimal integers. */
#ifndef HF_BASE_TEXT_H
#define HF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* The value of a hex digit in either case, or -1. */
int hf__hex_value(char c);

/* Lower case. Writes 2 × len characters and a terminator. */
void hf__hex_encode(const void *data, size_t len, char *ret);

/* Everything but letters, digits and -._~ (and the slash, if it is kept) becomes %XX. */
void hf__percent_encode(struct hf_slice text, bool keep_slash, struct hf_buf *ret);

/* Room for base64 with padding and a terminator. */
#define HF_BASE64_SIZE(len) (((len) + 2) / 3 * 4 + 1)

/* RFC 4648 with padding and terminator; returns the length of the text. */
size_t hf__base64_encode(const void *data, size_t len, char *ret);

/*
 * Strict: full padding, no white space, unused bits zero. Writes at most
 * text.len / 4 × 3 bytes. False on anything else.
 */
bool hf__base64_decode(struct hf_slice text, void *ret, size_t *ret_len);

/*
 * The length of the valid UTF-8 sequence at the start of a slice, or 0: no
 * overlong forms, no surrogates, nothing above U+10FFFF.
 */
size_t hf__utf8_sequence(const char *at, const char *end);

/* The number of leading bytes that a JSON string contains as they are: ASCII, nothing to escape. */
size_t hf__plain_run(const char *at, const char *end);

bool hf__utf8_valid(struct hf_slice text);

/* Decimal digits with an optional minus, whole slice, in range; false otherwise. */
bool hf__parse_int64(struct hf_slice text, int64_t *ret);

/*
 * An instant as AWS writes it, 2026-11-15T10:20:30Z (fractions of a second and a
 * numeric offset are accepted), as unix milliseconds.
 */
bool hf__parse_rfc3339(struct hf_slice text, int64_t *ret_unix_ms);

/* An HTTP Date header, "Sun, 15 Nov 2026 10:20:30 GMT", as unix seconds. */
bool hf__parse_http_date(struct hf_slice text, int64_t *ret_unix_s);
enum { HF_HTTP_DATE_SIZE = 30 };
/* The year must have four digits. */
void hf__print_http_date(int64_t unix_s, char ret[HF_HTTP_DATE_SIZE]);

/* Days since 1970-01-01 of a proleptic Gregorian date. */
int64_t hf__days_from_date(int64_t year, int month, int day);

/* The date of a day since 1970-01-01. */
void hf__date_from_days(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day);

#endif
