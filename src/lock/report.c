/*
 * The state of a wait, for the waiting caller: who holds the lock, how many attempts of this client
 * come first, and since when the store has not answered.
 *
 * The protocol does not depend on it. An attempt is listed when its report may have changed; a
 * report equal to the last one is not repeated.
 */
#include "base/hash.h"
#include "lock/attempt.h"

void hf__attempt_report(struct hf_core *core, struct hf_attempt *attempt)
{
    if (!attempt->want.reports || attempt->over || !hf__list_empty(&attempt->report)) return;
    hf__list_append(&core->reports, &attempt->report);
}

void hf__name_report(struct hf_core *core, const struct hf_name *name)
{
    if (core->reporting_count == 0) return;
    for (const struct hf_list *at = name->attempts.next; at != &name->attempts; at = at->next)
        hf__attempt_report(core, HF_CONTAINER(at, struct hf_attempt, of_name));
}

static void put_record(const struct hf_record *record, struct hf_report *ret)
{
    ret->owner = record->owner;
    ret->instance = record->instance;
    ret->holders = record->readers > 0        ? record->readers
                   : record->member_count > 0 ? (int64_t)record->member_count
                                              : 1;
    ret->since_unix_ms = record->since_unix_ms;
    ret->expires_unix_ms = record->liveness.expires_unix_ms;
}

static void put_ours(const struct hf_core *core, const struct hf_grant *ours, struct hf_report *ret)
{
    ret->owner = hf__grant_owner(core, ours);
    ret->instance = hf__grant_instance(ours);
    ret->holders = 1;
    ret->since_unix_ms = ours->since_unix_ms;
    ret->expires_unix_ms = ours->lease ? ours->lease->expires_unix_ms : 0;
}

/* From a grant of ours, or from the record as the first in line has seen it. */
static void put_holder(const struct hf_core *core, const struct hf_name *name,
                       struct hf_report *ret)
{
    const struct hf_grant *ours = hf__name_exclusive(name);
    const struct hf_attempt *first = HF_CONTAINER(name->attempts.next, struct hf_attempt, of_name);
    if (ours && ours->lease) put_ours(core, ours, ret);
    else if (first->looked && hf__record_is_held(&first->record)) put_record(&first->record, ret);
}

void hf__attempt_note_blocker(const struct hf_core *core, struct hf_attempt *attempt)
{
    struct hf_report *by = &attempt->blocked_by;
    const struct hf_grant *ours = attempt->looked ? NULL : hf__name_exclusive(attempt->name);
    *by = (struct hf_report){0};
    if (ours) put_ours(core, ours, by);
    else if (attempt->looked && hf__record_is_held(&attempt->record))
        put_record(&attempt->record, by);
    else if (!attempt->looked && !hf__list_empty(&attempt->name->attempts))
        put_holder(core, attempt->name, by);
    by->owner = hf__arena_copy(&attempt->wants, by->owner);
    by->instance = hf__arena_copy(&attempt->wants, by->instance);
}

static void fill(const struct hf_core *core, const struct hf_attempt *attempt, int64_t now_us,
                 struct hf_report *ret)
{
    const struct hf_name *name = attempt->name;
    *ret = (struct hf_report){
        .name = hf__name_text(name), .answered = attempt->heard, .failures = attempt->failures};
    put_holder(core, name, ret);
    for (const struct hf_list *at = name->attempts.next; at != &attempt->of_name; at = at->next)
        ret->ahead++;
    if (attempt->failures == 0) return;
    ret->silent_us = now_us > attempt->silent_us ? now_us - attempt->silent_us : 1;
    ret->error = &attempt->error;
}

/* Without the length of the silence, which the caller can count. */
static uint64_t digest(const struct hf_report *report)
{
    const int64_t numbers[] = {report->holders, report->since_unix_ms, report->expires_unix_ms,
                               report->ahead, report->failures};
    uint64_t hash = hf__hash_more(HF_HASH_START, report->owner);
    hash = hf__hash_more(hash, report->instance);
    return hf__hash_more(hash, hf__slice((const char *)numbers, sizeof numbers)) | 1;
}

struct hf_attempt *hf__core_next_report(struct hf_core *core, int64_t now_us, struct hf_report *ret)
{
    for (struct hf_list *node; (node = hf__list_pop(&core->reports)) != NULL;) {
        struct hf_attempt *attempt = HF_CONTAINER(node, struct hf_attempt, report);
        fill(core, attempt, now_us, ret);
        if (digest(ret) == attempt->reported) continue;
        attempt->reported = digest(ret);
        return attempt;
    }
    return NULL;
}
