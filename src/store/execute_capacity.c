/*
 * Consumed capacity by DynamoDB's arithmetic: a read costs half a unit for each 4 KB, or a whole one
 * if it is consistent; a write one unit for each KB of the larger of the old and the new item, and
 * the same for each entry of an index that it changes.
 */
#include "store/execution.h"

static int64_t pieces(size_t size, size_t each)
{
    return (int64_t)((size + each - 1) / each);
}

int hf__x_count_begin(struct hf_execution *x)
{
    const struct hf_indexes indexes = x->table.spec.indexes;
    if (x->op->capacity == HF_CAPACITY_NONE) return 0;
    x->spent = hf__arena_zalloc(x->arena, 1, sizeof *x->spent);
    x->spent_indexes = hf__arena_zalloc(x->arena, indexes.count + 1, sizeof *x->spent_indexes);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    for (size_t i = 0; i < indexes.count; i++) {
        x->spent_indexes[i].name = hf__arena_copy(x->arena, indexes.at[i].name);
        x->spent_indexes[i].global = indexes.at[i].global;
    }
    *x->spent = (struct hf_capacity){.table = hf__arena_copy(x->arena, x->table.name),
                                     .writes = hf__op_is_write(x->op),
                                     .indexes = x->spent_indexes,
                                     .index_count = indexes.count};
    x->answer->capacities = x->spent;
    x->answer->capacity_count = 1;
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

void hf__x_count_read(struct hf_execution *x, const struct hf_index *index, size_t size)
{
    enum { EACH = 4096 };
    if (!x->spent) return;
    int64_t halves = pieces(size, EACH) * (x->op->consistent ? 2 : 1);
    if (index) x->spent_indexes[index - x->table.spec.indexes.at].halves += halves;
    else x->spent->halves += halves;
}

enum { WRITE_EACH = 1024 };

static int64_t write_units(size_t size)
{
    return size ? pieces(size, WRITE_EACH) : 1;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool same_key(const struct hf_index *index, struct hf_item a, struct hf_item b)
{
    const struct hf_key_schema *schema = &index->schema;
    return hf__value_equal(hf__item_get(a, schema->hash_name),
                           hf__item_get(b, schema->hash_name)) &&
           (!hf__schema_has_range(schema) || hf__value_equal(hf__item_get(a, schema->range_name),
                                                             hf__item_get(b, schema->range_name)));
}

/* A changed key is a deletion and an insertion; an entry that stays the same costs nothing. */
static int64_t entry_units(struct hf_execution *x, const struct hf_index *index,
                           const struct hf_item *old, const struct hf_item *new)
{
    bool was = old && hf__index_has(index, *old), is = new &&hf__index_has(index, *new);
    struct hf_item before = {0}, after = {0};
    if (was) before = hf__index_project(x->arena, index, &x->table.schema, *old);
    if (is) after = hf__index_project(x->arena, index, &x->table.schema, *new);
    if (!was && !is) return 0;
    if (was != is) return write_units(hf__item_size(was ? before : after));
    if (!same_key(index, before, after))
        return write_units(hf__item_size(before)) + write_units(hf__item_size(after));
    if (hf__item_equal(before, after)) return 0;
    return write_units(larger(hf__item_size(before), hf__item_size(after)));
}

void hf__x_count_write(struct hf_execution *x, const struct hf_item *old, const struct hf_item *new)
{
    if (!x->spent) return;
    size_t size = larger(old ? hf__item_size(*old) : 0, new ? hf__item_size(*new) : 0);
    x->spent->halves += 2 * write_units(size);
    for (size_t i = 0; i < x->table.spec.indexes.count; i++)
        x->spent_indexes[i].halves += 2 * entry_units(x, &x->table.spec.indexes.at[i], old, new);
}

void hf__x_count_together(struct hf_execution *x, int times)
{
    struct hf_answer *whole = x->answer;
    if (x->op->capacity == HF_CAPACITY_NONE) return;
    struct hf_capacity *tables = hf__arena_zalloc(x->arena, whole->part_count + 1, sizeof *tables);
    size_t count = 0;
    for (size_t i = 0; tables && i < whole->part_count; i++) {
        const struct hf_capacity *part = whole->parts[i].capacities;
        if (!part) continue;
        size_t at = 0;
        while (at < count && !hf__slice_eq(tables[at].table, part->table)) at++;
        if (at == count) {
            tables[count] = *part;
            tables[count].halves = 0;
            struct hf_index_units *units =
                hf__arena_zalloc(x->arena, part->index_count + 1, sizeof *units);
            if (!units) return;
            for (size_t j = 0; j < part->index_count; j++) {
                units[j] = part->indexes[j];
                units[j].halves = 0;
            }
            tables[count++].indexes = units;
        }
        tables[at].halves += times * part->halves;
        struct hf_index_units *units = (struct hf_index_units *)tables[at].indexes; /* made here */
        for (size_t j = 0; j < part->index_count; j++)
            units[j].halves += times * part->indexes[j].halves;
    }
    whole->capacities = tables;
    whole->capacity_count = tables ? count : 0;
}
