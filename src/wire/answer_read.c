#include "base/json_reader.h"
#include "wire/answer.h"
#include "wire/item_json.h"
#include "wire/table_json.h"

struct reader {
    struct hf_json_reader json;
    struct hf_answer *answer;
};

static void read_item(struct reader *r)
{
    r->answer->has_item = hf__json_read_item(&r->json, &r->answer->item);
}

static void read_items(struct reader *r)
{
    struct hf_item *items = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(&r->json);
    while (hf__json_element(&r->json)) {
        items = hf__arena_grow(r->json.arena, items, count, &capacity, sizeof *items);
        if (!items) {
            hf__json_no_memory(&r->json);
            return;
        }
        hf__json_read_item(&r->json, &items[count++]);
    }
    r->answer->items = items;
    r->answer->count = count;
}

static void read_scanned(struct reader *r)
{
    hf__json_int64(&r->json, &r->answer->scanned);
}

static void read_last_key(struct reader *r)
{
    hf__json_read_item(&r->json, &r->answer->last_key);
}

static void read_tables(struct reader *r)
{
    struct hf_slice *names = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(&r->json);
    while (hf__json_element(&r->json)) {
        names = hf__arena_grow(r->json.arena, names, count, &capacity, sizeof *names);
        if (!names) {
            hf__json_no_memory(&r->json);
            return;
        }
        hf__json_string(&r->json, &names[count++]);
    }
    r->answer->tables = names;
    r->answer->table_count = count;
}

static void read_last_table(struct reader *r)
{
    hf__json_string(&r->json, &r->answer->last_table);
}

static void read_table(struct reader *r)
{
    hf__json_read_table(&r->json, &r->answer->table);
}

static void read_ttl(struct reader *r)
{
    struct hf_slice key;
    bool enabled;
    hf__json_object(&r->json);
    while (hf__json_key(&r->json, &key)) {
        if (hf__slice_is(key, "Enabled")) {
            if (hf__json_bool(&r->json, &enabled))
                r->answer->ttl_status = enabled ? HF_LIT("ENABLED") : HF_LIT("DISABLED");
        } else if (hf__slice_is(key, "TimeToLiveStatus")) {
            hf__json_string(&r->json, &r->answer->ttl_status);
        } else if (hf__slice_is(key, "AttributeName")) {
            hf__json_string(&r->json, &r->answer->ttl_attribute);
        } else {
            hf__json_skip(&r->json);
        }
    }
}

static struct hf_answer *grow_parts(struct reader *r, size_t *capacity)
{
    struct hf_answer *answer = r->answer;
    answer->parts = hf__arena_grow(r->json.arena, answer->parts, answer->part_count, capacity,
                                   sizeof *answer->parts);
    if (!answer->parts) {
        answer->part_count = 0;
        hf__json_no_memory(&r->json);
        return NULL;
    }
    answer->parts[answer->part_count] = (struct hf_answer){0};
    return &answer->parts[answer->part_count++];
}

/* Of TransactGetItems. */
static void read_responses(struct reader *r)
{
    size_t capacity = 0;
    struct hf_slice key;
    hf__json_array(&r->json);
    while (hf__json_element(&r->json)) {
        struct hf_answer *part = grow_parts(r, &capacity);
        if (!part) return;
        hf__json_object(&r->json);
        while (hf__json_key(&r->json, &key)) {
            if (hf__slice_is(key, "Item"))
                part->has_item = hf__json_read_item(&r->json, &part->item);
            else hf__json_skip(&r->json);
        }
    }
}

static void read_reason(struct reader *r, struct hf_answer *part)
{
    struct hf_slice key, code = {0}, message = {0};
    hf__json_object(&r->json);
    while (hf__json_key(&r->json, &key)) {
        if (hf__json_peek(&r->json) == HF_JSON_NULL) hf__json_null(&r->json);
        else if (hf__slice_is(key, "Code")) hf__json_string(&r->json, &code);
        else if (hf__slice_is(key, "Message")) hf__json_string(&r->json, &message);
        else if (hf__slice_is(key, "Item"))
            part->has_item = hf__json_read_item(&r->json, &part->item);
        else hf__json_skip(&r->json);
    }
    part->code = hf__cancellation_code(code);
    hf__error_set(&part->error, part->code, "%.*s", (int)(message.len < 300 ? message.len : 300),
                  message.ptr ? message.ptr : "");
}

static void read_reasons(struct reader *r)
{
    size_t capacity = 0;
    hf__json_array(&r->json);
    while (hf__json_element(&r->json)) {
        struct hf_answer *part = grow_parts(r, &capacity);
        if (!part) return;
        read_reason(r, part);
    }
}

