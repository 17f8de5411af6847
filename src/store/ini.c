#include "store/ini.h"

#include <string.h>

static struct hf_slice trim(struct hf_slice text)
{
    while (text.len && strchr(" \t\r", text.ptr[0]) && text.ptr[0])
        text = hf__slice(text.ptr + 1, text.len - 1);
    while (text.len && text.ptr[text.len - 1] && strchr(" \t\r", text.ptr[text.len - 1]))
        text.len--;
    return text;
}

/* "profile  x" and "profile x" are the same section. */
static char *section_name(struct hf_arena *arena, struct hf_slice text)
{
    char *name = hf__arena_str(arena, text), *to = name;
    if (!name) return NULL;
    for (const char *from = name; *from; from++) {
        bool blank = *from == ' ' || *from == '\t';
        if (blank && (from[1] == ' ' || from[1] == '\t')) continue;
        *to++ = blank ? ' ' : *from;
    }
    *to = '\0';
    return name;
}

static bool add(struct hf_arena *arena, struct hf_ini *ini, const char *section, const char *key,
                const char *value)
{
    void *entries = hf__arena_grow(arena, ini->entries, ini->count, &ini->capacity,
                                   sizeof(struct hf_ini_entry));
    if (!entries) return false;
    ini->entries = entries;
    ini->entries[ini->count++] = (struct hf_ini_entry){section, key, value};
    return true;
}

static int parse_line(struct hf_arena *arena, struct hf_slice line, const char **section,
                      struct hf_ini *ini, const char *where, int number, struct hf_error *reterr)
{
    bool nested = line.len > 0 && (line.ptr[0] == ' ' || line.ptr[0] == '\t');
    struct hf_slice text = trim(line);
    if (text.len == 0 || text.ptr[0] == '#' || text.ptr[0] == ';' || nested) return 0;
    if (text.ptr[0] == '[') {
        const char *close = memchr(text.ptr, ']', text.len);
        if (!close)
            return hf__error_set(reterr, HF_ERR_SYNTAX, "%s, line %d: a section needs a closing ]",
                                 where, number);
        struct hf_slice name = trim(hf__slice(text.ptr + 1, (size_t)(close - text.ptr) - 1));
        *section = section_name(arena, name);
        return *section && add(arena, ini, *section, NULL, NULL) ? 0 : hf__error_no_memory(reterr);
    }
    const char *equals = memchr(text.ptr, '=', text.len);
    if (!equals || !*section)
        return hf__error_set(reterr, HF_ERR_SYNTAX, "%s, line %d: expected %s", where, number,
                             equals ? "a [section] first" : "key = value");
    struct hf_slice key = trim(hf__slice(text.ptr, (size_t)(equals - text.ptr)));
    struct hf_slice value = trim(hf__slice(equals + 1, text.len - (size_t)(equals + 1 - text.ptr)));
    bool added = add(arena, ini, *section, hf__arena_str(arena, key), hf__arena_str(arena, value));
    return added && !arena->failed ? 0 : hf__error_no_memory(reterr);
}

int hf__ini_parse(struct hf_arena *arena, struct hf_slice text, const char *name,
                  struct hf_ini *ret, struct hf_error *reterr)
{
    struct hf_ini ini = {0};
    const char *section = NULL;
    const char *at = text.ptr, *end = hf__slice_end(text);
    if (text.len > HF_INI_MAX_SIZE)
        return hf__error_set(reterr, HF_ERR_LIMIT, "%s is larger than %d bytes", name,
                             HF_INI_MAX_SIZE);
    for (int number = 1; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        int code = parse_line(arena, hf__slice(at, (size_t)(stop - at)), &section, &ini, name,
                              number, reterr);
        if (code != 0) return code;
        at = stop + 1;
    }
    *ret = ini;
    return 0;
}

const char *hf__ini_get(const struct hf_ini *ini, const char *section, const char *key)
{
    for (size_t i = ini->count; i-- > 0;) {
        const struct hf_ini_entry *entry = &ini->entries[i];
        if (entry->key && strcmp(entry->section, section) == 0 && strcmp(entry->key, key) == 0)
            return *entry->value ? entry->value : NULL;
    }
    return NULL;
}

bool hf__ini_has_section(const struct hf_ini *ini, const char *section)
{
    for (size_t i = 0; i < ini->count; i++)
        if (strcmp(ini->entries[i].section, section) == 0) return true;
    return false;
}
