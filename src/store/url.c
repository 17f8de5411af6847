#include "store/url.h"

#include <string.h>

#include "base/text.h"

/* Undoes percent-encoding; NULL on a bad sequence, on NUL, or without memory. */
static char *decode(struct hf_arena *arena, struct hf_slice text)
{
    char *out = hf__arena_alloc(arena, text.len + 1), *at = out;
    if (!out) return NULL;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '%') {
            *at++ = text.ptr[i];
            continue;
        }
        bool whole = text.len - i > 2;
        int high = whole ? hf__hex_value(text.ptr[i + 1]) : -1;
        int low = whole ? hf__hex_value(text.ptr[i + 2]) : -1;
        if (high < 0 || low < 0 || (high == 0 && low == 0)) return NULL;
        *at++ = (char)(high << 4 | low);
        i += 2;
    }
    *at = '\0';
    return out;
}

static bool is_known(const char *const *known, const char *name)
{
    for (; *known; known++)
        if (strcmp(*known, name) == 0) return true;
    return false;
}

static int add_parameter(struct hf_arena *arena, struct hf_slice part, const char *const *known,
                         struct hf_url *url, struct hf_error *reterr)
{
    const char *equals = memchr(part.ptr, '=', part.len);
    size_t name_len = equals ? (size_t)(equals - part.ptr) : part.len;
    struct hf_slice value = hf__slice(NULL, 0);
    if (equals) value = hf__slice(equals + 1, part.len - name_len - 1);
    char *name = decode(arena, hf__slice(part.ptr, name_len));
    char *decoded = decode(arena, value);
    if (arena->failed) return hf__error_no_memory(reterr);
    if (!name || !decoded)
        return hf__error_set(reterr, HF_ERR_INVALID, "store URL: \"%.*s\" is not a parameter",
                             HF_FMT(part));
    if (!is_known(known, name))
        return hf__error_set(reterr, HF_ERR_INVALID, "store URL: unknown parameter \"%s\"", name);
    if (hf__url_get(url, name))
        return hf__error_set(reterr, HF_ERR_INVALID, "store URL: \"%s\" is given twice", name);
    if (url->count == HF_URL_MAX_PARAMETERS)
        return hf__error_set(reterr, HF_ERR_LIMIT, "store URL: too many parameters");
    url->parameters[url->count].name = name;
    url->parameters[url->count++].value = decoded;
    return 0;
}

int hf__url_parse(struct hf_arena *arena, const char *text, const char *prefix,
                  const char *const *known, struct hf_url *ret, struct hf_error *reterr)
{
    struct hf_url url = {0};
    if (strlen(text) > HF_URL_MAX_SIZE)
        return hf__error_set(reterr, HF_ERR_LIMIT, "store URL: longer than %d bytes",
                             HF_URL_MAX_SIZE);
    const char *at = text + strlen(prefix), *question = strchr(at, '?');
    struct hf_slice path = hf__slice(at, question ? (size_t)(question - at) : strlen(at));
    url.path = decode(arena, path);
    if (arena->failed) return hf__error_no_memory(reterr);
    if (!url.path)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "store URL: \"%.*s\" is not percent-encoded text", HF_FMT(path));
    for (at = question ? question + 1 : NULL; at && *at;) {
        const char *stop = strchr(at, '&');
        struct hf_slice part = hf__slice(at, stop ? (size_t)(stop - at) : strlen(at));
        int code = part.len ? add_parameter(arena, part, known, &url, reterr) : 0;
        if (code != 0) return code;
        at = stop ? stop + 1 : NULL;
    }
    *ret = url;
    return 0;
}

const char *hf__url_get(const struct hf_url *url, const char *name)
{
    for (size_t i = 0; i < url->count; i++)
        if (strcmp(url->parameters[i].name, name) == 0 && url->parameters[i].value[0])
            return url->parameters[i].value;
    return NULL;
}
