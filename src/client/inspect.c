/* Looking at locks without taking them, and taking them away. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "client/client.h"
#include "format/keyed.h"
#include "item/key_condition.h"
#include "lock/inspection.h"

enum { PAGE = 100, PAGE_MAX = 10000, FORCE_MS = 60000 };

/* ---- one lock ---- */

/* Text behind the struct, terminated; NULL stays NULL. */
static const char *put_text(char **at, struct hf_slice text)
{
    if (text.len == 0) return NULL;
    char *copy = *at;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    *at += text.len + 1;
    return copy;
}

/* Text that the user put beside the format's own attributes. */
static bool is_extra(const struct hf_core_options *core, const struct hf_attr *attr)
{
    return attr->value.type == HF_S &&
           !hf__format_refuses_extra(core->format, &core->layout, attr->name);
}

static size_t party_size(const struct hf_party *party)
{
    return sizeof(struct hf_lock_party) + party->owner.len + party->session.len + 2;
}

static size_t info_size(const struct hf_core *core, const struct hf_view *view)
{
    const struct hf_record *record = view->record;
    size_t size = view->name.len + record->owner.len + record->data.len + record->forced_by.len +
                  record->forced_reason.len + 5;
    for (size_t i = 0; i < record->item.count; i++) {
        const struct hf_attr *attr = &record->item.attrs[i];
        if (is_extra(&core->options, attr))
            size += sizeof(struct hf_attribute) + attr->name.len + attr->value.bytes.len + 2;
    }
    for (size_t i = 0; i < view->held_by_count; i++) size += party_size(&view->held_by[i]);
    for (size_t i = 0; i < view->waiting_count; i++) size += party_size(&view->waiting[i]);
    for (const struct hf_attempt *at = NULL;
         (at = hf__core_next_in_line(core, view->name, at)) != NULL;)
        size += sizeof(struct hf_lock_party) + hf__grant_owner(core, at->grant).len + 2;
    return size;
}

/* `at` is aligned for anything, as long as only structs have been put there. */
static void *put_structs(char **at, size_t size)
{
    void *place = *at;
    *at += size;
    return size ? place : NULL;
}

static void put_party(struct hf_lock_party *ret, char **at, const struct hf_party *party)
{
    *ret = (struct hf_lock_party){
        .owner = put_text(at, party->owner),
        .session = put_text(at, party->session),
        .since_unix_ms = party->since_unix_ms,
        .lease_ms = party->lease_ms,
        .expires_unix_ms = party->expires_unix_ms,
    };
}

static void put_attributes(struct hf_attribute *ret, char **at, const struct hf_core *core,
                           const struct hf_record *record)
{
    size_t count = 0;
    for (size_t i = 0; i < record->item.count; i++) {
        const struct hf_attr *attr = &record->item.attrs[i];
        if (!is_extra(&core->options, attr)) continue;
        const char *text = put_text(at, attr->value.bytes);
        ret[count++] = (struct hf_attribute){put_text(at, attr->name), text ? text : ""};
    }
}

static bool is_ours(const struct hf_core *core, const struct hf_view *view)
{
    for (const struct hf_attempt *at = NULL;
         (at = hf__core_next_in_line(core, view->name, at)) != NULL;)
        if (at->has_intent && hf__id_is(&at->intent, view->record->intent.grant)) return true;
    return false;
}

/* Whoever waits: as the record says, and in this client. */
static size_t put_waiting(struct hf_lock_party *ret, char **at, const struct hf_core *core,
                          const struct hf_view *view, int64_t now_us)
{
    size_t count = 0;
    struct hf_interval now = hf__store_time_at(&core->store_time, now_us);
    if (view->waiting_count > 0 && !is_ours(core, view))
        put_party(&ret[count++], at, &view->waiting[0]);
    for (const struct hf_attempt *one = NULL;
         (one = hf__core_next_in_line(core, view->name, one)) != NULL;) {
        struct hf_party party = {.owner = hf__grant_owner(core, one->grant)};
        if (now.known) party.since_unix_ms = (now.lo_unix_us - (now_us - one->began_us)) / 1000;
        put_party(&ret[count++], at, &party);
    }
    return count;
}

