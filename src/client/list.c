/*
 * Listing locks, in pages: reads the table, then the sessions that keep the locks found. One path
 * for calls that wait and calls that call back.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "client/on_behalf.h"
#include "format/keyed.h"
#include "item/key_condition.h"

enum {
    PAGE = 100,
    PAGE_MAX = 10000,
    PAGE_BYTES = 128 * 1024, /* printing a page blocks the service, so a page is small */
};

struct page {
    struct hf_list_page page;
    struct hf_arena arena;
};

/* A page under way. All its memory is in the page's arena. */
struct listing {
    struct hf_client_call call; /* at the store */
    struct hf_chore chore;      /* calls back */
    struct hf_client *client;   /* counted */
    struct page *page;
    struct hf_layout layout;
    struct hf_slice prefix;
    bool held_only;
    struct hf_inspection inspection;
    struct hf_answer found;   /* of the read of the table … */
    size_t *items;            /* … and the item of each lock */
    struct hf_waiter *waiter; /* NULL: called back */
    hf_listed_fn done;
    void *user;
    int code;
    struct hf_error error;
};

/* A cursor is the key of the last item examined, in hex: PARTITION.SORT */
static const char *cursor_of(struct hf_arena *arena, const struct hf_layout *layout,
                             struct hf_item key)
{
    const struct hf_value *hash = hf__item_get(key, layout->key_name);
    const struct hf_value *range = hf__item_get(key, layout->sort_name);
    char number[HF_NUMBER_TEXT_SIZE];
    if (!hash || (range && range->type != HF_S)) return NULL;
    struct hf_slice text = hash->bytes;
    struct hf_slice sort = range ? range->bytes : HF_LIT("");
    if (hash->type == HF_N) text = hf__slice(number, hf__number_print(hash->number, number));
    char *cursor = hf__arena_alloc(arena, 2 * (text.len + sort.len) + 2);
    if (!cursor) return NULL;
    hf__hex_encode(text.ptr, text.len, cursor);
    cursor[2 * text.len] = '.';
    hf__hex_encode(sort.ptr, sort.len, cursor + 2 * text.len + 1);
    return cursor;
}

static bool from_hex(struct hf_arena *arena, struct hf_slice hex, struct hf_slice *ret)
{
    char *bytes = hf__arena_alloc(arena, hex.len / 2 + 1);
    if (!bytes || hex.len % 2 != 0) return false;
    for (size_t i = 0; i < hex.len; i += 2) {
        int high = hf__hex_value(hex.ptr[i]), low = hf__hex_value(hex.ptr[i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i / 2] = (char)(high * 16 + low);
    }
    *ret = hf__slice(bytes, hex.len / 2);
    return true;
}

static int start_at(struct hf_arena *arena, const struct hf_layout *layout, const char *cursor,
                    struct hf_item *ret, struct hf_error *reterr)
{
    const char *dot = strchr(cursor, '.');
    struct hf_layout at = *layout;
    struct hf_slice key;
    at.prefix = HF_LIT("");
    if (!dot || !from_hex(arena, hf__slice(cursor, (size_t)(dot - cursor)), &key) ||
        !from_hex(arena, hf__slice_str(dot + 1), &at.sort_value))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid cursor \"%.64s\"; use the one of the previous page", cursor);
    *ret = hf__keyed_key(&at, arena, key);
    return 0;
}

/* Adds the locks among the items, and the sessions, which then need not be read. */
static void meet_items(struct hf_inspection *inspection, const struct hf_layout *layout,
                       const struct hf_answer *answer, struct hf_slice prefix, size_t *ret_items)
{
    const struct hf_core_options *core = inspection->core;
    for (size_t i = 0; i < answer->count; i++) {
        struct hf_slice name;
        if (!core->format->name_of(layout, inspection->arena, answer->items[i], &name)) {
            hf__inspection_meet(inspection, answer->items[i]);
        } else if (hf__slice_starts(name, prefix)) {
            ret_items[inspection->count] = i;
            hf__inspection_add(inspection, name, true, answer->items[i]);
        }
    }
}

/* ---- the steps, each with the mutex ---- */

