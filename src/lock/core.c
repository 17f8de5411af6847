#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"
#include "lock/inside.h"

enum { FIRST_BUCKETS = 64, CLOSE_WINDOW = 128 };

const char *const hf__request_names[HF_REQUEST_KINDS] = {
    [HF_REQUEST_READ] = "read",      [HF_REQUEST_TRY] = "try",
    [HF_REQUEST_TAKE] = "take over", [HF_REQUEST_RESOLVE] = "resolve",
    [HF_REQUEST_JUDGE] = "judge",    [HF_REQUEST_REAP] = "reap",
    [HF_REQUEST_INTENT] = "intent",  [HF_REQUEST_SESSION] = "create session",
    [HF_REQUEST_RENEW] = "renew",    [HF_REQUEST_ERRAND] = "errand",
    [HF_REQUEST_ADOPT] = "adopt",    [HF_REQUEST_FORCE] = "force",
};

/* ---- answers ---- */

enum hf_answer_class hf__classify(const struct hf_answer *answer)
{
    switch (answer->code) {
    case 0: return HF_ANSWER_OK;
    case HF_ERR_CONDITION: return HF_ANSWER_REFUSED;
    case HF_ERR_OUTCOME_UNKNOWN:
        /* With an item it is a refusal, which our own earlier send may have caused. */
        return answer->has_item ? HF_ANSWER_REFUSED : HF_ANSWER_UNSURE;
    case HF_ERR_UNREACHABLE:
    case HF_ERR_THROTTLED:
    case HF_ERR_STORE:
    case HF_ERR_BUSY:
    case HF_ERR_BAD_ANSWER:
    case HF_ERR_IO:
    case HF_ERR_CANCELLED:
    case HF_ERR_NO_MEMORY: return HF_ANSWER_FAILED;
    default: return HF_ANSWER_FATAL;
    }
}

/* ---- alarms ---- */

bool hf__alarm_init(struct hf_core *core, struct hf_alarm *alarm,
                    void (*ring)(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us))
{
    if (!hf__heap_reserve(&core->alarms, core->alarm_owners + 1)) return false;
    core->alarm_owners++;
    hf__heap_node_init(&alarm->node);
    alarm->ring = ring;
    return true;
}

void hf__alarm_done(struct hf_core *core, struct hf_alarm *alarm)
{
    if (!alarm->ring) return;
    hf__heap_remove(&core->alarms, &alarm->node);
    core->alarm_owners--;
    alarm->ring = NULL;
}

void hf__alarm_set(struct hf_core *core, struct hf_alarm *alarm, int64_t at_us)
{
    if (at_us == HF_NEVER) hf__heap_remove(&core->alarms, &alarm->node);
    else hf__heap_set(&core->alarms, &alarm->node, at_us); /* its place is reserved */
}

int64_t hf__core_next_us(const struct hf_core *core)
{
    const struct hf_heap_node *first = hf__heap_first(&core->alarms);
    return first ? first->at : HF_NEVER;
}

void hf__core_tick(struct hf_core *core, int64_t now_us)
{
    struct hf_heap_node *first;
    core->now_us = now_us;
    while ((first = hf__heap_first(&core->alarms)) && first->at <= now_us) {
        struct hf_alarm *alarm = HF_CONTAINER(first, struct hf_alarm, node);
        hf__heap_remove(&core->alarms, first);
        alarm->ring(core, alarm, now_us);
    }
}

/* ---- requests ---- */

struct hf_request *hf__request_new(struct hf_core *core, enum hf_request_kind kind,
                                   struct hf_slice about, hf_request_fn done, void *owner)
{
    struct hf_request *request = hf__calloc(1, sizeof *request);
    if (!request) return NULL;
    hf__list_init(&request->node);
    request->kind = kind;
    request->done = done;
    request->owner = owner;
    request->about = hf__arena_copy(&request->arena, about);
    core->outstanding++;
    return request;
}

