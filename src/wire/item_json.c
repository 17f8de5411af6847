#include "wire/item_json.h"

#include <stdlib.h>

#include "base/text.h"

static bool refuse(struct hf_json_reader *r, const struct hf_error *error)
{
    if (r->failed) return false;
    r->failed = true;
    r->error = *error;
    return false;
}

static bool refuse_text(struct hf_json_reader *r, const char *text)
{
    struct hf_error error;
    hf__error_set(&error, HF_ERR_VALIDATION, "%s", text);
    return refuse(r, &error);
}

static bool read_number(struct hf_json_reader *r, struct hf_value *ret)
{
    struct hf_slice text;
    struct hf_number number;
    struct hf_error error;
    if (!hf__json_string(r, &text)) return false;
    if (hf__number_parse(text, &number, &error) != 0) return refuse(r, &error);
    *ret = hf__number(r->arena, &number);
    return !r->arena->failed || hf__json_no_memory(r);
}

static bool read_binary(struct hf_json_reader *r, struct hf_value *ret)
{
    struct hf_slice text;
    if (!hf__json_string(r, &text)) return false;
    char *bytes = hf__arena_alloc(r->arena, text.len / 4 * 3 + 1);
    size_t len;
    if (!bytes) return hf__json_no_memory(r);
    if (!hf__base64_decode(text, bytes, &len)) return hf__json_fail(r, "not valid base64");
    *ret = hf__b(hf__slice(bytes, len));
    return true;
}

static bool read_string(struct hf_json_reader *r, struct hf_value *ret)
{
    *ret = (struct hf_value){.type = HF_S};
    return hf__json_string(r, &ret->bytes);
}

typedef bool (*read_fn)(struct hf_json_reader *r, struct hf_value *ret);

static int order_values(const void *a, const void *b)
{
    return hf__value_order(a, b);
}

/*
 * Reads an array with one reader per element into a list or set. Sets are
 * sorted, so that comparing and uniting large ones costs no square. An item can
 * have no more elements than bytes.
 */
static bool read_elements(struct hf_json_reader *r, enum hf_type type, read_fn read,
                          struct hf_value *ret)
{
    struct hf_value *values = NULL;
    size_t count = 0, capacity = 0;
    if (!hf__json_array(r)) return false;
    while (hf__json_element(r)) {
        values = hf__arena_grow(r->arena, values, count, &capacity, sizeof *values);
        if (!values) return hf__json_no_memory(r);
        if (count == HF_ITEM_MAX_SIZE)
            return refuse_text(r, "Item size has exceeded the maximum allowed size");
        if (!read(r, &values[count++])) return false;
    }
    if (r->failed) return false;
    if (hf__type_is_set(type) && count > 1) qsort(values, count, sizeof *values, order_values);
    *ret = hf__list(type, values, count);
    return true;
}

static bool read_typed(struct hf_json_reader *r, enum hf_type type, struct hf_value *ret)
{
    bool flag = false;
    switch (type) {
    case HF_S: return read_string(r, ret);
    case HF_N: return read_number(r, ret);
    case HF_B: return read_binary(r, ret);
    case HF_BOOL:
        if (!hf__json_bool(r, &flag)) return false;
        *ret = hf__bool(flag);
        return true;
    case HF_NULL:
        if (!hf__json_bool(r, &flag)) return false;
        if (!flag)
            return refuse_text(r, "One or more parameter values were invalid: Null attribute value "
                                  "types must have the value of true");
        *ret = hf__null();
        return true;
    case HF_SS: return read_elements(r, type, read_string, ret);
    case HF_NS: return read_elements(r, type, read_number, ret);
    case HF_BS: return read_elements(r, type, read_binary, ret);
    case HF_L: return read_elements(r, type, hf__json_read_value, ret);
    case HF_M: ret->type = HF_M; return hf__json_read_item(r, &ret->map);
    }
    return false;
}