static int fill_page(struct hf_client *client, struct listing *listing, struct hf_error *reterr)
{
    struct page *page = listing->page;
    const struct hf_inspection *inspection = &listing->inspection;
    struct hf_lock_info *locks =
        hf__arena_zalloc(&page->arena, inspection->count + 1, sizeof *locks);
    int64_t now_us = hf__client_now_us(client);
    for (size_t i = 0; locks && i < inspection->count; i++) {
        struct hf_view view;
        hf__inspection_view(inspection, i, &view);
        bool held = view.state == HF_LOCK_HELD || view.state == HF_LOCK_DAMAGED;
        if (listing->held_only && !held) continue;
        char *texts = hf__arena_alloc(&page->arena, hf__info_size(client->core, &view));
        if (!texts) break;
        struct hf_lock_info *info = &locks[page->page.count++];
        hf__info_fill(info, &texts, client->core, inspection, &view, now_us);
        const struct hf_item item = listing->found.items[listing->items[i]];
        const struct hf_value *sort = hf__item_get(item, listing->layout.sort_name);
        if (sort && sort->type == HF_S) info->sort_key = hf__arena_str(&page->arena, sort->bytes);
    }
    page->page.locks = locks;
    if (listing->found.last_key.count > 0)
        page->page.cursor = cursor_of(&page->arena, &listing->layout, listing->found.last_key);
    return page->arena.failed ? hf__error_no_memory(reterr) : 0;
}

static void finish(struct hf_client *client, struct listing *listing, int code)
{
    listing->code = code;
    if (listing->waiter) hf__waiter_wake(listing->waiter);
    else hf__client_chore(client, &listing->chore);
}

static void go_on(struct hf_client *client, struct listing *listing)
{
    struct hf_error *error = &listing->error;
    listing->call.call = (struct hf_call){.arena = &listing->page->arena};
    if (listing->page->arena.failed) {
        finish(client, listing, hf__error_no_memory(error));
    } else if (!hf__inspection_next(&listing->inspection, &listing->call.call.op)) {
        finish(client, listing, fill_page(client, listing, error));
    } else if (client->closed) {
        finish(client, listing, hf__error_set(error, HF_ERR_CLOSED, "the client is closed"));
    } else {
        hf__client_submit(client, &listing->call);
    }
}

static void answered(struct hf_client *client, struct hf_client_call *call)
{
    struct listing *listing = HF_CONTAINER(call, struct listing, call);
    const struct hf_answer *answer = &call->call.answer;
    struct hf_inspection *inspection = &listing->inspection;
    hf__core_learn_time(client->core, answer);
    if (answer->code != 0) {
        listing->error = answer->error;
        finish(client, listing, answer->code);
        return;
    }
    if (listing->items) {
        hf__inspection_answer(inspection, answer);
    } else {
        listing->found = *answer;
        listing->items = hf__arena_zalloc(&listing->page->arena, answer->count + 1, sizeof(size_t));
        hf__inspection_time(inspection, answer);
        if (listing->items)
            meet_items(inspection, &listing->layout, answer, listing->prefix, listing->items);
    }
    go_on(client, listing);
}

/* ---- the two ways ---- */

static void listing_free(struct listing *listing)
{
    if (!listing) return;
    if (listing->page) hf_list_page_free(&listing->page->page);
    hf__free(listing);
}

static int check(const struct hf_client *client, const struct hf_list_options *options,
                 struct hf_error *reterr)
{
    if (options->limit < 0 || options->limit > PAGE_MAX)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid limit of %d: must be between 1 and %d", options->limit,
                             PAGE_MAX);
    if (options->prefix && options->name)
        return hf__error_set(reterr, HF_ERR_INVALID, "list a prefix or a name, not both");
    const char *refusal =
        options->name
            ? hf__core_options(client->core)->format->refuses_name(hf__slice_str(options->name))
            : NULL;
    if (!refusal) return 0;
    return hf__error_set(reterr, HF_ERR_INVALID, "lock \"%.64s\": %s", options->name, refusal);
}

