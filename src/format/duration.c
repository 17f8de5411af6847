#include "format/duration.h"

#include "base/text.h"
#include "format/format.h"

/* One unit of Go's durations, in nanoseconds. Longer names first. */
static const struct {
    const char *name;
    int64_t ns;
} units[] = {
    {"ns", 1},       {"us", 1000},      {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
    {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000},
};

static bool take_unit(struct hf_slice *text, int64_t *ret_ns)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        struct hf_slice name = hf__slice_str(units[i].name);
        if (!hf__slice_starts(*text, name)) continue;
        if (units[i].ns == 60000000000 && text->len > 1 && text->ptr[1] == 's') continue; /* ms */
        *text = hf__slice_skip(*text, name.len);
        *ret_ns = units[i].ns;
        return true;
    }
    return false;
}

static bool is_digit(struct hf_slice text)
{
    return text.len > 0 && text.ptr[0] >= '0' && text.ptr[0] <= '9';
}

/* "1.5h": a number with an optional fraction, and its unit. */
static bool take_part(struct hf_slice *text, int64_t *total_ns)
{
    enum { MOST_DIGITS = 12 };
    int64_t whole = 0, fraction = 0, scale = 1, unit_ns;
    int digits = 0, kept = 0;
    for (; is_digit(*text); *text = hf__slice_skip(*text, 1)) {
        if (++digits > MOST_DIGITS) return false;
        whole = whole * 10 + (text->ptr[0] - '0');
    }
    if (text->len > 0 && text->ptr[0] == '.') {
        *text = hf__slice_skip(*text, 1);
        for (; is_digit(*text); *text = hf__slice_skip(*text, 1)) {
            digits++;
            if (kept == 6) continue; /* finer than anybody's lease */
            kept++;
            fraction = fraction * 10 + (text->ptr[0] - '0');
            scale *= 10;
        }
    }
    if (digits == 0 || !take_unit(text, &unit_ns)) return false;
    int64_t most = HF_LEASE_MAX_MS * 1000000;
    if (whole > most / unit_ns) return false;
    *total_ns += whole * unit_ns + unit_ns / scale * fraction;
    return *total_ns <= most;
}

bool hf__duration_parse(struct hf_slice text, int64_t *ret_ms)
{
    int64_t ms;
    if (hf__parse_int64(text, &ms)) {
        if (ms <= 0 || ms > HF_LEASE_MAX_MS) return false;
        *ret_ms = ms;
        return true;
    }
    int64_t ns = 0;
    if (text.len == 0) return false;
    while (text.len > 0) {
        if (!take_part(&text, &ns)) return false;
    }
    ms = (ns + 999999) / 1000000;
    if (ms <= 0 || ms > HF_LEASE_MAX_MS) return false;
    *ret_ms = ms;
    return true;
}

struct hf_slice hf__duration_print_ms(struct hf_arena *arena, int64_t ms)
{
    return hf__arena_printf(arena, "%lld", (long long)ms);
}

struct hf_slice hf__duration_print_go(struct hf_arena *arena, int64_t ms)
{
    if (ms < 1000) return hf__arena_printf(arena, "%lldms", (long long)ms);
    char fraction[8] = "";
    int64_t rest = ms % 1000, seconds = ms / 1000;
    if (rest > 0) {
        int width = 3;
        while (rest % 10 == 0) {
            rest /= 10;
            width--;
        }
        fraction[0] = '.';
        for (int i = width; i > 0; i--) {
            fraction[i] = (char)('0' + rest % 10);
            rest /= 10;
        }
    }
    long long h = seconds / 3600, m = seconds / 60 % 60, s = seconds % 60;
    if (h > 0) return hf__arena_printf(arena, "%lldh%lldm%lld%ss", h, m, s, fraction);
    if (m > 0) return hf__arena_printf(arena, "%lldm%lld%ss", m, s, fraction);
    return hf__arena_printf(arena, "%lld%ss", s, fraction);
}