void hf__request_send(struct hf_core *core, struct hf_request *request)
{
    request->op.attempts = 1; /* the protocol decides when to retry */
    request->op.timeout_ms = (int)core->options.request_timeout_ms;
    hf__list_append(&core->requests, &request->node);
}

struct hf_request *hf__core_next_request(struct hf_core *core)
{
    struct hf_list *node = hf__list_pop(&core->requests);
    return node ? HF_CONTAINER(node, struct hf_request, node) : NULL;
}

void hf__core_learn_time(struct hf_core *core, const struct hf_answer *answer)
{
    if (!answer->store.known) {
        if (hf__classify(answer) <= HF_ANSWER_REFUSED && !core->store_time.known)
            core->timeless = true;
        return;
    }
    core->timeless = false;
    if (!hf__store_time_report(&core->store_time, answer->store.lo_unix_us,
                               answer->store.hi_unix_us, answer->received_boot_us,
                               answer->received_boot_us)) {
        hf__log(&core->options.log, HF_LOG_WARN,
                "the store's time contradicts its earlier answers; measuring it again");
    }
}

void hf__core_answer(struct hf_core *core, struct hf_request *request,
                     const struct hf_answer *answer, int64_t now_us)
{
    hf__core_tick(core, now_us); /* C1 */
    hf__core_learn_time(core, answer);
    if (answer->principal.len)
        core->has_principal = hf__id_parse(answer->principal, &core->principal);
    core->outstanding--;
    request->done(core, request, answer, now_us);
    hf__arena_free(&request->arena);
    hf__free(request);
}

/* ---- time and randomness ---- */

struct hf_interval hf__core_store_time(const struct hf_core *core, int64_t now_us)
{
    return hf__store_time_at(&core->store_time, now_us);
}

int64_t hf__valid_until_us(const struct hf_core *core, int64_t sent_us, int64_t lease_ms)
{
    int64_t margin_us = lease_ms * core->options.margin_per_mille;
    if (HF_BUG(NO_MARGIN)) margin_us = 0;
    return sent_us + lease_ms * 1000 - margin_us;
}

int64_t hf__expires_unix_ms(const struct hf_core *core, int64_t now_us, int64_t lease_ms)
{
    struct hf_interval store = hf__core_store_time(core, now_us);
    if (!store.known || !(core->options.format->can & HF_CAN_EXPIRE)) return 0;
    if (HF_BUG(WRITE_LOW)) return store.lo_unix_us / 1000 + lease_ms;
    return (store.hi_unix_us + 999) / 1000 + lease_ms;
}

int64_t hf__ttl_unix_s(const struct hf_core *core, int64_t now_us, int64_t after_ms)
{
    struct hf_interval store = hf__core_store_time(core, now_us);
    if (!store.known) return 0;
    return store.hi_unix_us / 1000000 + 1 + (after_ms + 999) / 1000 + core->options.layout.keep_s;
}

void hf__new_id(struct hf_core *core, struct hf_id *ret)
{
    uint64_t words[2] = {core->options.draw(core->options.draw_user),
                         core->options.draw(core->options.draw_user)};
    memcpy(ret->bytes, words, sizeof ret->bytes);
}

/* call, or random · random · mark */
enum { ID = sizeof(struct hf_id), CALL = 5, MARK = 3 };

void hf__new_grant_id(struct hf_core *core, const struct hf_want *want, struct hf_id *ret)
{
    hf__new_id(core, ret);
    if (!core->options.by_grant) return;
    if (!core->has_mark) hf__new_id(core, &core->mark);
    core->has_mark = true;
    if (want && want->has_call) memcpy(ret->bytes, want->call.bytes, CALL);
    memcpy(ret->bytes + ID - MARK, core->mark.bytes + ID - MARK, MARK);
}

bool hf__grant_is_marked(const struct hf_core *core, struct hf_slice grant)
{
    struct hf_id id;
    return core->has_mark && hf__id_parse(grant, &id) &&
           memcmp(id.bytes + ID - MARK, core->mark.bytes + ID - MARK, MARK) == 0;
}

