/*
 * Attempts of this client on one lock: their order, and when they need not ask the store.
 *
 * Invariants
 * Q1  Of the attempts on one name only the first is on its way; the others are QUEUED.
 * Q2  An attempt that does not want to wait is refused at once if this client holds the lock or
 *     another attempt waits for it.
 * Q3  A client that holds the lock asks the store nothing about it, unless other actors serve its
 *     grants (by_grant): then every attempt asks the store.
 */
#include "lock/attempt.h"

enum { FIRST_POLL_MS = 25 };

/* A try that is queued after a waiting attempt would have to wait. */
void hf__name_refuse_tries(struct hf_core *core, struct hf_name *name, int64_t now_us)
{
    if (name->busy) return;
    name->busy = true;
    for (struct hf_list *at = name->attempts.next, *next; at != &name->attempts; at = next) {
        next = at->next;
        struct hf_attempt *attempt = HF_CONTAINER(at, struct hf_attempt, of_name);
        if (attempt->state == HF_ATTEMPT_QUEUED && hf__attempt_is_try(attempt))
            hf__attempt_fail_held(core, attempt, HF_ERR_HELD, now_us);
    }
    name->busy = false;
}

/* Re-enters a lock that this client holds. */
static void enter_again(struct hf_core *core, struct hf_attempt *attempt, struct hf_grant *held,
                        int64_t now_us)
{
    held->entries++;
    hf__free(attempt->grant);
    attempt->grant = held;
    attempt->use_session = true; /* its own lease, if any, is not needed */
    hf__attempt_finish(core, attempt, 0, now_us);
}

static bool may_enter(const struct hf_attempt *attempt, const struct hf_grant *held, int64_t now_us)
{
    return held && attempt->want.reentrant && attempt->want.limit == 0 &&
           hf__grant_left_us(held, now_us) > 0;
}

/* Serves attempts queued for a lock held here: re-entrant ones enter, tries are refused. */
static void serve_queue(struct hf_core *core, struct hf_name *name, struct hf_grant *held,
                        int64_t now_us)
{
    for (struct hf_list *at = name->attempts.next, *next; at != &name->attempts; at = next) {
        next = at->next;
        struct hf_attempt *attempt = HF_CONTAINER(at, struct hf_attempt, of_name);
        if (attempt->state != HF_ATTEMPT_QUEUED) continue;
        if (may_enter(attempt, held, now_us)) {
            enter_again(core, attempt, held, now_us);
        } else if (hf__attempt_is_try(attempt)) {
            hf__attempt_fail_held(core, attempt, HF_ERR_HELD, now_us);
        }
    }
}

/* The grant because of which attempts here need not ask the store (Q3). */
static struct hf_grant *held_here(const struct hf_core *core, const struct hf_name *name)
{
    return core->options.by_grant ? NULL : hf__name_exclusive(name);
}

/* The store has confirmed a grant here, less than one first poll interval ago. */
static bool is_just_granted(const struct hf_name *name, int64_t now_us)
{
    const struct hf_grant *held = hf__name_exclusive(name);
    return held && held->state == HF_GRANT_HELD && hf__grant_left_us(held, now_us) > 0 &&
           now_us - held->lease->confirmed_us < FIRST_POLL_MS * 1000;
}

void hf__name_advance(struct hf_core *core, struct hf_name *name, int64_t now_us)
{
    if (name->busy) return; /* serve_queue goes on */
    struct hf_grant *held = held_here(core, name);
    struct hf_attempt *first = hf__list_empty(&name->attempts)
                                   ? NULL
                                   : HF_CONTAINER(name->attempts.next, struct hf_attempt, of_name);
    if (!first) return;
    if (held || first->state == HF_ATTEMPT_WAITING) {
        name->refs++;
        name->busy = true;
        serve_queue(core, name, held, now_us);
        name->busy = false;
        bool gone = hf__list_empty(&name->attempts);
        if (!gone) first = HF_CONTAINER(name->attempts.next, struct hf_attempt, of_name);
        hf__name_unref(core, name);
        if (gone) return;
    }
    if (core->closing || held) return;
    if (now_us >= first->deadline_us) return; /* its alarm is due */
    if (first->state == HF_ATTEMPT_WAITING) {
        first->read_next = false; /* released here: no need to read first */
        first->poll_ms = FIRST_POLL_MS;
    } else if (first->state != HF_ATTEMPT_QUEUED) {
        first->look_again = true; /* the record it is reading may be older */
        return;
    } else if (!hf__attempt_is_try(first) && is_just_granted(name, now_us)) {
        hf__attempt_wait(core, first, now_us); /* the store has just said who holds it */
        return;
    }
    hf__attempt_go(core, first, now_us);
}

/*
 * A release has been sent: the next attempt sends its try right after it, so that both get into the
 * same commit. It is a try like any other: if it arrives first after all, it is refused, and the
 * attempt waits as it would have.
 */
void hf__name_follow(struct hf_core *core, struct hf_name *name, int64_t now_us)
{
    if (!core->options.ordered || !core->options.by_grant || core->closing || name->busy ||
        hf__list_empty(&name->attempts))
        return;
    struct hf_attempt *first = HF_CONTAINER(name->attempts.next, struct hf_attempt, of_name);
    bool waits = first->state == HF_ATTEMPT_WAITING || first->state == HF_ATTEMPT_QUEUED;
    if (!waits || hf__attempt_is_try(first) || now_us >= first->deadline_us) return;
    first->read_next = false;
    first->poll_ms = FIRST_POLL_MS;
    hf__attempt_go(core, first, now_us);
}

size_t hf__core_queue(const struct hf_core *core, struct hf_slice name)
{
    size_t count = 0;
    const struct hf_name *found = hf__name_find(core, name);
    if (!found) return 0;
    for (const struct hf_list *at = found->attempts.next; at != &found->attempts; at = at->next)
        count++;
    return count;
}

