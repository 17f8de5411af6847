#include "item/number.h"

#include <string.h>

/* Powers of ten that a digit of any operand, or a carry, can have. */
enum {
    LOWEST_POWER = HF_NUMBER_MIN_EXPONENT - HF_NUMBER_DIGITS + 1,
    HIGHEST_POWER = HF_NUMBER_MAX_EXPONENT + 1,
    POWERS = HIGHEST_POWER - LOWEST_POWER + 1,
};

static int check_range(const struct hf_number *n, int64_t exponent, size_t digits,
                       struct hf_error *reterr)
{
    if (n->count == 0 && digits == 0) return 0;
    if (digits > HF_NUMBER_DIGITS)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "DynamoDB only supports precision up to 38 digits");
    if (exponent > HF_NUMBER_MAX_EXPONENT)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Number overflow. Attempting to store a number with magnitude larger "
                             "than supported range");
    if (exponent < HF_NUMBER_MIN_EXPONENT)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "Number underflow. Attempting to store a number with magnitude smaller "
            "than supported range");
    return 0;
}

struct cursor {
    const char *at;
    const char *end;
};

static bool at_digit(const struct cursor *c)
{
    return c->at < c->end && *c->at >= '0' && *c->at <= '9';
}

static bool take_sign(struct cursor *c)
{
    bool negative = c->at < c->end && *c->at == '-';
    if (negative || (c->at < c->end && *c->at == '+')) c->at++;
    return negative;
}

/* The exponent after an e; anything absurd is clamped, so that it is out of range later. */
static bool take_exponent(struct cursor *c, int64_t *ret)
{
    if (c->at == c->end) return true;
    if (*c->at != 'e' && *c->at != 'E') return false;
    c->at++;
    bool negative = take_sign(c);
    if (!at_digit(c)) return false;
    int64_t value = 0;
    for (; at_digit(c); c->at++)
        if (value < 1000000) value = value * 10 + (*c->at - '0');
    *ret = negative ? -value : value;
    return c->at == c->end;
}

int hf__number_parse(struct hf_slice text, struct hf_number *ret, struct hf_error *reterr)
{
    struct cursor c = {text.ptr, hf__slice_end(text)};
    struct hf_number n = {.negative = take_sign(&c)};
    /* Digits are counted from the first that is not 0; trailing zeros wait until one follows. */
    int64_t before_point = 0, leading = 0, pending = 0, significant = 0;
    bool any = false, point = false;
    for (;; c.at++) {
        if (!point && c.at < c.end && *c.at == '.') {
            point = true;
            continue;
        }
        if (!at_digit(&c)) break;
        any = true;
        int digit = *c.at - '0';
        if (!point) before_point++;
        if (digit == 0) {
            if (significant == 0) leading++;
            else pending++;
            continue;
        }
        for (; pending > 0; pending--, significant++)
            if (significant < HF_NUMBER_DIGITS) n.digits[significant] = 0;
        if (significant < HF_NUMBER_DIGITS) n.digits[significant] = (uint8_t)digit;
        significant++;
    }
    int64_t exponent = 0;
    if (!any || !take_exponent(&c, &exponent))
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "A value provided cannot be converted into a number");
    if (significant == 0) {
        *ret = (struct hf_number){0};
        return 0;
    }
    exponent += before_point - leading - 1;
    int code = check_range(&n, exponent, (size_t)significant, reterr);
    if (code != 0) return code;
    n.count = (uint8_t)significant;
    n.exponent = (int16_t)exponent;
    *ret = n;
    return 0;
}

size_t hf__number_print(const struct hf_number *n, char ret[HF_NUMBER_TEXT_SIZE])
{
    char *out = ret;
    if (n->negative) *out++ = '-';
    if (n->count == 0 || n->exponent < 0) *out++ = '0';
    if (n->exponent < 0) {
        *out++ = '.';
        for (int i = -1; i > n->exponent; i--) *out++ = '0';
    }
    for (int i = 0; i < n->count; i++) {
        if (n->exponent >= 0 && i == n->exponent + 1) *out++ = '.';
        *out++ = (char)('0' + n->digits[i]);
    }
    for (int i = n->count; n->count > 0 && i <= n->exponent; i++) *out++ = '0';
    *out = '\0';
    return (size_t)(out - ret);
}

static int compare_magnitudes(const struct hf_number *a, const struct hf_number *b)
{
    if (a->count == 0 || b->count == 0) return (a->count > 0) - (b->count > 0);
    if (a->exponent != b->exponent) return a->exponent < b->exponent ? -1 : 1;
    return hf__slice_cmp(hf__slice((const char *)a->digits, a->count),
                         hf__slice((const char *)b->digits, b->count));
}

