#include "service/http/access_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

enum { LINE_MOST = 1024, ID_MOST = 128, SECRET_LEAST = 8 };

struct hf_access_keys {
    int references; /* atomic */
    struct hf_arena arena;
    size_t count;
    struct {
        struct hf_slice id, secret;
    } at[HF_ACCESS_KEYS_MOST];
};

static int add(struct hf_access_keys *keys, const char *id, const char *secret,
               struct hf_error *reterr)
{
    struct hf_slice known;
    if (hf__access_keys_find(keys, hf__slice_str(id), &known))
        return hf__error_set(reterr, HF_ERR_INVALID, "the access key %s occurs twice", id);
    if (keys->count == HF_ACCESS_KEYS_MOST)
        return hf__error_set(reterr, HF_ERR_LIMIT, "more than %d access keys", HF_ACCESS_KEYS_MOST);
    keys->at[keys->count].id = hf__arena_copy(&keys->arena, hf__slice_str(id));
    keys->at[keys->count].secret = hf__arena_copy(&keys->arena, hf__slice_str(secret));
    keys->count++;
    return keys->arena.failed ? hf__error_no_memory(reterr) : 0;
}

/* A signature names an id between slashes and commas. */
static bool is_id(const char *text)
{
    return strlen(text) <= ID_MOST && !strpbrk(text, "/,=");
}

static int take_line(struct hf_access_keys *keys, char *line, struct hf_error *reterr)
{
    char *rest = line, *word[3];
    for (int i = 0; i < 3; i++) word[i] = strtok_r(i ? NULL : line, " \t\r\n", &rest);
    if (!word[0] || word[0][0] == '#') return 0;
    if (!word[1] || word[2])
        return hf__error_set(reterr, HF_ERR_INVALID, "expected ACCESS_KEY_ID SECRET_ACCESS_KEY");
    if (!is_id(word[0]))
        return hf__error_set(
            reterr, HF_ERR_INVALID,
            "an access key id must have at most %d characters, and no / , or =", ID_MOST);
    if (strlen(word[1]) < SECRET_LEAST)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "a secret access key must have at least %d characters", SECRET_LEAST);
    return add(keys, word[0], word[1], reterr);
}

static int read_file(struct hf_access_keys *keys, const char *path, struct hf_error *reterr)
{
    FILE *file = fopen(path, "re");
    char line[LINE_MOST];
    int code = 0;
    if (!file)
        return hf__error_set(reterr, HF_ERR_INVALID, "cannot read %s: %s", path, strerror(errno));
    for (int number = 1; code == 0 && fgets(line, sizeof line, file); number++) {
        if (!strchr(line, '\n') && !feof(file))
            code = hf__error_set(reterr, HF_ERR_LIMIT, "the line is too long");
        else code = take_line(keys, line, reterr);
        if (code != 0) hf__error_prefix(reterr, "%s:%d", path, number);
    }
    if (code == 0 && ferror(file))
        code = hf__error_set(reterr, HF_ERR_INVALID, "cannot read %s", path);
    fclose(file);
    explicit_bzero(line, sizeof line);
    if (code == 0 && keys->count == 0)
        code = hf__error_set(reterr, HF_ERR_INVALID, "%s has no access keys", path);
    return code;
}

int hf__access_keys_load(const char *path, const char *id, const char *secret,
                         struct hf_access_keys **ret, struct hf_error *reterr)
{
    *ret = NULL;
    if (!path && !id) return 0;
    struct hf_access_keys *keys = hf__calloc(1, sizeof *keys);
    if (!keys) return hf__error_no_memory(reterr);
    keys->references = 1;
    int code = path ? read_file(keys, path, reterr) : 0;
    if (code == 0 && id) code = add(keys, id, secret, reterr);
    if (code == 0) *ret = keys;
    else hf__access_keys_unref(keys);
    return code;
}

struct hf_access_keys *hf__access_keys_ref(struct hf_access_keys *keys)
{
    if (keys) __atomic_fetch_add(&keys->references, 1, __ATOMIC_RELAXED);
    return keys;
}

void hf__access_keys_unref(struct hf_access_keys *keys)
{
    if (!keys || __atomic_fetch_sub(&keys->references, 1, __ATOMIC_ACQ_REL) > 1) return;
    hf__arena_free(&keys->arena);
    hf__free(keys);
}

/* Ids are no secrets. */
bool hf__access_keys_find(const struct hf_access_keys *keys, struct hf_slice id,
                          struct hf_slice *ret_secret)
{
    for (size_t i = 0; keys && i < keys->count; i++) {
        if (!hf__slice_eq(keys->at[i].id, id)) continue;
        *ret_secret = keys->at[i].secret;
        return true;
    }
    return false;
}
