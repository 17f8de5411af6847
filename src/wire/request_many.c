/* Requests of several parts: batches and transactions. */
#include <stdio.h>

#include "wire/item_json.h"
#include "wire/request_inside.h"
#include "wire/table_json.h"

/* The parts grow as they are read; more than any operation takes are counted, not kept. */
struct parts {
    struct hf_op *at;
    size_t count, capacity;
};

enum { KEPT_MOST = 101 };

static struct hf_op *new_part(struct hf_request *r, struct parts *parts)
{
    parts->at = hf__arena_grow(r->json->arena, parts->at, parts->count, &parts->capacity,
                               sizeof *parts->at);
    if (!parts->at) {
        hf__json_no_memory(r->json);
        return NULL;
    }
    struct hf_op *part = &parts->at[parts->count];
    if (parts->count < KEPT_MOST) parts->count++;
    *part = (struct hf_op){0};
    return part;
}

static void keep(struct hf_request *r, const struct parts *parts)
{
    r->op->parts = parts->at;
    r->op->part_count = parts->count;
}

/* Reads the object of a part. False with the reader failed. */
static bool read_part(struct hf_request *r, const char *place, struct hf_op *part,
                      struct hf_request *ret)
{
    struct hf_error error;
    int code = hf__request_read_object(r->json, place, part, ret, &error);
    if (code == 0 || r->json->failed) return code == 0;
    if (code == HF_ERR_NO_MEMORY) return hf__json_no_memory(r->json);
    return hf__json_refuse(r->json, "%s", error.message);
}

/* ---- BatchGetItem ---- */

void hf__request_read_keys(struct hf_request *r)
{
    struct hf_item *keys = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(r->json);
    while (hf__json_element(r->json)) {
        keys = hf__arena_grow(r->json->arena, keys, count, &capacity, sizeof *keys);
        if (!keys) {
            hf__json_no_memory(r->json);
            return;
        }
        hf__json_read_item(r->json, &keys[count]);
        if (count < KEPT_MOST) count++;
    }
    r->keys = keys;
    r->key_count = count;
}

static void read_gets(struct hf_request *r, struct hf_slice table, struct parts *parts)
{
    struct hf_op get = {.kind = HF_GET_ITEM};
    struct hf_request one;
    if (!read_part(r, "requestItems.", &get, &one)) return;
    r->any_attributes |= one.attributes.count > 0;
    r->any_projection |= one.projection.ptr != NULL;
    if (r->any_attributes && r->any_projection)
        hf__json_refuse(r->json, "Can not use both expression and non-expression parameters in the "
                                 "same request: Non-expression parameters: {AttributesToGet} "
                                 "Expression parameters: {ProjectionExpression}");
    get.table = table;
    if (one.key_count == 0)
        hf__json_note(r->json,
                      "Value at 'requestItems.%.*s.member.keys' failed to satisfy constraint: "
                      "Member must have length greater than or equal to 1",
                      HF_FMT(table));
    for (size_t i = 0; i < one.key_count && !r->json->failed; i++) {
        struct hf_op *part = new_part(r, parts);
        if (!part) return;
        *part = get;
        part->key = one.keys[i];
    }
}

/* ---- BatchWriteItem ---- */

static void read_write(struct hf_request *r, struct hf_slice table, struct parts *parts)
{
    struct hf_slice key;
    int count = 0;
    hf__json_object(r->json);
    while (hf__json_key(r->json, &key)) {
        bool put = hf__slice_is(key, "PutRequest"), erase = hf__slice_is(key, "DeleteRequest");
        if (hf__json_peek(r->json) == HF_JSON_NULL) {
            hf__json_null(r->json);
        } else if (!put && !erase) {
            hf__json_skip(r->json);
        } else {
            struct hf_request one;
            struct hf_op *part = new_part(r, parts);
            if (!part) return;
            part->kind = put ? HF_PUT_ITEM : HF_DELETE_ITEM;
            read_part(r, "requestItems.", part, &one);
            part->table = table;
            count++;
        }
    }
    if (!r->json->failed && count != 1)
        hf__json_refuse(r->json,
                        count ? "Supplied AttributeValue has more than one datatypes set, must "
                                "contain exactly one of the supported datatypes"
                              : "Supplied AttributeValue is empty, must contain exactly one of the "
                                "supported datatypes");
}

