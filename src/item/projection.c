#include "item/projection.h"

/* The paths of a projection that agree with a way down to some depth: a linked selection. */
struct selection {
    const struct hf_path *path;
    struct selection *next;
};

static struct hf_item cut_map(struct hf_arena *arena, struct hf_item map, struct selection *paths,
                              size_t depth);

/* The selected paths whose part at this depth is the given one. */
static struct selection *select_below(struct hf_arena *arena, struct selection *paths, size_t depth,
                                      bool is_index, size_t index, struct hf_slice name)
{
    struct selection *below = NULL;
    for (struct selection *s = paths; s; s = s->next) {
        const struct hf_path_part *part = &s->path->parts[depth];
        bool same = part->is_index == is_index &&
                    (is_index ? part->index == index : hf__slice_eq(part->name, name));
        if (!same) continue;
        struct selection *copy = hf__arena_alloc(arena, sizeof *copy);
        if (!copy) return NULL;
        *copy = (struct selection){s->path, below};
        below = copy;
    }
    return below;
}

/* The rest of a value below which paths were selected; false if nothing is left. */
static bool cut_value(struct hf_arena *arena, const struct hf_value *value, struct selection *paths,
                      size_t depth, struct hf_value *ret)
{
    if (!paths) return false;
    if (paths->path->count == depth) { /* paths do not overlap: this is the only one */
        *ret = *value;
        return true;
    }
    if (value->type == HF_M) {
        struct hf_item map = cut_map(arena, value->map, paths, depth);
        *ret = hf__map(map);
        return map.count > 0;
    }
    if (value->type != HF_L) return false;
    struct hf_value *kept = hf__arena_zalloc(arena, value->list.count, sizeof *kept);
    if (!kept) return false;
    size_t count = 0;
    for (size_t i = 0; i < value->list.count; i++) {
        struct selection *below = select_below(arena, paths, depth, true, i, hf__slice(NULL, 0));
        if (cut_value(arena, &value->list.at[i], below, depth + 1, &kept[count])) count++;
    }
    *ret = hf__list(HF_L, kept, count);
    return count > 0;
}

static struct hf_item cut_map(struct hf_arena *arena, struct hf_item map, struct selection *paths,
                              size_t depth)
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, map.count, sizeof *attrs);
    if (!attrs) return (struct hf_item){0};
    size_t count = 0;
    for (size_t i = 0; i < map.count; i++) {
        struct selection *below = select_below(arena, paths, depth, false, 0, map.attrs[i].name);
        attrs[count].name = map.attrs[i].name;
        if (cut_value(arena, &map.attrs[i].value, below, depth + 1, &attrs[count].value)) count++;
    }
    return (struct hf_item){attrs, count};
}

struct hf_item hf__projection_apply(struct hf_arena *arena, const struct hf_projection *projection,
                                    struct hf_item item)
{
    struct selection *all = hf__arena_zalloc(arena, projection->count, sizeof *all);
    if (!all) return (struct hf_item){0};
    for (size_t i = 0; i < projection->count; i++)
        all[i] = (struct selection){&projection->paths[i],
                                    i + 1 < projection->count ? &all[i + 1] : NULL};
    return cut_map(arena, item, projection->count ? all : NULL, 0);
}

static struct hf_path nth_path(const void *projection, size_t n)
{
    return ((const struct hf_projection *)projection)->paths[n];
}

int hf__projection_check(const struct hf_projection *projection, struct hf_error *reterr)
{
    return hf__paths_check_all(projection, nth_path, projection->count, "ProjectionExpression",
                               reterr);
}

struct hf_item hf__touched_attributes(struct hf_arena *arena, const struct hf_update *update,
                                      struct hf_item item)
{
    struct hf_attr *attrs = hf__arena_zalloc(arena, update->count, sizeof *attrs);
    struct hf_item touched = {attrs, 0};
    for (size_t i = 0; attrs && i < update->count; i++) {
        struct hf_path path = update->actions[i].path;
        struct hf_slice name = path.parts[0].name;
        if (!hf__path_get(item, path) || hf__item_get(touched, name)) continue;
        attrs[touched.count++] = (struct hf_attr){name, *hf__item_get(item, name)};
    }
    return touched;
}

bool hf__projection_equal(const struct hf_projection *a, const struct hf_projection *b)
{
    if (!a || !b) return a == b;
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!hf__path_equal(a->paths[i], b->paths[i])) return false;
    return true;
}
