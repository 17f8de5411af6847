/*
 * Hints of the store: something may have changed. Waiters then poll soon, and may therefore poll
 * less often otherwise. Only latency depends on hints: one may be late, spurious or missing.
 *
 * Invariants
 * H1  A hint reaches all waiters, in turns if there are many. It also reaches those whose request
 *     is out, since that may have seen the state before: they poll again (hf__attempt_wait).
 * H2  Polls that hints cause are at least a gap apart, for one attempt and for all together:
 *     most hints concern another lock.
 * H3  An attempt that finds a change without a hint polls for a while as if there were no hints:
 *     a client writes to the store without giving any.
 * H4  A hint may say which lock is being given up. The first waiter for it then tries without
 *     looking first. It is a try like any other: if the lock is held, it is refused.
 */
#include "base/hash.h"
#include "lock/attempt.h"

enum {
    AT_A_TIME = 64,
    TURN_US = 1000, /* between them */
    SPREAD_US = 1000,
    FIRST_GAP_US = 2000,
    LONGEST_GAP_US = 20000,
    FEW = 4, /* waiters that need not space their polls out */
    GAP_PER_WAITER_US = 1000,
    QUIET_US = 200000,
    DOUBT_US = 60 * 1000000,
};

void hf__attempt_set_waiting(struct hf_core *core, struct hf_attempt *attempt, bool waits)
{
    core->waiting_count -= hf__list_empty(&attempt->of_waiting) ? 0 : 1;
    hf__list_remove(&attempt->of_waiting);
    if (!waits) return;
    hf__list_append(&core->waiting, &attempt->of_waiting);
    core->waiting_count++;
}

/* Each waiter polls at a random moment, or in its turn, so that they do not all write at once. */
void hf__attempt_hint(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    if (attempt->failures > 0) return; /* the store is failing: keep to the backoff */
    int64_t crowd_us =
        core->waiting_count > FEW ? (int64_t)core->waiting_count * GAP_PER_WAITER_US : 0;
    if (now_us - attempt->looked_us > QUIET_US + crowd_us) attempt->hint_gap_us = 0;
    int64_t gap_us = attempt->hint_gap_us > crowd_us ? attempt->hint_gap_us : crowd_us;
    int64_t at_us = attempt->looked_us + gap_us;
    if (at_us < now_us) at_us = now_us;
    if (attempt->place == 0) at_us += hf__random_below(core, SPREAD_US);
    else if (!hf__turn_is_ours(core, attempt)) at_us = hf__turn_patience_us(core, now_us);
    if (at_us >= attempt->wake_us) return;
    attempt->hint_gap_us = attempt->hint_gap_us ? 2 * attempt->hint_gap_us : FIRST_GAP_US;
    if (attempt->hint_gap_us > LONGEST_GAP_US) attempt->hint_gap_us = LONGEST_GAP_US;
    attempt->wake_us = at_us;
    hf__alarm_set(core, &attempt->alarm,
                  at_us < attempt->deadline_us ? at_us : attempt->deadline_us);
}

/* H1. */
void hf__hints_pass_on(struct hf_core *core, struct hf_alarm *alarm, int64_t now_us)
{
    if (core->hints_left > core->waiting_count) core->hints_left = core->waiting_count;
    for (size_t i = 0; i < AT_A_TIME && core->hints_left > 0; i++) {
        struct hf_list *node = hf__list_pop(&core->waiting);
        if (!node) break; /* waiting_count says that it exists */
        hf__list_append(&core->waiting, node);
        core->hints_left--;
        hf__attempt_hint(core, HF_CONTAINER(node, struct hf_attempt, of_waiting), now_us);
    }
    hf__alarm_set(core, alarm, core->hints_left > 0 ? now_us + TURN_US : HF_NEVER);
}

uint64_t hf__name_hash(struct hf_slice name)
{
    return hf__hash_more(HF_HASH_START, name) | 1;
}

/* H4. Among a crowd it is not searched for: they look in their turns. */
static void try_freed(struct hf_core *core, uint64_t freed, int64_t now_us)
{
    if (core->waiting_count > AT_A_TIME) return;
    for (struct hf_list *at = core->waiting.next; at != &core->waiting; at = at->next) {
        struct hf_attempt *attempt = HF_CONTAINER(at, struct hf_attempt, of_waiting);
        if (hf__name_hash(hf__name_text(attempt->name)) != freed) continue;
        if (attempt->failures == 0 && hf__turn_is_ours(core, attempt)) {
            attempt->read_next = false;
            hf__attempt_go(core, attempt, now_us);
        }
        return; /* the only one of this name that waits (Q1); the list has changed */
    }
}

void hf__core_hint(struct hf_core *core, uint64_t freed, int64_t now_us)
{
    hf__core_tick(core, now_us);
    core->hints_heard++;
    if (freed) {
        try_freed(core, freed, now_us);
        return;
    }
    bool is_under_way = core->hints_left > 0;
    core->hints_left = core->waiting_count;
    if (!is_under_way) hf__hints_pass_on(core, &core->hint_alarm, now_us);
    hf__core_tick(core, now_us); /* who polls at once need not wait for another wake-up */
}

void hf__core_hint_name(struct hf_core *core, struct hf_slice text, int64_t now_us)
{
    hf__core_tick(core, now_us);
    const struct hf_name *name = hf__name_find(core, text);
    if (!name || hf__list_empty(&name->attempts)) return;
    struct hf_attempt *first = HF_CONTAINER(name->attempts.next, struct hf_attempt, of_name);
    if (first->state == HF_ATTEMPT_WAITING) hf__attempt_hint(core, first, now_us);
    else first->look_again = true; /* the record it is reading may be older */
}

bool hf__core_heeds_hint(struct hf_core *core)
{
    if (core->waiting_count > 0) return true;
    core->hints_heard++; /* for attempts whose request is out */
    return false;
}

bool hf__core_wants_hints(const struct hf_core *core)
{
    return core->wants_hints;
}

bool hf__hints_are_trusted(const struct hf_core *core, int64_t now_us)
{
    return core->options.hints && now_us >= core->doubt_until_us;
}

/* H3: compares the record with the last one seen. */
void hf__attempt_noticed(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    const struct hf_record *record = &attempt->record;
    uint64_t seen = hf__hash_more(HF_HASH_START, record->liveness.version);
    seen = hf__hash_more(seen, record->holder.grant) | 1;
    bool changed = attempt->seen && attempt->seen != seen;
    if (changed && attempt->seen_hints == core->hints_heard)
        core->doubt_until_us = now_us + DOUBT_US;
    attempt->seen = seen;
    attempt->seen_hints = core->hints_heard;
}
