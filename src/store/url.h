/* Store URLs: SCHEME:PATH?NAME=VALUE&… with percent-encoding. */
#ifndef HF_STORE_URL_H
#define HF_STORE_URL_H

#include "base/arena.h"
#include "base/error.h"

enum { HF_URL_MAX_PARAMETERS = 16, HF_URL_MAX_SIZE = 8192 };

struct hf_url {
    char *path; /* what stands between the prefix and the question mark, decoded */
    struct {
        char *name;
        char *value;
    } parameters[HF_URL_MAX_PARAMETERS];
    size_t count;
};

/*
 * Parses what follows a prefix ("file:"). Only parameters named in `known`
 * (NULL-terminated) are accepted, each once. All of it lives in the arena.
 */
int hf__url_parse(struct hf_arena *arena, const char *url, const char *prefix,
                  const char *const *known, struct hf_url *ret, struct hf_error *reterr);

/* The parameter's value; NULL if it is not given, or empty. */
const char *hf__url_get(const struct hf_url *url, const char *name);

#endif