static void read_writes(struct hf_request *r, struct hf_slice table, struct parts *parts)
{
    size_t count = 0;
    hf__json_array(r->json);
    while (hf__json_element(r->json)) {
        read_write(r, table, parts);
        count++;
    }
    if (count == 0)
        hf__json_note(r->json,
                      "Value '[]' at 'requestItems.%.*s' failed to satisfy constraint: Member must "
                      "have length greater than or equal to 1",
                      HF_FMT(table));
}

void hf__request_read_batch(struct hf_request *r)
{
    struct parts parts = {0};
    struct hf_slice table;
    hf__json_object(r->json);
    while (hf__json_key(r->json, &table)) {
        table = hf__table_of_arn(table);
        if (r->op->kind == HF_BATCH_GET) read_gets(r, table, &parts);
        else read_writes(r, table, &parts);
    }
    keep(r, &parts);
}

/* ---- transactions ---- */

static const struct {
    const char *name, *member;
    enum hf_op_kind kind;
} actions[] = {
    {"Get", "get", HF_GET_ITEM},
    {"Put", "put", HF_PUT_ITEM},
    {"Update", "update", HF_UPDATE_ITEM},
    {"Delete", "delete", HF_DELETE_ITEM},
    {"ConditionCheck", "conditionCheck", HF_CONDITION_CHECK},
};

static bool takes(const struct hf_request *r, enum hf_op_kind kind)
{
    return (kind == HF_GET_ITEM) == (r->op->kind == HF_TRANSACT_GET);
}

static void note_missing(struct hf_request *r, const char *place, const char *member)
{
    hf__json_note(r->json,
                  "Value null at '%s%s' failed to satisfy constraint: Member must not be null",
                  place, member);
}

static void check_action(struct hf_request *r, const struct hf_request *one)
{
    const struct hf_op *part = one->op;
    if (!part->table.ptr) note_missing(r, one->place, "tableName");
    if (part->kind == HF_PUT_ITEM && !one->has_item) note_missing(r, one->place, "item");
    if (part->kind != HF_PUT_ITEM && !one->has_key) note_missing(r, one->place, "key");
    if (part->kind == HF_UPDATE_ITEM && !one->update.ptr)
        note_missing(r, one->place, "updateExpression");
    if (part->kind == HF_CONDITION_CHECK && !part->condition)
        note_missing(r, one->place, "conditionExpression");
}

static void read_action(struct hf_request *r, struct parts *parts)
{
    enum { COUNT = sizeof actions / sizeof actions[0] };
    struct hf_slice key;
    int count = 0;
    hf__json_object(r->json);
    while (hf__json_key(r->json, &key)) {
        size_t i = 0;
        while (i < COUNT && !(hf__slice_is(key, actions[i].name) && takes(r, actions[i].kind))) i++;
        if (hf__json_peek(r->json) == HF_JSON_NULL) {
            hf__json_null(r->json);
        } else if (i == COUNT) {
            hf__json_skip(r->json);
        } else {
            struct hf_request one;
            char place[64];
            struct hf_op *part = new_part(r, parts);
            if (!part) return;
            part->kind = actions[i].kind;
            snprintf(place, sizeof place, "transactItems.%zu.member.%s.", parts->count,
                     actions[i].member);
            if (read_part(r, place, part, &one)) check_action(r, &one);
            count++;
        }
    }
    if (r->json->failed || count == 1) return;
    if (r->op->kind == HF_TRANSACT_GET)
        hf__json_note(r->json, "Value null at 'transactItems.1.member.get' failed to satisfy "
                               "constraint: Member must not be null");
    else if (count == 0)
        hf__json_refuse(r->json, "Invalid Request: TransactWriteRequest should contain Delete or "
                                 "Put or Update request");
    else
        hf__json_refuse(r->json, "TransactItems can only contain one of Check, Put, Update or "
                                 "Delete");
}

void hf__request_read_transaction(struct hf_request *r)
{
    struct parts parts = {0};
    hf__json_array(r->json);
    while (hf__json_element(r->json)) read_action(r, &parts);
    keep(r, &parts);
}
