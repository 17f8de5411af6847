#include "format/keyed.h"

#include "base/text.h"

/* ---- keys and operations ---- */

static struct hf_value key_value(const struct hf_layout *layout, struct hf_arena *arena,
                                 struct hf_slice name)
{
    /* A copy: the caller may be gone before the answer arrives. */
    struct hf_slice text =
        layout->prefix.len
            ? hf__arena_printf(arena, "%.*s%.*s", HF_FMT(layout->prefix), HF_FMT(name))
            : hf__arena_copy(arena, name);
    if (layout->key_type == HF_B) return hf__b(text);
    struct hf_number number;
    if (layout->key_type == HF_N && hf__number_parse(text, &number, NULL) == 0)
        return hf__number(arena, &number);
    return hf__s(text);
}

struct hf_item hf__keyed_key(const struct hf_layout *layout, struct hf_arena *arena,
                             struct hf_slice name)
{
    struct hf_value value = key_value(layout, arena, name);
    struct hf_item key = hf__item_with(arena, (struct hf_item){0}, layout->key_name, &value);
    if (layout->sort_name.len == 0) return key;
    value = hf__s(layout->sort_value);
    return hf__item_with(arena, key, layout->sort_name, &value);
}

void hf__keyed_get(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                   struct hf_op *ret)
{
    *ret = (struct hf_op){
        .kind = HF_GET_ITEM,
        .table = layout->table,
        .key = hf__keyed_key(layout, arena, name),
        .consistent = true,
    };
}

void hf__keyed_put(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                   struct hf_item item, const struct hf_condition *condition, struct hf_op *ret)
{
    *ret = (struct hf_op){
        .kind = HF_PUT_ITEM,
        .table = layout->table,
        .item = hf__item_set_all(arena, item, hf__keyed_key(layout, arena, name)),
        .condition = condition,
        .old_on_failure = true,
    };
}

struct hf_update *hf__keyed_update(const struct hf_layout *layout, struct hf_arena *arena,
                                   struct hf_slice name, const struct hf_condition *condition,
                                   struct hf_op *ret)
{
    struct hf_update *update = hf__arena_zalloc(arena, 1, sizeof *update);
    *ret = (struct hf_op){
        .kind = HF_UPDATE_ITEM,
        .table = layout->table,
        .key = hf__keyed_key(layout, arena, name),
        .condition = condition,
        .update = update,
        .returns = HF_RETURN_ALL_NEW,
        .old_on_failure = true,
    };
    return update;
}

void hf__keyed_delete(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                      const struct hf_condition *condition, struct hf_op *ret)
{
    *ret = (struct hf_op){
        .kind = HF_DELETE_ITEM,
        .table = layout->table,
        .key = hf__keyed_key(layout, arena, name),
        .condition = condition,
        .old_on_failure = true,
    };
}

static const struct hf_condition *on_key(const struct hf_layout *layout, struct hf_arena *arena,
                                         enum hf_condition_op op)
{
    struct hf_operand key = hf__operand_path(hf__path(arena, layout->key_name));
    return hf__cond(arena, op, &key, 1);
}

const struct hf_condition *hf__keyed_absent(const struct hf_layout *layout, struct hf_arena *arena)
{
    return on_key(layout, arena, HF_NOT_EXISTS);
}

const struct hf_condition *hf__keyed_exists(const struct hf_layout *layout, struct hf_arena *arena)
{
    return on_key(layout, arena, HF_EXISTS);
}

const struct hf_condition *hf__keyed_same(struct hf_arena *arena, const char *name,
                                          struct hf_item seen)
{
    const struct hf_value *value = hf__item_get_str(seen, name);
    return value ? hf__cond_compare(arena, name, HF_EQ, *value) : hf__cond_absent(arena, name);
}

/* ---- items ---- */

struct hf_item hf__item_set(struct hf_arena *arena, struct hf_item item, const char *name,
                            struct hf_value value)
{
    return hf__item_with(arena, item, hf__slice_str(name), &value);
}

struct hf_item hf__item_set_all(struct hf_arena *arena, struct hf_item item, struct hf_item extra)
{
    for (size_t i = 0; i < extra.count; i++)
        item = hf__item_with(arena, item, extra.attrs[i].name, &extra.attrs[i].value);
    return item;
}

bool hf__item_text(struct hf_item item, const char *name, struct hf_slice *ret)
{
    const struct hf_value *value = hf__item_get_str(item, name);
    if (!value || value->type != HF_S) return false;
    *ret = value->bytes;
    return true;
}

bool hf__item_bytes(struct hf_item item, const char *name, struct hf_slice *ret)
{
    const struct hf_value *value = hf__item_get_str(item, name);
    if (!value || value->type != HF_B) return false;
    *ret = value->bytes;
    return true;
}

bool hf__item_int(struct hf_item item, const char *name, int64_t least, int64_t *ret)
{
    int64_t number;
    const struct hf_value *value = hf__item_get_str(item, name);
    if (!value || value->type != HF_N || !hf__number_to_int64(value->number, &number)) return false;
    if (number < least) return false;
    *ret = number;
    return true;
}

/* ---- ids ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t hf__id_fold(const struct hf_id *id, uint64_t salt)
{
    uint64_t words[2];
    memcpy(words, id->bytes, sizeof words);
    return mix(words[0] ^ mix(words[1] ^ mix(salt + 0x9e3779b97f4a7c15u)));
}

/* ---- names ---- */

struct hf_slice hf__key_text(struct hf_arena *arena, const struct hf_value *key)
{
    if (key->type == HF_N) {
        char text[HF_NUMBER_TEXT_SIZE];
        return hf__arena_copy(arena, hf__slice(text, hf__number_print(key->number, text)));
    }
    bool is_text = hf__utf8_valid(key->bytes) &&
                   (key->bytes.len == 0 || !memchr(key->bytes.ptr, '\0', key->bytes.len));
    if (is_text) return key->bytes;
    size_t len = 2 + 2 * key->bytes.len;
    char *hex = hf__arena_alloc(arena, len + 1);
    if (!hex) return HF_LIT("");
    memcpy(hex, "0x", 2);
    hf__hex_encode(key->bytes.ptr, key->bytes.len, hex + 2);
    return hf__slice(hex, len);
}

bool hf__keyed_name_of(const struct hf_layout *layout, struct hf_arena *arena, struct hf_item item,
                       struct hf_slice *ret)
{
    const struct hf_value *key = hf__item_get(item, layout->key_name);
    if (!key || key->type != layout->key_type) return false;
    struct hf_slice text = hf__key_text(arena, key);
    if (text.len <= layout->prefix.len || !hf__slice_starts(text, layout->prefix)) return false;
    if (layout->sort_name.len > 0 && layout->sort_value.len > 0) {
        const struct hf_value *sort = hf__item_get(item, layout->sort_name);
        if (!sort || sort->type != HF_S || !hf__slice_eq(sort->bytes, layout->sort_value))
            return false;
    }
    *ret = hf__slice_skip(text, layout->prefix.len);
    return true;
}

const char *hf__keyed_refuses_name(struct hf_slice name)
{
    if (name.len == 0) return "a lock name must not be empty";
    if (name.len > HF_LOCK_NAME_MAX) return "a lock name has at most 1024 bytes";
    if (!hf__utf8_valid(name)) return "a lock name is UTF-8 text";
    return NULL;
}