static void fill(struct hf_lock_info *info, char **at, const struct hf_core *core,
                 const struct hf_inspection *inspection, const struct hf_view *view, int64_t now_us)
{
    const struct hf_record *record = view->record;
    *info = (struct hf_lock_info){
        .held = view->state == HF_LOCK_HELD || view->state == HF_LOCK_DAMAGED,
        .state = view->state,
        .shared = view->shared,
        .damaged = record->damaged,
        .damage = record->damage,
        .token = record->token,
        .holders = view->holders,
        .limit = record->limit == HF_READERS_LIMIT || record->member_count == 0 ? 0 : record->limit,
        .since_unix_ms = record->since_unix_ms,
        .lease_ms = view->lease_ms,
        .expires_unix_ms = view->expires_unix_ms,
        .data_size = record->has_data ? record->data.len : 0,
        .now_unix_ms = inspection->now.known ? inspection->now.lo_unix_us / 1000 : 0,
        .held_by_count = view->held_by_count,
    };
    for (size_t i = 0; i < record->item.count; i++)
        info->attribute_count += is_extra(&core->options, &record->item.attrs[i]);
    size_t in_line = hf__core_queue(core, view->name) + view->waiting_count;
    struct hf_attribute *attributes = put_structs(at, info->attribute_count * sizeof *attributes);
    struct hf_lock_party *held_by = put_structs(at, view->held_by_count * sizeof *held_by);
    struct hf_lock_party *waiting = put_structs(at, in_line * sizeof *waiting);
    if (attributes) put_attributes(attributes, at, core, record);
    for (size_t i = 0; i < view->held_by_count; i++) put_party(&held_by[i], at, &view->held_by[i]);
    info->waiting_count = waiting ? put_waiting(waiting, at, core, view, now_us) : 0;
    info->waiters = (int64_t)info->waiting_count;
    info->attributes = attributes;
    info->held_by = held_by;
    info->waiting = info->waiting_count ? waiting : NULL;
    info->name = put_text(at, view->name);
    info->owner = put_text(at, record->owner);
    info->forced_by = put_text(at, record->forced_by);
    info->forced_reason = put_text(at, record->forced_reason);
    if (record->has_data) {
        info->data = *at;
        if (record->data.len) memcpy(*at, record->data.ptr, record->data.len);
        *at += record->data.len;
    }
}

struct hf_lock_info *hf__info_new(struct hf_client *client, const struct hf_inspection *inspection)
{
    struct hf_view view;
    hf__inspection_view(inspection, 0, &view);
    if (inspection->arena->failed) return NULL;
    const struct hf_core *core = &client->core;
    struct hf_lock_info *info = hf__malloc(sizeof *info + info_size(core, &view));
    if (!info) return NULL;
    char *at = (char *)(info + 1);
    fill(info, &at, core, inspection, &view, hf__client_now_us(client));
    return info;
}

const char *hf_lock_state_name(enum hf_lock_state state)
{
    static const char *const names[] = {"free", "held", "expired", "damaged"};
    size_t at = (size_t)state;
    return at < sizeof names / sizeof names[0] ? names[at] : "unknown";
}

void hf_lock_info_free(struct hf_lock_info *info)
{
    hf__free(info);
}

/* Checks, and holds the client. */
static int check_call(struct hf_client *client, const char *name, struct hf_error *reterr)
{
    const char *refusal =
        name ? client->core.options.format->refuses_name(hf__slice_str(name)) : NULL;
    if (refusal) return hf__error_set(reterr, HF_ERR_INVALID, "lock \"%.64s\": %s", name, refusal);
    return hf__client_hold(client, reterr);
}

/* Reads what an inspection wants to know. */
static int inspect(struct hf_client *client, struct hf_inspection *inspection,
                   struct hf_error *reterr)
{
    struct hf_call call = {.arena = inspection->arena};
    while (hf__inspection_next(inspection, &call.op)) {
        int code = hf__client_run(client, &call, reterr);
        if (code != 0) return code;
        hf__inspection_answer(inspection, &call.answer);
        call = (struct hf_call){.arena = inspection->arena};
    }
    return inspection->arena->failed ? hf__error_no_memory(reterr) : 0;
}

