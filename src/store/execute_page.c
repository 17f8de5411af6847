/* Pages of items: Query and Scan. */
#include "base/hash.h"
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

/* ---- what is read ---- */

/* The index that is read; NULL: the table itself. */
static int find_index(struct hf_execution *x, const struct hf_index **ret)
{
    *ret = NULL;
    if (!x->op->index.ptr) return 0;
    *ret = hf__index_find(x->table.spec.indexes, x->op->index);
    if (!*ret)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "The table does not have the specified index: %.*s",
                             HF_FMT(x->op->index));
    if ((*ret)->filling)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "Cannot read from backfilling global secondary index: %.*s",
                             HF_FMT(x->op->index));
    if ((*ret)->global && x->op->consistent)
        return hf__error_set(x->error, HF_ERR_VALIDATION,
                             "Consistent reads are not supported on global secondary indexes");
    return 0;
}

/* A global index has what it projects; a local one gets the rest from the table. */
static int check_projected(struct hf_execution *x, const struct hf_index *index)
{
    struct hf_slice missing = HF_LIT("");
    if (!index || !index->global || index->project == HF_PROJECT_ALL) return 0;
    if (x->op->select == HF_SELECT_ALL)
        return hf__error_set(
            x->error, HF_ERR_VALIDATION,
            "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not "
            "supported for global secondary index %.*s because its projection type is not ALL",
            HF_FMT(index->name));
    for (size_t i = 0; x->op->projection && i < x->op->projection->count; i++) {
        struct hf_slice name = x->op->projection->paths[i].parts[0].name;
        if (hf__index_shows(index, &x->table.schema, name)) continue;
        missing = hf__arena_printf(x->arena, "%.*s%s%.*s", HF_FMT(missing), missing.len ? ", " : "",
                                   HF_FMT(name));
    }
    if (missing.len == 0) return 0;
    return hf__error_set(x->error, HF_ERR_VALIDATION,
                         "One or more parameter values were invalid: Global secondary index %.*s "
                         "does not project [%.*s]",
                         HF_FMT(index->name), HF_FMT(missing));
}

/* The item as the filter and the projection see it. */
static struct hf_item seen_in(struct hf_execution *x, const struct hf_index *index,
                              struct hf_item item)
{
    if (!index || !index->global) return item;
    return hf__index_project(x->arena, index, &x->table.schema, item);
}

static struct hf_item shown_of(struct hf_execution *x, const struct hf_index *index,
                               struct hf_item item)
{
    if (x->op->projection) return hf__projection_apply(x->arena, x->op->projection, item);
    if (!index || x->op->select == HF_SELECT_ALL) return item;
    return hf__index_project(x->arena, index, &x->table.schema, item);
}

/* Each segment of a scan has the partitions whose hash is its own. */
static bool is_in_segment(const struct hf_op *op, struct hf_slice pk)
{
    if (op->segments <= 1) return true;
    uint64_t hash = hf__hash_more(HF_HASH_START, pk);
    return (int64_t)hf__hash_place(hash, (size_t)op->segments) == op->segment;
}

static struct hf_item last_key_of(struct hf_execution *x, const struct hf_index *index,
                                  struct hf_item item)
{
    if (index)
        return hf__item_copy(x->arena, hf__index_key_of(x->arena, index, &x->table.schema, item));
    struct hf_key_schema schema = hf__x_copy_schema(x);
    return hf__key_of(x->arena, &schema, item);
}

/* Whether the answer has attributes that a local index gets from the table, at the cost of a read. */
static bool is_fetched(struct hf_execution *x, const struct hf_index *index)
{
    if (!index || index->global || index->project == HF_PROJECT_ALL) return false;
    if (x->op->select == HF_SELECT_ALL) return true;
    for (size_t i = 0; x->op->projection && i < x->op->projection->count; i++)
        if (!hf__index_shows(index, &x->table.schema, x->op->projection->paths[i].parts[0].name))
            return true;
    return false;
}

struct page {
    struct hf_item *items; /* or */
    struct hf_slice *jsons;
    size_t count, capacity;
    int64_t matched, seen;
    size_t size;             /* of what was looked at */
    struct hf_arena scratch; /* for one row, if little of it is kept */
    struct hf_arena *kept;   /* the answer's */
    bool as_json;
};

/* Whether the answer may keep less than what is read for it. If not, it has whole items. */
static bool is_lean(const struct hf_op *op, const struct hf_index *index)
{
    return op->projection || op->filter || op->select == HF_SELECT_COUNT || op->segments > 1 ||
           (index && index->project != HF_PROJECT_ALL && op->select != HF_SELECT_ALL);
}