bool hf__grant_is_of_call(const struct hf_want *want, struct hf_slice grant)
{
    struct hf_id id;
    return want->has_call && hf__id_parse(grant, &id) &&
           memcmp(id.bytes, want->call.bytes, CALL) == 0;
}

int64_t hf__random_below(struct hf_core *core, int64_t below)
{
    if (below <= 1) return 0;
    return (int64_t)(core->options.draw(core->options.draw_user) % (uint64_t)below);
}

int64_t hf__backoff_us(struct hf_core *core, int failures, int64_t most_us)
{
    int64_t cap_us = (int64_t)25000 << (failures < 10 ? failures : 10);
    if (cap_us > most_us) cap_us = most_us;
    return cap_us / 4 + hf__random_below(core, cap_us * 3 / 4 + 1);
}

int64_t hf__yield_us(struct hf_core *core, int overtaken)
{
    enum { SHORTEST_US = 5000, DOUBLINGS = 6 };
    if (overtaken == 0) return 0;
    return hf__random_below(core, SHORTEST_US << (overtaken < DOUBLINGS ? overtaken : DOUBLINGS));
}

/* ---- names ---- */

static size_t hash(struct hf_slice text)
{
    uint64_t value = hf__hash_more(HF_HASH_START, text);
    return (size_t)(value ^ value >> 32);
}

static void grow_names(struct hf_core *core)
{
    size_t buckets = core->name_buckets * 2;
    struct hf_name **names = hf__calloc(buckets, sizeof(struct hf_name *));
    if (!names) return; /* then the chains get longer, no more */
    for (size_t i = 0; i < core->name_buckets; i++) {
        while (core->names[i]) {
            struct hf_name *name = core->names[i];
            core->names[i] = name->next;
            size_t at = hash(hf__name_text(name)) & (buckets - 1);
            name->next = names[at];
            names[at] = name;
        }
    }
    hf__free(core->names);
    core->names = names;
    core->name_buckets = buckets;
}

struct hf_name *hf__name_find(const struct hf_core *core, struct hf_slice text)
{
    struct hf_name *name = core->names[hash(text) & (core->name_buckets - 1)];
    while (name && !hf__slice_eq(hf__name_text(name), text)) name = name->next;
    return name;
}

struct hf_name *hf__name_get(struct hf_core *core, struct hf_slice text)
{
    struct hf_name *name = hf__name_find(core, text);
    if (name) {
        name->refs++;
        return name;
    }
    name = hf__malloc(sizeof *name + text.len + 1);
    if (!name) return NULL;
    if (core->name_count >= core->name_buckets) grow_names(core);
    struct hf_name **bucket = &core->names[hash(text) & (core->name_buckets - 1)];
    *name = (struct hf_name){.next = *bucket, .refs = 1, .len = (uint32_t)text.len};
    memcpy(name->text, text.ptr, text.len);
    name->text[text.len] = '\0';
    hf__list_init(&name->grants);
    hf__list_init(&name->attempts);
    *bucket = name;
    core->name_count++;
    return name;
}

void hf__name_unref(struct hf_core *core, struct hf_name *name)
{
    if (!name || --name->refs > 0) return;
    struct hf_name **at = &core->names[hash(hf__name_text(name)) & (core->name_buckets - 1)];
    while (*at != name) at = &(*at)->next;
    *at = name->next;
    core->name_count--;
    hf__free(name);
}

struct hf_grant *hf__name_exclusive(const struct hf_name *name)
{
    for (struct hf_list *at = name->grants.next; at != &name->grants; at = at->next) {
        struct hf_grant *grant = HF_CONTAINER(at, struct hf_grant, of_name);
        if (grant->limit == 0) return grant;
    }
    return NULL;
}

bool hf__name_cares_for(const struct hf_name *name, struct hf_slice grant)
{
    for (struct hf_list *at = name->grants.next; at != &name->grants; at = at->next) {
        if (hf__id_is(&HF_CONTAINER(at, struct hf_grant, of_name)->id, grant)) return true;
    }
    for (struct hf_list *at = name->attempts.next; at != &name->attempts; at = at->next) {
        const struct hf_attempt *attempt = HF_CONTAINER(at, struct hf_attempt, of_name);
        for (int i = 0; i < attempt->try_count; i++) {
            if (hf__id_is(&attempt->tries[i].grant, grant)) return true;
        }
        if (attempt->has_intent && hf__id_is(&attempt->intent, grant)) return true;
    }
    return false;
}

