/* The parameters of requests on tables: keys, indexes, billing, tags. */
#include "wire/request_inside.h"
#include "wire/table_json.h"

void hf__request_read_key_schema(struct hf_request *r)
{
    hf__json_read_key_schema(r->json, &r->op->schema);
}

void hf__request_read_definitions(struct hf_request *r)
{
    r->definitions = hf__arena_zalloc(r->json->arena, 1, sizeof *r->definitions);
    if (r->definitions) hf__json_read_definitions(r->json, r->definitions);
    else hf__json_no_memory(r->json);
}

void hf__request_read_billing(struct hf_request *r)
{
    struct hf_slice mode;
    if (!hf__json_string(r->json, &mode)) return;
    r->has_billing = true;
    r->on_demand = hf__slice_is(mode, "PAY_PER_REQUEST");
    if (!r->on_demand && !hf__slice_is(mode, "PROVISIONED"))
        hf__json_note(r->json,
                      "Value '%.*s' at 'billingMode' failed to satisfy constraint: Member must "
                      "satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]",
                      HF_FMT(mode));
}

void hf__request_read_throughput(struct hf_request *r)
{
    r->has_units = hf__json_read_units(r->json, &r->op->read_units, &r->op->write_units);
}

void hf__request_read_local_indexes(struct hf_request *r)
{
    hf__json_read_indexes(r->json, false, &r->wishes.indexes);
}

void hf__request_read_global_indexes(struct hf_request *r)
{
    hf__json_read_indexes(r->json, true, &r->wishes.indexes);
}

static void read_change(struct hf_json_reader *json, struct hf_index_change *ret, int *count)
{
    static const char *const names[] = {"Create", "Update", "Delete"};
    struct hf_slice key;
    hf__json_object(json);
    while (hf__json_key(json, &key)) {
        int kind = 0;
        while (kind < 3 && !hf__slice_is(key, names[kind])) kind++;
        if (hf__json_peek(json) == HF_JSON_NULL) hf__json_null(json);
        else if (kind == 3) hf__json_skip(json);
        else {
            *ret = (struct hf_index_change){.kind = (enum hf_index_change_kind)kind,
                                            .index.global = true};
            hf__json_read_index(json, &ret->index);
            ++*count;
        }
    }
}

void hf__request_read_index_updates(struct hf_request *r)
{
    struct hf_index_change *changes = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(r->json);
    while (hf__json_element(r->json)) {
        int actions = 0;
        changes = hf__arena_grow(r->json->arena, changes, count, &capacity, sizeof *changes);
        if (!changes) {
            hf__json_no_memory(r->json);
            return;
        }
        read_change(r->json, &changes[count++], &actions);
        if (!r->json->failed && actions != 1)
            hf__json_refuse(r->json,
                            "One or more parameter values were invalid: One of "
                            "GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
                            "GlobalSecondaryIndexUpdate.Delete must not be null");
    }
    r->wishes.changes = changes;
    r->wishes.change_count = count;
}

void hf__request_read_protection(struct hf_request *r)
{
    r->wishes.has_protection = hf__json_bool(r->json, &r->wishes.protection);
}

/* Streams are not served, so a table that asks for one is refused. */
void hf__request_read_stream(struct hf_request *r)
{
    struct hf_slice key;
    bool enabled = false;
    hf__json_object(r->json);
    while (hf__json_key(r->json, &key)) {
        if (hf__slice_is(key, "StreamEnabled")) hf__json_bool(r->json, &enabled);
        else hf__json_skip(r->json);
    }
    if (enabled)
        hf__json_refuse(r->json, "One or more parameter values were invalid: streams are not "
                                 "supported; create the table without a StreamSpecification");
}

void hf__request_read_tags(struct hf_request *r)
{
    hf__json_read_tags(r->json, &r->wishes.tags);
}

void hf__request_read_tag_keys(struct hf_request *r)
{
    struct hf_slice *keys = NULL;
    size_t count = 0, capacity = 0;
    hf__json_array(r->json);
    while (hf__json_element(r->json)) {
        keys = hf__arena_grow(r->json->arena, keys, count, &capacity, sizeof *keys);
        if (!keys) {
            hf__json_no_memory(r->json);
            return;
        }
        hf__json_string(r->json, &keys[count++]);
    }
    r->wishes.tag_keys = keys;
    r->wishes.tag_key_count = count;
}