static int keep_json(struct hf_execution *x, struct page *page)
{
    page->jsons =
        hf__arena_grow(page->kept, page->jsons, page->count, &page->capacity, sizeof *page->jsons);
    if (!page->jsons) return hf__error_no_memory(x->error);
    page->jsons[page->count++] = hf__arena_copy(page->kept, x->json);
    return 0;
}

static int take_row(struct hf_execution *x, const struct hf_index *index, struct hf_item item,
                    struct page *page)
{
    struct hf_item seen = seen_in(x, index, item);
    page->seen++;
    page->size +=
        hf__item_size(index ? hf__index_project(x->arena, index, &x->table.schema, item) : item);
    if (is_fetched(x, index)) hf__x_count_read(x, NULL, hf__item_size(item));
    if (x->op->filter && !hf__condition_holds(x->op->filter, seen)) return 0;
    page->matched++;
    if (x->op->select == HF_SELECT_COUNT) return 0;
    if (page->as_json) return keep_json(x, page);
    page->items =
        hf__arena_grow(page->kept, page->items, page->count, &page->capacity, sizeof *page->items);
    if (!page->items) return hf__error_no_memory(x->error);
    struct hf_item shown = shown_of(x, index, seen);
    if (x->arena != page->kept) shown = hf__item_copy(page->kept, shown);
    page->items[page->count++] = shown;
    return 0;
}

/*
 * An entry that an older version of holdfast has left beside its item, which has another key by now,
 * is passed over.
 */
static bool is_stale(struct hf_execution *x, const struct hf_index *index, sqlite3_stmt *row,
                     struct hf_item item)
{
    enum { IK = 3, ISK = 4 };
    struct hf_columns entry;
    if (!index) return false;
    if (!hf__index_has(index, item) || hf__index_check_item(index, item, NULL) != 0) return true;
    hf__x_index_columns(x, index, item, &entry);
    return !hf__slice_eq(entry.pk, hf__column(row, IK)) ||
           !hf__slice_eq(entry.sk, hf__column(row, ISK));
}

/* One row; `ret_last`: the page ends with it. */
static int look_at_row(struct hf_execution *x, const struct hf_index *index, sqlite3_stmt *row,
                       struct page *page, bool *ret_last)
{
    enum { LOOKED_TO_SKIP = 250 };
    size_t most = x->op->page_bytes ? x->op->page_bytes : PAGE_SIZE;
    bool wanted = is_in_segment(x->op, hf__column(row, 1));
    struct hf_item item;
    *ret_last = false;
    if (!wanted) {
        x->effort->looked += LOOKED_TO_SKIP;
        if (!hf__x_is_tired(x)) return 0;
    }
    int code = hf__x_item(x, row, &item);
    if (code != 0) return code;
    hf__x_effort(x, hf__column(row, 0).len, item);
    if (x->db->longest && x->effort->looked > x->db->longest) return hf__x_decline(x);
    if (is_stale(x, index, row, item)) return 0;
    if (wanted) code = take_row(x, index, item, page);
    if (code != 0) return code;
    *ret_last = (x->op->has_limit && page->seen >= x->op->limit) || page->size > most ||
                hf__x_is_tired(x) || hf__x_is_full(x);
    if (!*ret_last) return 0;
    x->answer->last_key = last_key_of(x, index, item);
    if (x->arena != page->kept)
        x->answer->last_key = hf__item_copy(page->kept, x->answer->last_key);
    return 0;
}

