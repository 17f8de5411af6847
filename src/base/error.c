#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/*
 * Messages quote text from others and are cut to fit, but stay valid UTF-8 and
 * a single line. Bytes that are not valid UTF-8 become question marks.
 */
static void mend_utf8(char *text)
{
    char *end = text + strlen(text);
    while (text < end) {
        size_t len = hf__utf8_sequence(text, end);
        if (len == 0) *text = '?';
        else if ((unsigned char)*text < ' ') *text = ' ';
        text += len ? len : 1;
    }
}

int hf__error_set(struct hf_error *error, int code, const char *format, ...)
{
    if (!error) return code;
    error->code = code;
    va_list args;
    va_start(args, format);
    int len = vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    if (len < 0) error->message[0] = '\0';
    mend_utf8(error->message);
    return code;
}

void hf__error_prefix(struct hf_error *error, const char *format, ...)
{
    if (!error) return;
    struct hf_error old = *error;
    char prefix[256];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    hf__error_set(error, old.code, "%s: %s", prefix, old.message);
}

int hf__error_no_memory(struct hf_error *error)
{
    return hf__error_set(error, HF_ERR_NO_MEMORY, "out of memory");
}

static const struct {
    int code;
    const char *name;
    const char *meaning;
} errors[] = {{0, "ok", "success"},
#define ROW(code, number, name, meaning) {number, name, meaning},
              HF_ERRORS(ROW)
#undef ROW
};

static size_t find(int code)
{
    size_t i = sizeof errors / sizeof errors[0];
    while (i-- > 0)
        if (errors[i].code == code) return i;
    return (size_t)-1;
}

const char *hf_error_name(int code)
{
    size_t i = find(code);
    return i == (size_t)-1 ? "unknown" : errors[i].name;
}

const char *hf_error_meaning(int code)
{
    size_t i = find(code);
    return i == (size_t)-1 ? "no such error code" : errors[i].meaning;
}

static const struct {
    const char *name;
    const char *meaning;
} reasons[] = {
#define ROW(code, number, name, meaning) [number] = {name, meaning},
    HF_REASONS(ROW)
#undef ROW
};

const char *hf_reason_name(enum hf_reason reason)
{
    return (unsigned)reason < HF_REASON_COUNT ? reasons[reason].name : "unknown";
}

const char *hf_reason_meaning(enum hf_reason reason)
{
    return (unsigned)reason < HF_REASON_COUNT ? reasons[reason].meaning : "an unknown reason";
}