/* ---- joining what the members say ---- */

/* Provisioned unless it says otherwise, as in DynamoDB. */
static int resolve_billing(const struct hf_request *r, struct hf_error *reterr)
{
    static const int64_t most = 1000000000000;
    const struct hf_op *op = r->op;
    if (r->on_demand && r->has_units)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Neither ReadCapacityUnits nor "
            "WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST");
    if (r->on_demand) return 0;
    if (!r->has_units && op->kind == HF_UPDATE_TABLE) {
        if (!r->has_billing) return 0;
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: ProvisionedThroughput must be specified "
            "when BillingMode is PROVISIONED");
    }
    if (!r->has_units)
        return hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: ReadCapacityUnits and "
            "WriteCapacityUnits must both be specified when BillingMode is PROVISIONED");
    const int64_t units[] = {op->read_units, op->write_units};
    static const char *const names[] = {"Read", "Write"};
    for (int i = 0; i < 2; i++) {
        if (units[i] < 1)
            return hf__error_set(
                reterr, HF_ERR_VALIDATION,
                "1 validation error detected: Value '%lld' at "
                "'provisionedThroughput.%sCapacityUnits' failed to satisfy constraint: "
                "Member must have value greater than or equal to 1",
                (long long)units[i], i == 0 ? "read" : "write");
        if (units[i] > most)
            return hf__error_set(reterr, HF_ERR_VALIDATION,
                                 "Given value %lld for %sCapacityUnits is out of bounds",
                                 (long long)units[i], names[i]);
    }
    return 0;
}

static size_t count_key_names(const struct hf_op *op, struct hf_indexes indexes,
                              const struct hf_definitions *definitions)
{
    size_t room = sizeof definitions->at / sizeof definitions->at[0], used = 0;
    for (size_t i = 0; i < definitions->count && i < room; i++) {
        bool is_key = hf__schema_is_key_name(&op->schema, definitions->at[i].name);
        for (size_t j = 0; j < indexes.count && !is_key; j++)
            is_key = hf__schema_is_key_name(&indexes.at[j].schema, definitions->at[i].name);
        used += is_key;
    }
    return used;
}

static int resolve_create(struct hf_request *r, const struct hf_definitions *definitions,
                          struct hf_error *reterr)
{
    struct hf_indexes indexes = r->wishes.indexes;
    if (!r->op->schema.hash_name.ptr)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "1 validation error detected: Value null at 'keySchema' failed to "
                             "satisfy constraint: Member must not be null");
    int code = hf__schema_resolve(definitions, &r->op->schema, reterr);
    for (size_t i = 0; i < indexes.count && code == 0; i++) {
        struct hf_index *index = (struct hf_index *)&indexes.at[i]; /* made by this reader */
        code = hf__schema_resolve(definitions, &index->schema, reterr);
    }
    if (code == 0 && count_key_names(r->op, indexes, definitions) != definitions->count)
        code = hf__error_set(
            reterr, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Number of attributes in KeySchema does "
            "not exactly match number of attributes defined in AttributeDefinitions");
    return code;
}

static int resolve_changes(struct hf_request *r, const struct hf_definitions *definitions,
                           struct hf_error *reterr)
{
    int code = 0;
    for (size_t i = 0; i < r->wishes.change_count && code == 0; i++) {
        struct hf_index_change *change = (struct hf_index_change *)&r->wishes.changes[i];
        if (change->kind == HF_INDEX_CREATE)
            code = hf__schema_resolve(definitions, &change->index.schema, reterr);
    }
    return code;
}

int hf__request_resolve_table(struct hf_request *r, struct hf_error *reterr)
{
    static const struct hf_definitions none;
    const struct hf_definitions *definitions = r->definitions ? r->definitions : &none;
    int code = resolve_billing(r, reterr);
    if (code != 0) return code;
    if (r->op->kind == HF_CREATE_TABLE) code = resolve_create(r, definitions, reterr);
    else code = resolve_changes(r, definitions, reterr);
    r->wishes.keeps_mode = r->op->kind == HF_UPDATE_TABLE && r->has_units && !r->has_billing;
    r->wishes.has_billing = r->op->kind == HF_UPDATE_TABLE && (r->has_billing || r->has_units);
    return code;
}