bool hf__json_read_value(struct hf_json_reader *r, struct hf_value *ret)
{
    struct hf_slice key;
    struct hf_value value;
    enum hf_type type;
    if (!hf__json_object(r)) return false;
    if (!hf__json_key(r, &key))
        return refuse_text(r, "Supplied AttributeValue is empty, must contain exactly one of the "
                              "supported datatypes");
    if (!hf__type_from_name(key, &type))
        return hf__json_fail(r, "\"%.*s\" is not an attribute type", HF_FMT(key));
    if (!read_typed(r, type, &value)) return false;
    if (hf__json_key(r, &key))
        return refuse_text(r,
                           "Supplied AttributeValue has more than one datatypes set, must contain "
                           "exactly one of the supported datatypes");
    *ret = value;
    return !r->failed;
}

bool hf__json_read_item(struct hf_json_reader *r, struct hf_item *ret)
{
    struct hf_attr *attrs = NULL;
    size_t count = 0, capacity = 0;
    struct hf_slice name;
    if (!hf__json_object(r)) return false;
    while (hf__json_key(r, &name)) {
        attrs = hf__arena_grow(r->arena, attrs, count, &capacity, sizeof *attrs);
        if (!attrs) return hf__json_no_memory(r);
        attrs[count].name = name;
        if (!hf__json_read_value(r, &attrs[count].value)) return false;
        count++;
    }
    if (r->failed) return false;
    hf__attrs_sort(attrs, count);
    *ret = (struct hf_item){attrs, count};
    return true;
}

static void put_scalar_text(struct hf_json_writer *w, const struct hf_value *value)
{
    if (value->type == HF_S) {
        hf__json_put_string(w, value->bytes);
    } else if (value->type == HF_N) {
        char text[HF_NUMBER_TEXT_SIZE];
        size_t len = hf__number_print(value->number, text);
        hf__json_put_string(w, hf__slice(text, len));
    } else {
        hf__json_put_raw(w, HF_LIT("\""));
        char *to = hf__buf_reserve(w->buf, HF_BASE64_SIZE(value->bytes.len));
        if (!to) return;
        w->buf->len += hf__base64_encode(value->bytes.ptr, value->bytes.len, to);
        hf__buf_char(w->buf, '"');
    }
}

void hf__json_put_value(struct hf_json_writer *w, const struct hf_value *value)
{
    hf__json_open(w, '{');
    hf__json_put_name(w, hf__type_name(value->type));
    switch (value->type) {
    case HF_S:
    case HF_N:
    case HF_B: put_scalar_text(w, value); break;
    case HF_BOOL: hf__json_put_bool(w, value->boolean); break;
    case HF_NULL: hf__json_put_bool(w, true); break;
    case HF_SS:
    case HF_NS:
    case HF_BS:
        hf__json_open(w, '[');
        for (size_t i = 0; i < value->list.count; i++) put_scalar_text(w, &value->list.at[i]);
        hf__json_close(w, ']');
        break;
    case HF_L:
        hf__json_open(w, '[');
        for (size_t i = 0; i < value->list.count; i++) hf__json_put_value(w, &value->list.at[i]);
        hf__json_close(w, ']');
        break;
    case HF_M: hf__json_put_item(w, value->map); break;
    }
    hf__json_close(w, '}');
}

void hf__json_put_item(struct hf_json_writer *w, struct hf_item item)
{
    hf__json_open(w, '{');
    for (size_t i = 0; i < item.count; i++) {
        hf__json_put_key(w, item.attrs[i].name);
        hf__json_put_value(w, &item.attrs[i].value);
    }
    hf__json_close(w, '}');
}

int hf__item_from_json(struct hf_arena *arena, struct hf_slice document, struct hf_item *ret,
                       struct hf_error *reterr)
{
    struct hf_json_reader r;
    hf__json_reader_init(&r, document, HF_ITEM_JSON_MAX, arena);
    struct hf_item item;
    hf__json_read_item(&r, &item);
    int code = hf__json_finish(&r);
    if (code != 0) return hf__error_set(reterr, code, "%s", r.error.message);
    *ret = item;
    return 0;
}

void hf__item_to_json(struct hf_item item, struct hf_buf *ret)
{
    struct hf_json_writer w;
    hf__json_writer_init(&w, ret);
    hf__json_put_item(&w, item);
}
