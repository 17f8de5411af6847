/*
 * Hints of the store: something may have changed. Whoever waits looks soon, and polls less often
 * meanwhile. Nothing but time rests on it: a hint may be late, for nothing, or missing.
 *
 * Invariants
 * H1  A hint reaches everybody who waits, in turns if they are many; also those whose own request is
 *     out, since that may have seen what was before: they look once more (hf__attempt_wait).
 * H2  All looks that hints provoke are at least a gap apart, for one attempt and for all together:
 *     most hints are about somebody else's lock.
 * H3  Who finds a change that no hint announced polls as if there were none, for a while: somebody
 *     writes to the store who gives none.
 */
#include "base/hash.h"
#include "lock/attempt.h"

enum {
    AT_A_TIME = 64,
    TURN_US = 1000, /* between them */
    SPREAD_US = 1000,
    FIRST_GAP_US = 2000,
    LONGEST_GAP_US = 20000,
    FEW = 4, /* who need not make room for each other */
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

/* It looks at a moment of its own, so that not all of them write at once. */
void hf__attempt_hint(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    if (attempt->failures > 0) return; /* the store is not well: not before its time */
    int64_t crowd_us =
        core->waiting_count > FEW ? (int64_t)core->waiting_count * GAP_PER_WAITER_US : 0;
    if (now_us - attempt->looked_us > QUIET_US + crowd_us) attempt->hint_gap_us = 0;
    int64_t gap_us = attempt->hint_gap_us > crowd_us ? attempt->hint_gap_us : crowd_us;
    int64_t at_us = attempt->looked_us + gap_us;
    if (at_us < now_us) at_us = now_us;
    at_us += hf__random_below(core, SPREAD_US);
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
        if (!node) break; /* as many as are counted are there */
        hf__list_append(&core->waiting, node);
        core->hints_left--;
        hf__attempt_hint(core, HF_CONTAINER(node, struct hf_attempt, of_waiting), now_us);
    }
    hf__alarm_set(core, alarm, core->hints_left > 0 ? now_us + TURN_US : HF_NEVER);
}

void hf__core_hint(struct hf_core *core, int64_t now_us)
{
    hf__core_tick(core, now_us);
    core->hints_heard++;
    bool is_under_way = core->hints_left > 0;
    core->hints_left = core->waiting_count;
    if (!is_under_way) hf__hints_pass_on(core, &core->hint_alarm, now_us);
}

bool hf__core_heeds_hint(struct hf_core *core)
{
    if (core->waiting_count > 0) return true;
    core->hints_heard++; /* for those whose request is out */
    return false;
}

bool hf__hints_are_trusted(const struct hf_core *core, int64_t now_us)
{
    return core->options.hints && now_us >= core->doubt_until_us;
}

/* H3: the record as it was looked at. */
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