/* Collects rows into the answer until the page is full or the rows end. */
static int collect(struct hf_execution *x, const struct hf_index *index, sqlite3_stmt *row)
{
    bool lean = is_lean(x->op, index);
    struct page page = {.kept = x->arena, .as_json = x->op->takes_json && !lean};
    bool last = false, starved = false;
    int result = SQLITE_DONE, code = 0;
    if (lean || page.as_json) x->arena = &page.scratch;
    while (code == 0 && !last && (result = sqlite3_step(row)) == SQLITE_ROW) {
        code = look_at_row(x, index, row, &page, &last);
        if (x->arena == page.kept) continue;
        starved |= page.scratch.failed;
        hf__arena_reset(&page.scratch);
    }
    x->arena = page.kept;
    hf__arena_free(&page.scratch);
    if (code != 0) return code;
    if (starved) return hf__error_no_memory(x->error);
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return hf__database_error(x->db, "read", x->error);
    hf__x_count_read(x, index, page.size);
    x->answer->items = page.items;
    x->answer->jsons = page.jsons;
    x->answer->count = (size_t)page.matched;
    x->answer->scanned = page.seen;
    x->answer->size = page.size;
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

static bool is_key_name(const void *schema, struct hf_slice name)
{
    return hf__schema_is_key_name(schema, name);
}

static int check_start_key(struct hf_execution *x, const struct hf_index *index)
{
    if (x->op->start_key.count == 0) return 0;
    bool fits = index ? hf__index_key_fits(index, &x->table.schema, x->op->start_key)
                      : hf__key_check(&x->table.schema, x->op->start_key, NULL) == 0;
    if (fits) return 0;
    return hf__error_set(
        x->error, HF_ERR_VALIDATION,
        "The provided starting key is invalid: The provided key element does not match "
        "the schema");
}

/* Names of attributes that an index does not have. */
struct missing {
    struct hf_execution *x;
    const struct hf_index *index;
    struct hf_slice names[8]; /* as many as a message shows */
    size_t count;
};

static bool take_missing(const void *user, struct hf_slice name)
{
    struct missing *missing = (struct missing *)(uintptr_t)user;
    enum { MOST = sizeof missing->names / sizeof missing->names[0] };
    bool known = hf__index_shows(missing->index, &missing->x->table.schema, name);
    for (size_t i = 0; i < missing->count; i++) known |= hf__slice_eq(missing->names[i], name);
    if (!known && missing->count < MOST) missing->names[missing->count++] = name;
    return false;
}

static struct hf_slice join(struct hf_arena *arena, const struct hf_slice *names, size_t count)
{
    struct hf_slice text = HF_LIT("");
    for (size_t i = 0; i < count; i++)
        text = hf__arena_printf(arena, "%.*s%s%.*s", HF_FMT(text), i ? ", " : "", HF_FMT(names[i]));
    return text;
}

/* A query filters by what the index has; a scan of a local one by the whole item. */
static int check_filtered(struct hf_execution *x, const struct hf_index *index)
{
    struct missing missing = {.x = x, .index = index};
    if (!index || index->project == HF_PROJECT_ALL) return 0;
    hf__condition_find_name(x->op->filter, take_missing, &missing);
    if (missing.count == 0) return 0;
    return hf__error_set(x->error, HF_ERR_VALIDATION,
                         "One or more parameter values were invalid: Secondary index %.*s does not "
                         "project one or more filter attributes: [%.*s]",
                         HF_FMT(index->name), HF_FMT(join(x->arena, missing.names, missing.count)));
}

static int check_filter(struct hf_execution *x, const struct hf_key_schema *schema)
{
    const struct hf_slice *name = hf__condition_find_name(x->op->filter, is_key_name, schema);
    if (!name) return 0;
    return hf__error_set(x->error, HF_ERR_VALIDATION,
                         "%s can only contain non-primary key attributes: Primary key attribute: "
                         "%.*s",
                         x->op->is_legacy ? "QueryFilter" : "Filter Expression", HF_FMT(*name));
}

/* ---- queries ---- */

static int outside(struct hf_execution *x)
{
    return hf__error_set(x->error, HF_ERR_VALIDATION,
                         "The provided starting key does not match the range key predicate");
}

static bool is_inside(const struct range *range, struct hf_slice pk, const struct hf_columns *start)
{
    return hf__slice_eq(start->pk, pk) && hf__slice_cmp(start->sk, range->lo) >= 0 &&
           hf__slice_cmp(start->sk, range->hi) < 0;
}

/* Continues after the start key, which must lie in the requested range. */
static int narrow(struct hf_execution *x, struct hf_slice pk, struct range *range)
{
    struct hf_columns start;
    if (x->op->start_key.count == 0) return 0;
    int code = hf__x_columns(x, x->op->start_key, &start);
    if (code != 0) return code;
    if (!is_inside(range, pk, &start)) return outside(x);
    if (x->op->backward) range->hi = start.sk;
    else range->lo = just_above(x, start.sk);
    return x->arena->failed ? hf__error_no_memory(x->error) : 0;
}

static int query_table(struct hf_execution *x, struct hf_slice pk, struct range range)
{
    int code = narrow(x, pk, &range);
    if (code != 0) return code;
    sqlite3_stmt *row = hf__database_prepare(
        x->db, x->op->backward ? HF_SQL_QUERY_DOWN : HF_SQL_QUERY_UP, x->error);
    if (!row) return x->error->code;
    sqlite3_bind_int64(row, 1, x->table.id);
    hf__bind_blob(row, 2, pk);
    hf__bind_blob(row, 3, range.lo);
    hf__bind_blob(row, 4, range.hi);
    code = collect(x, NULL, row);
    sqlite3_reset(row);
    /* Without a sort key there is at most one item, and nothing after it. */
    if (!hf__schema_has_range(&x->table.schema)) x->answer->last_key = (struct hf_item){0};
    return code;
}

/* Entries are in the order of the index's sort key, then of the table's key. */
static int query_index(struct hf_execution *x, const struct hf_index *index, struct hf_slice pk,
                       struct range range)
{
    struct hf_columns start = {.sk = x->op->backward ? range.hi : range.lo}, own = {0};
    if (x->op->start_key.count > 0) {
        hf__x_index_columns(x, index, x->op->start_key, &start);
        int code = hf__x_columns(x, x->op->start_key, &own);
        if (code != 0) return code;
        if (!is_inside(&range, pk, &start)) return outside(x);
    }
    sqlite3_stmt *row = hf__database_prepare(
        x->db, x->op->backward ? HF_SQL_INDEX_QUERY_DOWN : HF_SQL_INDEX_QUERY_UP, x->error);
    if (!row) return x->error->code;
    sqlite3_bind_int64(row, 1, x->table.id);
    sqlite3_bind_int64(row, 2, index->slot);
    hf__bind_blob(row, 3, pk);
    hf__bind_blob(row, 4, range.lo);
    hf__bind_blob(row, 5, range.hi);
    hf__bind_blob(row, 6, start.sk);
    hf__bind_blob(row, 7, own.pk);
    hf__bind_blob(row, 8, own.sk);
    int code = collect(x, index, row);
    sqlite3_reset(row);
    return code;
}

int hf__x_query(struct hf_execution *x)
{
    const struct hf_value *hash;
    const struct hf_key_test *test;
    const struct hf_index *index;
    int code = find_index(x, &index);
    if (code != 0) return code;
    const struct hf_key_schema *schema = index ? &index->schema : &x->table.schema;
    code = hf__key_condition_bind(x->op->where, schema, &hash, &test, x->error);
    if (code == 0) code = check_projected(x, index);
    if (code == 0) code = check_start_key(x, index);
    if (code == 0) code = check_filter(x, schema);
    if (code == 0) code = check_filtered(x, index);
    if (code != 0) return code;
    struct range range = range_of(x, test);
    struct hf_slice pk = hf__x_sortable(x, hash);
    if (x->arena->failed) return hf__error_no_memory(x->error);
    return index ? query_index(x, index, pk, range) : query_table(x, pk, range);
}

/* ---- scans ---- */

static int scan_index(struct hf_execution *x, const struct hf_index *index)
{
    struct hf_columns start = {0}, own = {0};
    if (x->op->start_key.count > 0) {
        hf__x_index_columns(x, index, x->op->start_key, &start);
        int code = hf__x_columns(x, x->op->start_key, &own);
        if (code != 0) return code;
    }
    sqlite3_stmt *row = hf__database_prepare(x->db, HF_SQL_INDEX_SCAN, x->error);
    if (!row) return x->error->code;
    sqlite3_bind_int64(row, 1, x->table.id);
    sqlite3_bind_int64(row, 2, index->slot);
    hf__bind_blob(row, 3, start.pk);
    hf__bind_blob(row, 4, start.sk);
    hf__bind_blob(row, 5, own.pk);
    hf__bind_blob(row, 6, own.sk);
    int code = collect(x, index, row);
    sqlite3_reset(row);
    return code;
}

int hf__x_scan(struct hf_execution *x)
{
    struct hf_columns start = {0};
    const struct hf_index *index;
    int code = find_index(x, &index);
    if (code == 0) code = check_projected(x, index);
    if (code == 0) code = check_start_key(x, index);
    if (code == 0 && x->op->start_key.count > 0) code = hf__x_columns(x, x->op->start_key, &start);
    if (code != 0) return code;
    if (index) return scan_index(x, index);
    sqlite3_stmt *row = hf__x_prepare(x, HF_SQL_SCAN, &start);
    if (!row) return x->error->code;
    code = collect(x, NULL, row);
    sqlite3_reset(row);
    return code;
}
