/*
 * DynamoDB's numbers: exact decimals of up to 38 significant digits, with
 * magnitudes from 1E-130 to 9.99…E+125.
 *
 * The value is d.ddd… × 10^exponent. Invariants: the first and the last digit
 * are not 0; zero has no digits, exponent 0, and no sign. So equal numbers have
 * equal representations.
 */
#ifndef HF_ITEM_NUMBER_H
#define HF_ITEM_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

enum {
    HF_NUMBER_DIGITS = 38,
    HF_NUMBER_MAX_EXPONENT = 125,
    HF_NUMBER_MIN_EXPONENT = -130,
    HF_NUMBER_TEXT_SIZE = 176,    /* the longest printed number, terminated */
    HF_NUMBER_SORTABLE_SIZE = 42, /* the longest sortable form */
};

struct hf_number {
    bool negative;
    uint8_t count;
    int16_t exponent;
    uint8_t digits[HF_NUMBER_DIGITS];
};

/* Optional sign, digits with an optional point, optional exponent. DynamoDB's error texts. */
int hf__number_parse(struct hf_slice text, struct hf_number *ret, struct hf_error *reterr);

/* Canonical: plain decimal notation without superfluous zeros. Returns the length. */
size_t hf__number_print(const struct hf_number *number, char ret[HF_NUMBER_TEXT_SIZE]);

int hf__number_compare(const struct hf_number *a, const struct hf_number *b);

/* More than 38 digits in the sum, or a sum out of range, is an error: nothing is rounded. */
int hf__number_add(const struct hf_number *a, const struct hf_number *b, struct hf_number *ret,
                   struct hf_error *reterr);
int hf__number_subtract(const struct hf_number *a, const struct hf_number *b, struct hf_number *ret,
                        struct hf_error *reterr);

struct hf_number hf__number_from_int64(int64_t value);

/* False if it is not whole or does not fit. */
bool hf__number_to_int64(const struct hf_number *number, int64_t *ret);

/* Bytes whose memcmp order is the numbers' order; no form is a prefix of another. */
size_t hf__number_sortable(const struct hf_number *number,
                           unsigned char ret[HF_NUMBER_SORTABLE_SIZE]);

/* The size of a number within an item. */
size_t hf__number_size(const struct hf_number *number);

#endif