/* ---- jobs ---- */

void hf__job_done(struct hf_core *core, struct hf_job *job, int code, const char *format, ...)
{
    job->code = code;
    if (code != 0) {
        char text[sizeof job->error.message];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        hf__error_set(&job->error, code, "%s", text);
    }
    if (job->then) job->then(core, job);
    else hf__list_append(&core->jobs, &job->node);
}

struct hf_job *hf__core_next_job(struct hf_core *core)
{
    struct hf_list *node = hf__list_pop(&core->jobs);
    return node ? HF_CONTAINER(node, struct hf_job, node) : NULL;
}

/* ---- closing ---- */

static struct hf_grant *next_held(struct hf_core *core)
{
    for (struct hf_list *at = core->leases.next; at != &core->leases; at = at->next) {
        struct hf_lease *lease = HF_CONTAINER(at, struct hf_lease, node);
        /* Grants that are being released are at the end of their list. */
        if (hf__list_empty(&lease->grants)) continue;
        struct hf_grant *grant = HF_CONTAINER(lease->grants.next, struct hf_grant, of_lease);
        if (grant->state == HF_GRANT_HELD) return grant;
    }
    return NULL;
}

static void finish_closing(struct hf_core *core)
{
    core->closed = true;
    hf__alarm_set(core, &core->closing_alarm, HF_NEVER);
}

/* Releases a window of grants at a time, then ends the sessions. */
static void close_some(struct hf_core *core, int64_t now_us)
{
    if (now_us >= core->close_by_us) {
        hf__errands_fail(core, now_us);
        for (struct hf_list *at = core->leases.next, *next; at != &core->leases; at = next) {
            next = at->next;
            struct hf_lease *lease = HF_CONTAINER(at, struct hf_lease, node);
            lease->refs++;
            while (!hf__list_empty(&lease->grants)) {
                hf__grant_end(core, HF_CONTAINER(lease->grants.next, struct hf_grant, of_lease),
                              HF_REASON_UNCONFIRMED, HF_ERR_TIMED_OUT,
                              "the client was closed before the store confirmed", now_us);
            }
            next = at->next;
            hf__lease_unref(core, lease);
        }
        while (!hf__list_empty(&core->opened))
            hf__lease_end(core, HF_CONTAINER(core->opened.next, struct hf_lease, of_opened),
                          HF_REASON_CLOSED, 0, NULL, now_us);
        finish_closing(core);
        return;
    }
    struct hf_grant *grant;
    const struct hf_release how = {.reason = HF_REASON_CLOSED};
    while (core->releasing < CLOSE_WINDOW && (grant = next_held(core))) {
        grant->entries = 1;
        core->releasing++;
        hf__core_release(core, grant, &how, now_us);
    }
    if (core->grant_count == 0 && !core->ending_session) {
        core->ending_session = true;
        struct hf_lease *session = core->session;
        if (session) {
            hf__session_drop(core, &session->id, now_us);
            hf__lease_end(core, session, HF_REASON_CLOSED, 0, NULL, now_us);
        }
        while (!hf__list_empty(&core->opened)) {
            session = HF_CONTAINER(core->opened.next, struct hf_lease, of_opened);
            hf__session_drop(core, &session->id, now_us);
            hf__lease_end(core, session, HF_REASON_CLOSED, 0, NULL, now_us);
        }
    }
    /* Waits for requests that attempts left in flight: the grants they bring are given back. */
    if (core->grant_count == 0 && hf__list_empty(&core->errands) && core->outstanding == 0) {
        finish_closing(core);
        return;
    }
    int64_t again_us = now_us + 5000;
    hf__alarm_set(core, &core->closing_alarm,
                  again_us < core->close_by_us ? again_us : core->close_by_us);
}

