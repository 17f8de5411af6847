/* Pages of items: Query and Scan. */
#include "store/execution.h"

enum { PAGE_SIZE = 1024 * 1024 }; /* of items looked at */

/* Sort keys from lo up to, not including, hi. */
struct range {
    struct hf_slice lo;
    struct hf_slice hi;
};

/* The smallest byte string above one. */
static struct hf_slice just_above(struct hf_execution *x, struct hf_slice bytes)
{
    char *copy = hf__arena_str(x->arena, bytes); /* its terminator becomes part of it */
    return copy ? hf__slice(copy, bytes.len + 1) : bytes;
}

/* Above every sort key that fits. */
static struct hf_slice highest(void)
{
    static const char bytes[HF_HIGHEST_KEY_SIZE] = {[0 ... HF_HIGHEST_KEY_SIZE - 1] = (char)0xff};
    return hf__slice(bytes, sizeof bytes);
}

/* The smallest byte string above all that begin with a prefix. */
static struct hf_slice above_prefix(struct hf_execution *x, struct hf_slice prefix)
{
    while (prefix.len > 0 && (unsigned char)prefix.ptr[prefix.len - 1] == 0xff) prefix.len--;
    if (prefix.len == 0) return highest();
    char *copy = hf__arena_str(x->arena, prefix);
    if (copy) copy[prefix.len - 1] = (char)(copy[prefix.len - 1] + 1);
    return hf__slice(copy, prefix.len);
}

static struct range range_of(struct hf_execution *x, const struct hf_key_test *test)
{
    struct range range = {HF_LIT(""), highest()};
    if (!test) return range;
    struct hf_slice low = hf__x_sortable(x, &test->low);
    switch (test->op) {
    case HF_EQ: return (struct range){low, just_above(x, low)};
    case HF_LT: range.hi = low; break;
    case HF_LE: range.hi = just_above(x, low); break;
    case HF_GT: range.lo = just_above(x, low); break;
    case HF_GE: range.lo = low; break;
    case HF_BETWEEN: return (struct range){low, just_above(x, hf__x_sortable(x, &test->high))};
    case HF_BEGINS_WITH: return (struct range){low, above_prefix(x, low)};
    default: break;
    }
    return range;
}

/* Collects rows into the answer until the page is full or the rows end. */
static int collect(struct hf_execution *x, sqlite3_stmt *row)
{
    struct hf_item *items = NULL;
    size_t count = 0, capacity = 0, seen_size = 0;
    size_t most = x->op->page_bytes ? x->op->page_bytes : PAGE_SIZE;
    int64_t seen = 0;
    int result;
    while ((result = sqlite3_step(row)) == SQLITE_ROW) {
        struct hf_item item;
        int code = hf__x_item(x, row, &item);
        if (code != 0) return code;
        seen++;
        seen_size += hf__item_size(item);
        if (!x->op->filter || hf__condition_holds(x->op->filter, item)) {
            items = hf__arena_grow(x->arena, items, count, &capacity, sizeof *items);
            if (!items) return hf__error_no_memory(x->error);
            items[count++] =
                x->op->projection ? hf__projection_apply(x->arena, x->op->projection, item) : item;
        }
        if ((x->op->has_limit && seen >= x->op->limit) || seen_size > most) {
            struct hf_key_schema schema = hf__x_copy_schema(x);
            x->answer->last_key = hf__key_of(x->arena, &schema, item);
            break;
        }
    }
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return hf__database_error(x->db, "read", x->error);
    x->answer->items = items;
    x->answer->count = count;
    x->answer->scanned = seen;
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

static bool is_key_name(const void *schema, struct hf_slice name)
{
    return hf__schema_is_key_name(schema, name);
}

static int check_start_key(struct hf_execution *x)
{
    if (x->op->start_key.count == 0) return 0;
    if (hf__key_check(&x->table.schema, x->op->start_key, NULL) == 0) return 0;
    return hf__error_set(
        x->error, HF_ERR_VALIDATION,
        "The provided starting key is invalid: The provided key element does not match "
        "the schema");
}

static int check_filter(struct hf_execution *x)
{
    const struct hf_slice *name =
        hf__condition_find_name(x->op->filter, is_key_name, &x->table.schema);
    if (!name) return 0;
    return hf__error_set(x->error, HF_ERR_VALIDATION,
                         "Filter Expression can only contain non-primary key attributes: Primary "
                         "key attribute: %.*s",
                         HF_FMT(*name));
}

/* Continues after the start key, which must lie in the requested range. */
static int narrow(struct hf_execution *x, struct hf_slice pk, struct range *range)
{
    struct hf_columns start;
    if (x->op->start_key.count == 0) return 0;
    int code = hf__x_columns(x, x->op->start_key, &start);
    if (code != 0) return code;
    bool inside = hf__slice_eq(start.pk, pk) && hf__slice_cmp(start.sk, range->lo) >= 0 &&
                  hf__slice_cmp(start.sk, range->hi) < 0;
    if (!inside)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "The provided starting key does not match the range key predicate");
    if (x->op->backward) range->hi = start.sk;
    else range->lo = just_above(x, start.sk);
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

int hf__x_query(struct hf_execution *x)
{
    const struct hf_value *hash;
    const struct hf_key_test *test;
    enum hf_statement direction = x->op->backward ? HF_SQL_QUERY_DOWN : HF_SQL_QUERY_UP;
    int code = hf__key_condition_bind(x->op->where, &x->table.schema, &hash, &test, x->error);
    if (code == 0) code = check_start_key(x);
    if (code == 0) code = check_filter(x);
    if (code != 0) return code;
    struct range range = range_of(x, test);
    struct hf_slice pk = hf__x_sortable(x, hash);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    code = narrow(x, pk, &range);
    if (code != 0) return code;
    sqlite3_stmt *row = hf__database_prepare(x->db, direction, x->error);
    if (!row) return x->error->code;
    sqlite3_bind_int64(row, 1, x->table.id);
    hf__bind_blob(row, 2, pk);
    hf__bind_blob(row, 3, range.lo);
    hf__bind_blob(row, 4, range.hi);
    code = collect(x, row);
    sqlite3_reset(row);
    return code;
}

int hf__x_scan(struct hf_execution *x)
{
    struct hf_columns start = {0};
    int code = check_start_key(x);
    if (code == 0 && x->op->start_key.count > 0) code = hf__x_columns(x, x->op->start_key, &start);
    if (code != 0) return code;
    sqlite3_stmt *row = hf__x_prepare(x, HF_SQL_SCAN, &start);
    if (!row) return x->error->code;
    code = collect(x, row);
    sqlite3_reset(row);
    return code;
}
