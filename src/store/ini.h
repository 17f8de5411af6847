/* AWS's configuration files: [section], key = value, # and ; comments, nested lines ignored. */
#ifndef HF_STORE_INI_H
#define HF_STORE_INI_H

#include "base/arena.h"
#include "base/error.h"

enum { HF_INI_MAX_SIZE = 1024 * 1024 };

struct hf_ini_entry {
    const char *section;
    const char *key; /* NULL: the section itself */
    const char *value;
};

struct hf_ini {
    struct hf_ini_entry *entries;
    size_t count;
    size_t capacity;
};

/* `name` is the file's, for messages. Everything lives in the arena. */
int hf__ini_parse(struct hf_arena *arena, struct hf_slice text, const char *name,
                  struct hf_ini *ret, struct hf_error *reterr);

/* The last value given, or NULL. */
const char *hf__ini_get(const struct hf_ini *ini, const char *section, const char *key);

bool hf__ini_has_section(const struct hf_ini *ini, const char *section);

#endif