static void read_tags(struct reader *r)
{
    hf__json_read_tags(&r->json, &r->answer->tags);
}

static const struct {
    const char *name;
    void (*read)(struct reader *r);
} members[] = {
    {"Responses", read_responses},
    {"Tags", read_tags},
    {"Item", read_item},
    {"Attributes", read_item},
    {"Items", read_items},
    {"ScannedCount", read_scanned},
    {"LastEvaluatedKey", read_last_key},
    {"Table", read_table},
    {"TableDescription", read_table},
    {"TableNames", read_tables},
    {"LastEvaluatedTableName", read_last_table},
    {"TimeToLiveSpecification", read_ttl},
    {"TimeToLiveDescription", read_ttl},
};

static void read_member(struct reader *r, struct hf_slice key)
{
    if (hf__json_peek(&r->json) == HF_JSON_NULL) {
        hf__json_null(&r->json);
        return;
    }
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (!hf__slice_is(key, members[i].name)) continue;
        members[i].read(r);
        return;
    }
    hf__json_skip(&r->json);
}

int hf__answer_read(struct hf_arena *arena, enum hf_op_kind kind, struct hf_slice body,
                    struct hf_answer *ret, struct hf_error *reterr)
{
    struct reader r = {.answer = ret};
    struct hf_slice key;
    hf__json_reader_init(&r.json, body, HF_ANSWER_MAX_SIZE, arena);
    hf__json_object(&r.json);
    while (hf__json_key(&r.json, &key)) read_member(&r, key);
    bool has_table = kind == HF_CREATE_TABLE || kind == HF_DESCRIBE_TABLE ||
                     kind == HF_DELETE_TABLE || kind == HF_UPDATE_TABLE;
    if (!r.json.failed && has_table && ret->table.schema.hash_name.len == 0)
        hf__json_fail(&r.json, "the table's key is missing");
    if (hf__json_finish(&r.json) == 0) return 0;
    if (arena->failed) return hf__error_no_memory(reterr);
    return hf__error_set(reterr, HF_ERR_BAD_ANSWER, "the answer to %s cannot be read: %s",
                         hf__op_names[kind], r.json.error.message);
}

/* "prefix#Name:junk" → "Name" */
static struct hf_slice exception_name(struct hf_slice type)
{
    const char *colon = type.len ? memchr(type.ptr, ':', type.len) : NULL;
    if (colon) type.len = (size_t)(colon - type.ptr);
    const char *hash = type.len ? memchr(type.ptr, '#', type.len) : NULL;
    if (hash) type = hf__slice(hash + 1, type.len - (size_t)(hash + 1 - type.ptr));
    return type;
}

void hf__answer_read_error(struct hf_arena *arena, int status, struct hf_slice body,
                           struct hf_answer *ret, const struct hf_exception **ret_exception)
{
    struct reader r = {.answer = ret};
    struct hf_slice key, type = {0}, message = {0};
    hf__json_reader_init(&r.json, body, HF_ANSWER_MAX_SIZE, arena);
    hf__json_object(&r.json);
    while (hf__json_key(&r.json, &key)) {
        if (hf__slice_is(key, "__type")) hf__json_string(&r.json, &type);
        else if (hf__slice_is(key, "message") || hf__slice_is(key, "Message")) {
            if (hf__json_peek(&r.json) == HF_JSON_STRING) hf__json_string(&r.json, &message);
            else hf__json_skip(&r.json);
        } else if (hf__slice_is(key, "Item")) read_item(&r);
        else if (hf__slice_is(key, "CancellationReasons")) read_reasons(&r);
        else hf__json_skip(&r.json);
    }
    if (hf__json_finish(&r.json) != 0) { /* no JSON: the body is the text */
        type = hf__slice(NULL, 0);
        message = body;
        ret->has_item = false;
        ret->part_count = 0;
    }
    type = exception_name(type);
    const struct hf_exception *exception = hf__exception_find(type);
    int code = exception ? exception->code : status >= 500 ? HF_ERR_STORE : HF_ERR_BAD_ANSWER;
    if (message.len > 300) message.len = 300;
    if (exception) ret->code = hf__error_set(&ret->error, code, "%.*s", HF_FMT(message));
    else
        ret->code = hf__error_set(&ret->error, code, "HTTP status %d%s%.*s%s%.*s", status,
                                  type.len ? ", " : "", HF_FMT(type), message.len ? ": " : "",
                                  HF_FMT(message));
    *ret_exception = exception;
}