static void go_on_closing(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us)
{
    (void)alarm;
    if (core->closed || core->in_closing) return;
    core->in_closing = true;
    close_some(core, now_us);
    core->in_closing = false;
}

void hf__core_refuse(struct hf_core *core, const struct hf_error *error, int64_t now_us)
{
    for (size_t i = 0; i < core->name_buckets; i++) {
        for (struct hf_name *name = core->names[i], *next; name; name = next) {
            next = name->next;
            name->refs++;
            while (!hf__list_empty(&name->attempts)) {
                /* From the end, so that no attempt moves up to the front and starts. */
                hf__attempt_fail(core,
                                 HF_CONTAINER(name->attempts.prev, struct hf_attempt, of_name),
                                 error, now_us);
            }
            next = name->next;
            hf__name_unref(core, name);
        }
    }
}

void hf__core_close(struct hf_core *core, int64_t limit_ms, int64_t now_us)
{
    hf__core_tick(core, now_us);
    if (core->closing) return;
    core->closing = true;
    core->close_by_us = now_us + limit_ms * 1000;
    struct hf_error error;
    hf__error_set(&error, HF_ERR_CLOSED, "the client was closed");
    hf__core_refuse(core, &error, now_us);
    hf__forces_fail(core, now_us);
    hf__adoptions_fail(core, now_us);
    go_on_closing(core, &core->closing_alarm, now_us);
}

bool hf__core_is_closing(const struct hf_core *core)
{
    return core->closing;
}

bool hf__core_is_closed(const struct hf_core *core)
{
    return core->closed;
}

size_t hf__core_unconfirmed(const struct hf_core *core)
{
    return core->unconfirmed;
}

/* ---- beginning and end ---- */

struct hf_core *hf__core_new(const struct hf_core_options *options)
{
    struct hf_core *core = hf__malloc(sizeof *core);
    if (!core) return NULL;
    *core = (struct hf_core){.options = *options, .name_buckets = FIRST_BUCKETS};
    hf__list_init(&core->requests);
    hf__list_init(&core->finished);
    hf__list_init(&core->reports);
    hf__list_init(&core->waiting);
    hf__list_init(&core->events);
    hf__list_init(&core->jobs);
    hf__list_init(&core->leases);
    hf__list_init(&core->errands);
    hf__list_init(&core->spares);
    hf__list_init(&core->forces);
    hf__list_init(&core->adoptions);
    hf__list_init(&core->session_waiters);
    hf__list_init(&core->opened);
    core->names = hf__calloc(core->name_buckets, sizeof(struct hf_name *));
    if (!core->names || !hf__observations_init(core) ||
        !hf__alarm_init(core, &core->closing_alarm, go_on_closing) ||
        !hf__alarm_init(core, &core->hint_alarm, hf__hints_pass_on) || !hf__errands_init(core)) {
        hf__core_free(core);
        return NULL;
    }
    return core;
}

const struct hf_core_options *hf__core_options(const struct hf_core *core)
{
    return &core->options;
}

void hf__core_set_by_grant(struct hf_core *core, bool ordered)
{
    core->options.by_grant = true;
    core->options.ordered = ordered;
}

void hf__core_set_hints(struct hf_core *core, bool hints)
{
    core->options.hints = hints;
}

void hf__core_forget_line(struct hf_core *core)
{
    core->options.line = (struct hf_line){0};
}

void hf__core_free(struct hf_core *core)
{
    if (!core) return;
    hf__errands_free(core);
    if (core->session) hf__lease_unref(core, core->session);
    core->session = NULL;
    while (!hf__list_empty(&core->opened)) {
        struct hf_list *node = hf__list_pop(&core->opened);
        hf__lease_unref(core, HF_CONTAINER(node, struct hf_lease, of_opened));
    }
    hf__alarm_done(core, &core->closing_alarm);
    hf__alarm_done(core, &core->hint_alarm);
    hf__observations_free(core);
    hf__free(core->names);
    hf__heap_free(&core->alarms);
    hf__free(core);
}