int hf__number_compare(const struct hf_number *a, const struct hf_number *b)
{
    if (a->negative != b->negative) return a->negative ? -1 : 1;
    int order = compare_magnitudes(a, b);
    return a->negative ? -order : order;
}

/* Adds sign × the magnitude, digit by digit, to an array of digits by power; no carries yet. */
static void pour(int8_t sums[POWERS], const struct hf_number *n, int8_t sign)
{
    for (int i = 0; i < n->count; i++)
        sums[n->exponent - i - LOWEST_POWER] += (int8_t)(sign * n->digits[i]);
}

int hf__number_add(const struct hf_number *a, const struct hf_number *b, struct hf_number *ret,
                   struct hf_error *reterr)
{
    /* The larger magnitude gives the sign; the other is added to it or taken from it. */
    const struct hf_number *large = compare_magnitudes(a, b) >= 0 ? a : b;
    const struct hf_number *small = large == a ? b : a;
    int8_t sums[POWERS] = {0};
    pour(sums, large, 1);
    pour(sums, small, large->negative == small->negative ? 1 : -1);
    int carry = 0, top = -1, bottom = -1;
    for (int i = 0; i < POWERS; i++) {
        int digit = sums[i] + carry;
        carry = digit > 9 ? 1 : digit < 0 ? -1 : 0;
        digit -= carry * 10;
        sums[i] = (int8_t)digit;
        if (digit != 0) {
            top = i;
            if (bottom < 0) bottom = i;
        }
    }
    if (top < 0) {
        *ret = (struct hf_number){0};
        return 0;
    }
    struct hf_number sum = {.negative = large->negative};
    size_t digits = (size_t)(top - bottom + 1);
    int code = check_range(&sum, top + LOWEST_POWER, digits, reterr);
    if (code != 0) return code;
    sum.count = (uint8_t)digits;
    sum.exponent = (int16_t)(top + LOWEST_POWER);
    for (size_t i = 0; i < digits; i++) sum.digits[i] = (uint8_t)sums[top - (int)i];
    *ret = sum;
    return 0;
}

int hf__number_subtract(const struct hf_number *a, const struct hf_number *b, struct hf_number *ret,
                        struct hf_error *reterr)
{
    struct hf_number negated = *b;
    if (negated.count > 0) negated.negative = !negated.negative;
    return hf__number_add(a, &negated, ret, reterr);
}

struct hf_number hf__number_from_int64(int64_t value)
{
    struct hf_number n = {.negative = value < 0};
    uint8_t reversed[20];
    int count = 0;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    for (; rest > 0; rest /= 10) reversed[count++] = (uint8_t)(rest % 10);
    n.exponent = (int16_t)(count > 0 ? count - 1 : 0);
    int zeros = 0;
    while (zeros < count && reversed[zeros] == 0) zeros++;
    n.count = (uint8_t)(count - zeros);
    for (int i = 0; i < n.count; i++) n.digits[i] = reversed[count - 1 - i];
    return n;
}

bool hf__number_to_int64(const struct hf_number *n, int64_t *ret)
{
    if (n->count > 0 && (n->exponent < n->count - 1 || n->exponent > 18)) return false;
    int64_t value = 0; /* counts down, so that the smallest value fits */
    for (int i = 0; n->count > 0 && i <= n->exponent; i++) {
        int digit = i < n->count ? n->digits[i] : 0;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, digit, &value)) return false;
    }
    if (!n->negative && value == INT64_MIN) return false;
    *ret = n->negative ? value : -value;
    return true;
}

/*
 * Sign byte (0 negative, 1 zero, 2 positive), exponent biased to be positive,
 * digits plus one, a closing 0. Everything after the sign of a negative number
 * is complemented.
 */
size_t hf__number_sortable(const struct hf_number *n, unsigned char ret[HF_NUMBER_SORTABLE_SIZE])
{
    size_t len = 0;
    ret[len++] = n->count == 0 ? 1 : n->negative ? 0 : 2;
    if (n->count == 0) return len;
    ret[len++] = (unsigned char)(n->exponent - HF_NUMBER_MIN_EXPONENT);
    for (int i = 0; i < n->count; i++) ret[len++] = (unsigned char)(n->digits[i] + 1);
    ret[len++] = 0;
    if (n->negative)
        for (size_t i = 1; i < len; i++) ret[i] = (unsigned char)~ret[i];
    return len;
}

size_t hf__number_size(const struct hf_number *n)
{
    return (n->count + 1u) / 2 + 1 + n->negative;
}
