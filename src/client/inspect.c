/* Looking at locks without taking them, and taking them away. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "client/client.h"
#include "format/keyed.h"
#include "item/key_condition.h"

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

static size_t texts_size(const struct hf_core_options *core, struct hf_slice name,
                         const struct hf_record *record)
{
    size_t size = name.len + record->owner.len + record->data.len + record->forced_by.len +
                  record->forced_reason.len + 5;
    for (size_t i = 0; i < record->item.count; i++) {
        const struct hf_attr *attr = &record->item.attrs[i];
        if (is_extra(core, attr))
            size += sizeof(struct hf_attribute) + attr->name.len + attr->value.bytes.len + 2;
    }
    return size;
}

/* `at` is aligned for anything. */
static void put_attributes(struct hf_lock_info *info, char **at, const struct hf_core_options *core,
                           const struct hf_record *record)
{
    struct hf_attribute *attributes = (struct hf_attribute *)*at;
    for (size_t i = 0; i < record->item.count; i++)
        info->attribute_count += is_extra(core, &record->item.attrs[i]);
    *at += info->attribute_count * sizeof *attributes;
    for (size_t i = 0, count = 0; count < info->attribute_count; i++) {
        const struct hf_attr *attr = &record->item.attrs[i];
        if (!is_extra(core, attr)) continue;
        const char *text = put_text(at, attr->value.bytes);
        attributes[count++] = (struct hf_attribute){put_text(at, attr->name), text ? text : ""};
    }
    info->attributes = info->attribute_count ? attributes : NULL;
}

static void fill(struct hf_lock_info *info, char **at, const struct hf_core_options *core,
                 struct hf_slice name, const struct hf_record *record,
                 const struct hf_liveness *liveness)
{
    *info = (struct hf_lock_info){
        .held = hf__record_is_held(record),
        .shared = record->member_count > 0 || record->readers > 0,
        .damaged = record->damaged,
        .damage = record->damage,
        .waiters = record->has_intent ? 1 : 0,
        .token = record->token,
        .holders = record->readers     ? record->readers
                   : record->exclusive ? 1
                                       : (int64_t)record->member_count,
        .limit = record->limit == HF_READERS_LIMIT ? 0 : record->limit,
        .since_unix_ms = record->since_unix_ms,
        .lease_ms = liveness ? liveness->lease_ms : 0,
        .expires_unix_ms = liveness ? liveness->expires_unix_ms : 0,
        .data_size = record->has_data ? record->data.len : 0,
    };
    if (record->member_count == 0) info->limit = 0;
    put_attributes(info, at, core, record);
    info->name = put_text(at, name);
    info->owner = put_text(at, record->owner);
    info->forced_by = put_text(at, record->forced_by);
    info->forced_reason = put_text(at, record->forced_reason);
    if (record->has_data) {
        info->data = *at;
        if (record->data.len) memcpy(*at, record->data.ptr, record->data.len);
        *at += record->data.len;
    }
}

