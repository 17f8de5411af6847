/* Inspecting locks without taking them, and force-releasing them. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "client/client.h"
#include "lock/inspection.h"

enum { FORCE_MS = 60000 };

/* ---- one lock ---- */

/* Text after the struct, terminated; NULL stays NULL. */
static const char *put_text(char **at, struct hf_slice text)
{
    if (text.len == 0) return NULL;
    char *copy = *at;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    *at += text.len + 1;
    return copy;
}

/* Text that the user stored beside the format's own attributes. */
static bool is_extra(const struct hf_core_options *core, const struct hf_attr *attr)
{
    return attr->value.type == HF_S &&
           !hf__format_refuses_extra(core->format, &core->layout, attr->name);
}

static size_t party_size(const struct hf_party *party)
{
    return sizeof(struct hf_lock_party) + party->owner.len + party->instance.len +
           party->session.len + 3;
}

size_t hf__info_size(const struct hf_core *core, const struct hf_view *view)
{
    const struct hf_record *record = view->record;
    size_t size = view->name.len + record->owner.len + record->instance.len + record->data.len +
                  record->forced_by.len + record->forced_reason.len + 6;
    for (size_t i = 0; i < record->item.count; i++) {
        const struct hf_attr *attr = &record->item.attrs[i];
        if (is_extra(hf__core_options(core), attr))
            size += sizeof(struct hf_attribute) + attr->name.len + attr->value.bytes.len + 2;
    }
    for (size_t i = 0; i < view->held_by_count; i++) size += party_size(&view->held_by[i]);
    for (size_t i = 0; i < view->waiting_count; i++) size += party_size(&view->waiting[i]);
    for (const struct hf_attempt *at = NULL;
         (at = hf__core_next_in_line(core, view->name, at)) != NULL;) {
        struct hf_waiting waiting;
        hf__attempt_waiting(core, at, &waiting);
        size += sizeof(struct hf_lock_party) + waiting.owner.len + waiting.instance.len + 3;
    }
    return size;
}

/* `at` is aligned for any type while only structs have been put there. */
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
        .instance = put_text(at, party->instance),
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
        if (!is_extra(hf__core_options(core), attr)) continue;
        const char *text = put_text(at, attr->value.bytes);
        ret[count++] = (struct hf_attribute){put_text(at, attr->name), text ? text : ""};
    }
}

static bool is_ours(const struct hf_core *core, const struct hf_view *view)
{
    for (const struct hf_attempt *at = NULL;
         (at = hf__core_next_in_line(core, view->name, at)) != NULL;) {
        struct hf_waiting waiting;
        hf__attempt_waiting(core, at, &waiting);
        if (waiting.intent && hf__id_is(waiting.intent, view->record->intent.grant)) return true;
    }
    return false;
}

/* The waiters: the one in the record, and those in this client. */
static size_t put_waiting(struct hf_lock_party *ret, char **at, const struct hf_core *core,
                          const struct hf_view *view, int64_t now_us)
{
    size_t count = 0;
    struct hf_interval now = hf__core_store_time(core, now_us);
    if (view->waiting_count > 0 && !is_ours(core, view))
        put_party(&ret[count++], at, &view->waiting[0]);
    for (const struct hf_attempt *one = NULL;
         (one = hf__core_next_in_line(core, view->name, one)) != NULL;) {
        struct hf_waiting waits;
        hf__attempt_waiting(core, one, &waits);
        struct hf_party party = {.owner = waits.owner, .instance = waits.instance};
        if (now.known) party.since_unix_ms = (now.lo_unix_us - (now_us - waits.began_us)) / 1000;
        put_party(&ret[count++], at, &party);
    }
    return count;
}

void hf__info_fill(struct hf_lock_info *info, char **at, const struct hf_core *core,
                   const struct hf_inspection *inspection, const struct hf_view *view,
                   int64_t now_us)
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
        info->attribute_count += is_extra(hf__core_options(core), &record->item.attrs[i]);
    size_t in_line = hf__core_queue(core, view->name) + view->waiting_count;
    struct hf_attribute *attributes = put_structs(at, info->attribute_count * sizeof *attributes);
    struct hf_lock_party *held_by = put_structs(at, view->held_by_count * sizeof *held_by);
    struct hf_lock_party *waiting = put_structs(at, in_line * sizeof *waiting);
    if (attributes) put_attributes(attributes, at, core, record);
    for (size_t i = 0; i < view->held_by_count; i++) put_party(&held_by[i], at, &view->held_by[i]);
    info->waiting_count = waiting ? put_waiting(waiting, at, core, view, now_us) : 0;
    const struct hf_line *line = &hf__core_options(core)->line;
    info->waiters = -1;
    if (line->count) info->waiters = (int64_t)in_line + line->count(line->user, view->name);
    info->attributes = attributes;
    info->held_by = held_by;
    info->waiting = info->waiting_count ? waiting : NULL;
    info->name = put_text(at, view->name);
    info->owner = put_text(at, record->owner);
    info->instance = put_text(at, record->instance);
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
    const struct hf_core *core = client->core;
    struct hf_lock_info *info = hf__malloc(sizeof *info + hf__info_size(core, &view));
    if (!info) return NULL;
    char *at = (char *)(info + 1);
    hf__info_fill(info, &at, core, inspection, &view, hf__client_now_us(client));
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
static int hold_for(struct hf_client *client, const char *name, struct hf_error *reterr)
{
    const char *refusal =
        name ? hf__core_options(client->core)->format->refuses_name(hf__slice_str(name)) : NULL;
    if (refusal) return hf__error_set(reterr, HF_ERR_INVALID, "lock \"%.64s\": %s", name, refusal);
    return hf__client_hold(client, reterr);
}

/* Reads all records that an inspection needs. */
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
    if (!name || !ret) return hf__error_set(reterr, HF_ERR_INVALID, "missing lock name");
    int code = hold_for(client, name, reterr);
    if (code != 0) return code;
    const struct hf_core_options *core = hf__core_options(client->core);
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

/* ---- force ---- */

int hf_force_release(struct hf_client *client, const char *name, const char *reason,
                     int64_t timeout_ms, struct hf_error *reterr)
{
    struct hf_slice why = hf__slice_str(reason);
    if (!name) return hf__error_set(reterr, HF_ERR_INVALID, "missing lock name");
    if (why.len == 0 || why.len > HF_REASON_MAX || !hf__utf8_valid(why))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "a force-release needs a reason of 1 to %d bytes", HF_REASON_MAX);
    int code = hold_for(client, name, reterr);
    if (code != 0) return code;
    pthread_mutex_lock(&client->mutex);
    struct hf_waiter waiter;
    struct hf_job job = {.user = &waiter};
    code = hf__waiter_init(client, &waiter, NULL, reterr);
    if (code == 0) {
        hf__core_force(client->core, hf__slice_str(name), hf__core_options(client->core)->owner,
                       why,
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