struct hf_attempt *hf__core_next_in_line(const struct hf_core *core, struct hf_slice name,
                                         const struct hf_attempt *at)
{
    const struct hf_name *found = at ? at->name : hf__name_find(core, name);
    if (!found) return NULL;
    struct hf_list *next = at ? at->of_name.next : found->attempts.next;
    return next == &found->attempts ? NULL : HF_CONTAINER(next, struct hf_attempt, of_name);
}

void hf__attempt_waiting(const struct hf_core *core, const struct hf_attempt *attempt,
                         struct hf_waiting *ret)
{
    *ret = (struct hf_waiting){
        .owner = hf__grant_owner(core, attempt->grant),
        .instance = hf__grant_instance(attempt->grant),
        .began_us = attempt->began_us,
        .intent = attempt->has_intent ? &attempt->intent : NULL,
    };
}

/* A re-entrant acquire, or one of a lock held here, is decided without asking the store. */
static void begin(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    struct hf_grant *held = held_here(core, attempt->name);
    const struct hf_attempt *first =
        HF_CONTAINER(attempt->name->attempts.next, struct hf_attempt, of_name);
    bool is_first = attempt == first;
    if (may_enter(attempt, held, now_us)) {
        enter_again(core, attempt, held, now_us);
    } else if (hf__attempt_is_try(attempt) && (held || first->state == HF_ATTEMPT_WAITING)) {
        hf__attempt_fail_held(core, attempt, HF_ERR_HELD, now_us);
    } else if (is_first) {
        /* It is probably held, and a read costs a fifth of a refused write. */
        if (core->options.by_grant && hf__name_exclusive(attempt->name)) attempt->read_next = true;
        hf__name_advance(core, attempt->name, now_us);
    } else {
        hf__turn_queue(core, attempt); /* others see that it waits */
    }
    hf__attempt_report(core, attempt);
}

static bool copy_want(struct hf_attempt *attempt, const struct hf_want *want)
{
    attempt->want = *want;
    attempt->want.name = hf__name_text(attempt->name);
    attempt->want.data = hf__arena_copy(&attempt->wants, want->data);
    attempt->want.extra = hf__item_copy(&attempt->wants, want->extra);
    attempt->want.owner = hf__arena_copy(&attempt->wants, want->owner);
    attempt->want.instance = hf__arena_copy(&attempt->wants, want->instance);
    return !attempt->wants.failed;
}

static bool keeps_own_lease(const struct hf_core *core, const struct hf_want *want)
{
    if (want->session) return false;
    if (want->limit > 0) return !core->options.format->sessions;
    if (want->lease_ms > 0 || core->options.session == HF_USE_SESSION_NEVER) return true;
    if (core->options.session == HF_USE_SESSION_ALWAYS) return false;
    return core->own_count < core->options.own_leases;
}

int hf__core_acquire(struct hf_core *core, const struct hf_want *want, int64_t now_us,
                     struct hf_attempt **ret, struct hf_error *reterr)
{
    hf__core_tick(core, now_us);
    if (core->closing) return hf__error_set(reterr, HF_ERR_CLOSED, "the client is being closed");
    struct hf_attempt *attempt = hf__calloc(1, sizeof *attempt);
    if (!attempt) return hf__error_no_memory(reterr);
    hf__list_init(&attempt->of_core);
    hf__list_init(&attempt->of_name);
    hf__list_init(&attempt->report);
    hf__list_init(&attempt->of_waiting);
    attempt->name = hf__name_get(core, want->name);
    attempt->grant = hf__grant_new(want->owner.len + 1 + want->instance.len);
    bool own = keeps_own_lease(core, want);
    if (own) attempt->own = hf__lease_new(core, false);
    if (!attempt->name || !attempt->grant || (own && !attempt->own) ||
        !hf__alarm_init(core, &attempt->alarm, hf__attempt_ring) || !copy_want(attempt, want)) {
        attempt->want.session = NULL;
        hf__attempt_destroy(core, attempt);
        return hf__error_no_memory(reterr);
    }
    if (own) {
        core->own_count++;
        if (want->lease_ms > 0) attempt->own->lease_ms = attempt->own->wanted_ms = want->lease_ms;
    }
    if (want->session) {
        want->session->refs++;
        want->session->wanting++;
    }
    attempt->use_session = !own;
    attempt->poll_ms = FIRST_POLL_MS;
    attempt->began_us = now_us;
    core->reporting_count += want->reports ? 1 : 0;
    attempt->deadline_us = want->timeout_ms == 0 || want->timeout_ms == HF_NEVER
                               ? HF_NEVER
                               : now_us + want->timeout_ms * 1000;
    struct hf_grant *grant = attempt->grant;
    grant->name = attempt->name;
    grant->limit = (int32_t)want->limit;
    grant->user = want->user;
    grant->owner_len = (uint16_t)want->owner.len;
    if (want->owner.len) memcpy(grant->owner, want->owner.ptr, want->owner.len);
    grant->instance_len = (uint16_t)want->instance.len;
    if (want->instance.len)
        memcpy(grant->owner + want->owner.len + 1, want->instance.ptr, want->instance.len);
    grant->warn_ms = want->warn_ms > 0 ? want->warn_ms : core->options.warn_ms;
    if (want->warn_ms == 0 && want->lease_ms > 0 && core->options.warn_ms > 0)
        grant->warn_ms = want->lease_ms * 2 / 3;
    hf__list_append(&attempt->name->attempts, &attempt->of_name);
    *ret = attempt; /* before it can finish */
    hf__alarm_set(core, &attempt->alarm, attempt->deadline_us);
    begin(core, attempt, now_us);
    return 0;
}