int hf_get(struct hf_client *client, const char *name, struct hf_lock_info **ret,
           struct hf_error *reterr)
{
    if (!name || !ret) return hf__error_set(reterr, HF_ERR_INVALID, "no lock name");
    int code = check_call(client, name, reterr);
    if (code != 0) return code;
    const struct hf_core_options *core = &client->core.options;
    struct hf_arena arena = {0};
    struct hf_call call = {.arena = &arena};
    struct hf_inspection inspection;
    hf__inspection_init(&inspection, core, &arena);
    core->format->read(&core->layout, &arena, hf__slice_str(name), &call.op);
    code = hf__client_run(client, &call, reterr);
    if (code == 0 && !call.answer.has_item)
        code = hf__error_set(reterr, HF_ERR_ABSENT, "there is no lock \"%s\"", name);
    if (code == 0) {
        hf__inspection_time(&inspection, &call.answer);
        hf__inspection_add(&inspection, hf__slice_str(name), true, call.answer.item);
        code = inspect(client, &inspection, reterr);
    }
    if (code == 0) {
        pthread_mutex_lock(&client->mutex);
        *ret = hf__info_new(client, &inspection);
        pthread_mutex_unlock(&client->mutex);
        if (!*ret) code = hf__error_no_memory(reterr);
    }
    hf__arena_free(&arena);
    hf__client_let_go(client);
    return code;
}

/* ---- many locks ---- */

struct page {
    struct hf_list_page page;
    struct hf_arena arena;
};

/* A cursor is the key of the last item that was looked at, in hex: PARTITION.SORT */
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
                             "\"%.64s\" is no cursor; give the one of the page before", cursor);
    *ret = hf__keyed_key(&at, arena, key);
    return 0;
}

/* The locks among the items, and the sessions: those need not be read. */
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

/* With the mutex. */
static int fill_page(struct hf_client *client, struct page *page, const struct hf_layout *layout,
                     const struct hf_inspection *inspection, const struct hf_answer *answer,
                     const size_t *items, bool held_only, struct hf_error *reterr)
{
    struct hf_lock_info *locks =
        hf__arena_zalloc(&page->arena, inspection->count + 1, sizeof *locks);
    int64_t now_us = hf__client_now_us(client);
    for (size_t i = 0; locks && i < inspection->count; i++) {
        struct hf_view view;
        hf__inspection_view(inspection, i, &view);
        if (held_only && view.state != HF_LOCK_HELD && view.state != HF_LOCK_DAMAGED) continue;
        char *texts = hf__arena_alloc(&page->arena, info_size(&client->core, &view));
        if (!texts) break;
        struct hf_lock_info *info = &locks[page->page.count++];
        fill(info, &texts, &client->core, inspection, &view, now_us);
        const struct hf_value *sort = hf__item_get(answer->items[items[i]], layout->sort_name);
        if (sort && sort->type == HF_S) info->sort_key = hf__arena_str(&page->arena, sort->bytes);
    }
    page->page.locks = locks;
    if (answer->last_key.count > 0)
        page->page.cursor = cursor_of(&page->arena, layout, answer->last_key);
    return page->arena.failed ? hf__error_no_memory(reterr) : 0;
}

/* What was found, and who keeps it. */
static int inspect_page(struct hf_client *client, struct page *page, const struct hf_layout *layout,
                        const struct hf_answer *answer, const struct hf_list_options *options,
                        struct hf_error *reterr)
{
    struct hf_inspection inspection;
    size_t *items = hf__arena_zalloc(&page->arena, answer->count + 1, sizeof *items);
    if (!items) return hf__error_no_memory(reterr);
    hf__inspection_init(&inspection, &client->core.options, &page->arena);
    hf__inspection_time(&inspection, answer);
    meet_items(&inspection, layout, answer, hf__slice_str(options->prefix), items);
    int code = inspect(client, &inspection, reterr);
    if (code != 0) return code;
    pthread_mutex_lock(&client->mutex);
    code = fill_page(client, page, layout, &inspection, answer, items, options->held_only, reterr);
    pthread_mutex_unlock(&client->mutex);
    return code;
}

