#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

/* Cuts a message that vsnprintf truncated in the middle of a UTF-8 sequence at its start. */
static void trim_utf8(char *text, size_t len)
{
    size_t start = len;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80) start--;
    if (start > 0 && (unsigned char)text[start - 1] >= 0xc0) text[start - 1] = '\0';
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
    if (len >= (int)sizeof error->message) trim_utf8(error->message, sizeof error->message - 1);
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
