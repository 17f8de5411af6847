#include "item/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hf_path hf__path(struct hf_arena *arena, struct hf_slice name)
{
    struct hf_path_part *part = hf__arena_zalloc(arena, 1, sizeof *part);
    if (!part) return (struct hf_path){0};
    part->name = name;
    return (struct hf_path){part, 1};
}

struct hf_path hf__path_below(struct hf_arena *arena, struct hf_path path, struct hf_slice name)
{
    struct hf_path_part *parts = hf__arena_zalloc(arena, path.count + 1, sizeof *parts);
    if (!parts || path.count == 0) return (struct hf_path){0};
    memcpy(parts, path.parts, path.count * sizeof *parts);
    parts[path.count].name = name;
    return (struct hf_path){parts, path.count + 1};
}

struct hf_path hf__path_in(struct hf_arena *arena, const char *map, struct hf_slice name)
{
    return hf__path_below(arena, hf__path(arena, hf__slice_str(map)), name);
}

const struct hf_value *hf__path_get(struct hf_item item, struct hf_path path)
{
    if (path.count == 0) return NULL;
    const struct hf_value *value = hf__item_get(item, path.parts[0].name);
    for (size_t i = 1; i < path.count && value; i++) {
        const struct hf_path_part *part = &path.parts[i];
        if (part->is_index) {
            bool there = value->type == HF_L && part->index < value->list.count;
            value = there ? &value->list.at[part->index] : NULL;
        } else {
            value = value->type == HF_M ? hf__item_get(value->map, part->name) : NULL;
        }
    }
    return value;
}

static int order_parts(const struct hf_path_part *a, const struct hf_path_part *b)
{
    if (a->is_index != b->is_index) return a->is_index ? 1 : -1;
    if (a->is_index) return (a->index > b->index) - (a->index < b->index);
    return hf__slice_cmp(a->name, b->name);
}

int hf__path_order(struct hf_path a, struct hf_path b)
{
    for (size_t i = 0; i < a.count && i < b.count; i++) {
        int order = order_parts(&a.parts[i], &b.parts[i]);
        if (order != 0) return order;
    }
    return (a.count > b.count) - (a.count < b.count);
}

bool hf__path_equal(struct hf_path a, struct hf_path b)
{
    return hf__path_order(a, b) == 0;
}

const char *hf__path_show(struct hf_path path, char ret[HF_PATH_TEXT_SIZE])
{
    size_t len = 0;
    for (size_t i = 0; i < path.count && len < HF_PATH_TEXT_SIZE; i++) {
        const struct hf_path_part *part = &path.parts[i];
        const char *before = i == 0 ? "[" : ", ";
        int added = part->is_index ? snprintf(ret + len, HF_PATH_TEXT_SIZE - len, "%s[%u]", before,
                                              part->index)
                                   : snprintf(ret + len, HF_PATH_TEXT_SIZE - len, "%s%.*s", before,
                                              HF_FMT(part->name));
        len += added > 0 ? (size_t)added : 0;
    }
    if (len > HF_PATH_TEXT_SIZE - 2) len = HF_PATH_TEXT_SIZE - 2;
    ret[len] = ']';
    ret[len + 1] = '\0';
    return ret;
}

int hf__paths_check(struct hf_path a, struct hf_path b, const char *where, struct hf_error *reterr)
{
    size_t common = 0;
    /* Most are told apart by a glance. */
    const struct hf_path_part *first = &a.parts[0], *second = &b.parts[0];
    if (!first->is_index && !second->is_index && first->name.len != second->name.len) return 0;
    while (common < a.count && common < b.count &&
           order_parts(&a.parts[common], &b.parts[common]) == 0)
        common++;
    bool overlap = common == a.count || common == b.count;
    bool conflict = !overlap && a.parts[common].is_index != b.parts[common].is_index;
    if (!overlap && !conflict) return 0;
    char one[HF_PATH_TEXT_SIZE], two[HF_PATH_TEXT_SIZE];
    return hf__error_set(
        reterr, HF_ERR_VALIDATION,
        "Invalid %s: Two document paths %s with each other; must remove or rewrite "
        "one of these paths; path one: %s, path two: %s",
        where, overlap ? "overlap" : "conflict", hf__path_show(a, one), hf__path_show(b, two));
}

static int order_paths(const void *a, const void *b)
{
    return hf__path_order(*(const struct hf_path *)a, *(const struct hf_path *)b);
}

/* A path stands before all that begin with it, and names before indexes: neighbours tell. */
static int check_many(const void *user, hf_nth_path_fn nth, size_t count, const char *where,
                      struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_path *paths = hf__arena_zalloc(&arena, count, sizeof *paths);
    int code = paths ? 0 : hf__error_no_memory(reterr);
    for (size_t i = 0; i < count && paths; i++) paths[i] = nth(user, i);
    if (paths) qsort(paths, count, sizeof *paths, order_paths);
    for (size_t i = 1; i < count && code == 0; i++)
        code = hf__paths_check(paths[i - 1], paths[i], where, reterr);
    hf__arena_free(&arena);
    return code;
}

int hf__paths_check_all(const void *user, hf_nth_path_fn nth, size_t count, const char *where,
                        struct hf_error *reterr)
{
    enum { FEW = 64 };
    if (count > FEW) return check_many(user, nth, count, where, reterr);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            int code = hf__paths_check(nth(user, j), nth(user, i), where, reterr);
            if (code != 0) return code;
        }
    return 0;
}