struct hf_lock_info *hf__info_new(const struct hf_core_options *core, struct hf_slice name,
                                  const struct hf_record *record,
                                  const struct hf_liveness *liveness)
{
    struct hf_lock_info *info = hf__malloc(sizeof *info + texts_size(core, name, record));
    if (!info) return NULL;
    char *at = (char *)(info + 1);
    fill(info, &at, core, name, record, liveness);
    return info;
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

/* When a session's lock expires stands in the session. */
static int read_session(struct hf_client *client, struct hf_arena *arena, struct hf_slice session,
                        struct hf_session_record *ret, struct hf_error *reterr)
{
    const struct hf_core_options *core = &client->core.options;
    struct hf_call call = {.arena = arena};
    core->format->sessions->read(&core->layout, arena, session, &call.op);
    int code = hf__client_run(client, &call, reterr);
    if (code == 0)
        core->format->sessions->parse(&core->layout, arena, call.answer.has_item, call.answer.item,
                                      ret);
    return code;
}

/* Shared holders live as long as the last of their sessions does; not known of many of them. */
static int read_members(struct hf_client *client, struct hf_arena *arena,
                        const struct hf_record *record, struct hf_liveness *ret,
                        struct hf_error *reterr)
{
    enum { MOST = 32 };
    *ret = (struct hf_liveness){0};
    if (record->member_count > MOST) return 0;
    ret->expires_unix_ms = 1; /* long ago */
    for (size_t i = 0; i < record->member_count; i++) {
        struct hf_session_record session = {0};
        struct hf_slice id = record->members[i].session;
        int code = id.len ? read_session(client, arena, id, &session, reterr) : 0;
        if (code != 0) return code;
        const struct hf_liveness *alive = &session.liveness;
        if (id.len && !session.exists) continue;
        if (id.len == 0 || session.damaged || alive->expires_unix_ms == 0) {
            ret->expires_unix_ms = 0; /* cannot be judged */
            return 0;
        }
        if (alive->expires_unix_ms > ret->expires_unix_ms) *ret = *alive;
    }
    return 0;
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
    core->format->read(&core->layout, &arena, hf__slice_str(name), &call.op);
    code = hf__client_run(client, &call, reterr);
    if (code == 0 && !call.answer.has_item)
        code = hf__error_set(reterr, HF_ERR_ABSENT, "there is no lock \"%s\"", name);
    if (code == 0) {
        struct hf_record record;
        struct hf_session_record session = {0};
        core->format->parse(&core->layout, &arena, true, call.answer.item, &record);
        const struct hf_liveness *liveness = record.exclusive ? &record.liveness : NULL;
        if (record.exclusive && record.holder.session.len > 0) {
            code = read_session(client, &arena, record.holder.session, &session, reterr);
            liveness = session.exists && !session.damaged ? &session.liveness : NULL;
        }
        struct hf_liveness members;
        if (record.member_count > 0) {
            code = read_members(client, &arena, &record, &members, reterr);
            liveness = &members;
        }
        if (code == 0 && arena.failed) code = hf__error_no_memory(reterr);
        struct hf_lock_info *info =
            code == 0 ? hf__info_new(core, hf__slice_str(name), &record, liveness) : NULL;
        if (code == 0 && !info) code = hf__error_no_memory(reterr);
        if (code == 0) *ret = info;
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

static int fill_page(struct page *page, const struct hf_core_options *core,
                     const struct hf_layout *layout, const struct hf_answer *answer,
                     const struct hf_list_options *options, struct hf_error *reterr)
{
    struct hf_slice prefix = hf__slice_str(options->prefix);
    struct hf_lock_info *locks =
        hf__arena_zalloc(&page->arena, answer->count ? answer->count : 1, sizeof *locks);
    for (size_t i = 0; locks && i < answer->count; i++) {
        struct hf_slice name;
        if (!core->format->name_of(layout, &page->arena, answer->items[i], &name)) continue;
        if (!hf__slice_starts(name, prefix)) continue;
        struct hf_record record;
        core->format->parse(&core->layout, &page->arena, true, answer->items[i], &record);
        if (options->held_only && !hf__record_is_held(&record)) continue;
        bool own = record.exclusive && record.holder.session.len == 0;
        char *texts = hf__arena_alloc(&page->arena, texts_size(core, name, &record));
        if (!texts) break;
        struct hf_lock_info *info = &locks[page->page.count++];
        fill(info, &texts, core, name, &record, own ? &record.liveness : NULL);
        const struct hf_value *sort = hf__item_get(answer->items[i], layout->sort_name);
        if (sort && sort->type == HF_S) info->sort_key = hf__arena_str(&page->arena, sort->bytes);
    }
    page->page.locks = locks;
    if (answer->last_key.count > 0)
        page->page.cursor = cursor_of(&page->arena, layout, answer->last_key);
    return page->arena.failed ? hf__error_no_memory(reterr) : 0;
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
    if (code == 0) code = fill_page(page, core, &layout, &call.answer, &options, reterr);
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