int hf_list(struct hf_client *client, const struct hf_list_options *given,
            struct hf_list_page **ret, struct hf_error *reterr)
{
    HF_OPTIONS(struct hf_list_options, options, given);
    if (!ret) return hf__error_set(reterr, HF_ERR_INVALID, "nowhere to put the page");
    if (options.limit < 0 || options.limit > PAGE_MAX)
        return hf__error_set(reterr, HF_ERR_INVALID, "a limit of %d: between 1 and %d",
                             options.limit, PAGE_MAX);
    if (options.prefix && options.name)
        return hf__error_set(reterr, HF_ERR_INVALID, "list a prefix or a name, not both");
    int code = check_call(client, options.name, reterr);
    if (code != 0) return code;
    const struct hf_core_options *core = &client->core.options;
    struct hf_layout layout = core->layout;
    if (options.name || options.any_sort_key) layout.sort_value = HF_LIT("");
    struct page *page = hf__calloc(1, sizeof *page);
    if (!page) {
        hf__client_let_go(client);
        return hf__error_no_memory(reterr);
    }
    struct hf_call call = {
        .arena = &page->arena,
        .op =
            {
                .kind = HF_SCAN,
                .table = core->layout.table,
                .consistent = true,
                .has_limit = true,
                .limit = options.limit ? options.limit : PAGE,
            },
    };
    struct hf_key_condition where = {.count = 1};
    if (options.name) {
        struct hf_item key =
            hf__keyed_key(&core->layout, &page->arena, hf__slice_str(options.name));
        const struct hf_value *value = hf__item_get(key, layout.key_name);
        where.tests[0] = (struct hf_key_test){.name = layout.key_name, .op = HF_EQ};
        if (value) where.tests[0].low = *value;
        call.op.kind = HF_QUERY;
        call.op.where = &where;
    }
    if (options.cursor)
        code = start_at(&page->arena, &layout, options.cursor, &call.op.start_key, reterr);
    if (code == 0) code = hf__client_run(client, &call, reterr);
    if (code == 0) code = inspect_page(client, page, &layout, &call.answer, &options, reterr);
    if (code == 0) *ret = &page->page;
    else hf_list_page_free(&page->page);
    hf__client_let_go(client);
    return code;
}

void hf_list_page_free(struct hf_list_page *at)
{
    if (!at) return;
    struct page *page = HF_CONTAINER(at, struct page, page);
    hf__arena_free(&page->arena);
    hf__free(page);
}

/* ---- force ---- */

int hf_force_release(struct hf_client *client, const char *name, const char *reason,
                     int64_t timeout_ms, struct hf_error *reterr)
{
    struct hf_slice why = hf__slice_str(reason);
    if (!name) return hf__error_set(reterr, HF_ERR_INVALID, "no lock name");
    if (why.len == 0 || why.len > HF_REASON_MAX || !hf__utf8_valid(why))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "a forced release needs a reason of 1 to %d bytes, for whoever asks",
                             HF_REASON_MAX);
    int code = check_call(client, name, reterr);
    if (code != 0) return code;
    pthread_mutex_lock(&client->mutex);
    struct hf_waiter waiter;
    struct hf_job job = {.user = &waiter};
    code = hf__waiter_init(client, &waiter, NULL, reterr);
    if (code == 0) {
        hf__core_force(&client->core, hf__slice_str(name), client->core.options.owner, why,
                       timeout_ms <= 0                ? FORCE_MS
                       : timeout_ms > HF_LEASE_MAX_MS ? HF_LEASE_MAX_MS
                                                      : timeout_ms,
                       &job, hf__client_now_us(client));
        hf__client_leave(client);
        pthread_mutex_lock(&client->mutex);
        hf__waiter_wait(client, &waiter);
        code = job.code;
        if (code != 0 && reterr) *reterr = job.error;
        client->refs--; /* the waiter's */
    }
    hf__client_unref_unlock(client);
    return code;
}