/* The read of the table. */
static int prepare(struct listing *listing, const struct hf_list_options *options,
                   struct hf_error *reterr)
{
    const struct hf_core_options *core = hf__core_options(listing->client->core);
    struct hf_arena *arena = &listing->page->arena;
    struct hf_op *op = &listing->call.call.op;
    listing->layout = core->layout;
    if (options->name || options->any_sort_key) listing->layout.sort_value = HF_LIT("");
    listing->prefix = hf__arena_copy(arena, hf__slice_str(options->prefix));
    listing->held_only = options->held_only;
    listing->call.call.arena = arena;
    listing->call.done = answered;
    *op = (struct hf_op){
        .kind = HF_SCAN,
        .table = core->layout.table,
        .consistent = true,
        .has_limit = true,
        .limit = options->limit ? options->limit : PAGE,
        .page_bytes = PAGE_BYTES,
    };
    hf__inspection_init(&listing->inspection, core, arena);
    if (options->name) {
        struct hf_key_condition *where = hf__arena_zalloc(arena, 1, sizeof *where);
        struct hf_slice name = hf__arena_copy(arena, hf__slice_str(options->name));
        struct hf_item key = hf__keyed_key(&core->layout, arena, name);
        const struct hf_value *value = hf__item_get(key, listing->layout.key_name);
        if (!where || !value) return hf__error_no_memory(reterr);
        where->count = 1;
        where->tests[0] =
            (struct hf_key_test){.name = listing->layout.key_name, .op = HF_EQ, .low = *value};
        op->kind = HF_QUERY;
        op->where = where;
    }
    if (options->cursor)
        return start_at(arena, &listing->layout, options->cursor, &op->start_key, reterr);
    return arena->failed ? hf__error_no_memory(reterr) : 0;
}

static int listing_new(struct hf_client *client, const struct hf_list_options *options,
                       struct listing **ret, struct hf_error *reterr)
{
    int code = check(client, options, reterr);
    if (code != 0) return code;
    struct listing *listing = hf__calloc(1, sizeof *listing);
    if (listing) listing->page = hf__calloc(1, sizeof *listing->page);
    if (!listing || !listing->page) {
        hf__free(listing);
        return hf__error_no_memory(reterr);
    }
    listing->client = client;
    hf__list_init(&listing->chore.node);
    code = prepare(listing, options, reterr);
    if (code == 0) *ret = listing;
    else listing_free(listing);
    return code;
}

/* With the mutex. */
static int begin(struct listing *listing, struct hf_error *reterr)
{
    struct hf_client *client = listing->client;
    if (hf__core_is_closing(client->core) || client->closed)
        return hf__error_set(reterr, HF_ERR_CLOSED, "the client is closed");
    hf__client_submit(client, &listing->call);
    return 0;
}

static void call_back(struct hf_client *client, struct hf_chore *chore)
{
    struct listing *listing = HF_CONTAINER(chore, struct listing, chore);
    listing->done(listing->user, listing->code, listing->code == 0 ? &listing->page->page : NULL,
                  &listing->error);
    if (listing->code == 0) listing->page = NULL; /* the callee owns it */
    listing_free(listing);
    pthread_mutex_lock(&client->mutex);
    hf__client_unref_unlock(client);
}

int hf__list_async(struct hf_client *client, const struct hf_list_options *options,
                   hf_listed_fn done, void *user, struct hf_error *reterr)
{
    struct listing *listing;
    int code = listing_new(client, options, &listing, reterr);
    if (code != 0) return code;
    listing->chore.run = call_back;
    listing->done = done;
    listing->user = user;
    code = hf__client_enter(client, reterr);
    if (code == 0) {
        code = begin(listing, reterr);
        if (code == 0) hf__client_ref(client);
        hf__client_leave(client);
    }
    if (code != 0) listing_free(listing);
    return code;
}

int hf_list(struct hf_client *client, const struct hf_list_options *given,
            struct hf_list_page **ret, struct hf_error *reterr)
{
    HF_OPTIONS(struct hf_list_options, options, given);
    if (!ret) return hf__error_set(reterr, HF_ERR_INVALID, "the pointer for the page is NULL");
    struct listing *listing;
    struct hf_waiter waiter;
    int code = listing_new(client, &options, &listing, reterr);
    if (code != 0) return code;
    code = hf__client_enter_waiting(client, reterr);
    if (code != 0) {
        listing_free(listing);
        return code;
    }
    code = hf__waiter_init(client, &waiter, NULL, reterr);
    if (code == 0) {
        listing->waiter = &waiter;
        code = begin(listing, reterr);
        waiter.done = code != 0;
        hf__client_leave(client);
        pthread_mutex_lock(&client->mutex);
        hf__waiter_wait(client, &waiter);
        if (code == 0 && listing->code != 0) {
            code = listing->code;
            if (reterr) *reterr = listing->error;
        }
        hf__client_unref_unlock(client);
    } else {
        pthread_mutex_unlock(&client->mutex);
    }
    if (code == 0) {
        *ret = &listing->page->page;
        listing->page = NULL;
    }
    listing_free(listing);
    return code;
}

void hf_list_page_free(struct hf_list_page *at)
{
    if (!at) return;
    struct page *page = HF_CONTAINER(at, struct page, page);
    hf__arena_free(&page->arena);
    hf__free(page);
}
