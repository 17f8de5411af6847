/*
 * Turns: which of the processes that wait for a lock goes first, where the store has a line
 * (struct hf_line). Within a process, the queue decides (queue.c); its first attempt stands in the
 * line, as one that waits since it was asked for.
 *
 * Invariants
 * T1  Only time depends on the line. An attempt that is not first lets the others go ahead for
 *     PATIENCE_US, and then goes by itself: those ahead may be stopped, or wait for another lock.
 * T2  An attempt that arrives while others wait joins the line before it tries: a program that
 *     releases a lock and wants it again does not overtake waiters.
 * T3  Attempts that do not wait take what is free.
 * T4  The queue of a process leaves places for its other locks: few of those that are not on their
 *     way have one, so that others can count them.
 */
#include "lock/attempt.h"

enum { MOST = 256, MOST_QUEUED = 64, PATIENCE_US = 60000, SPREAD_US = 40000 };

static bool takes_turns(const struct hf_core *core, const struct hf_attempt *attempt)
{
    return core->options.line.join && !hf__attempt_is_try(attempt);
}

void hf__turn_queue(struct hf_core *core, struct hf_attempt *attempt)
{
    const struct hf_line *line = &core->options.line;
    size_t most = attempt->state == HF_ATTEMPT_QUEUED ? MOST_QUEUED : MOST;
    if (!takes_turns(core, attempt) || attempt->place || core->places >= most) return;
    attempt->place = line->join(line->user, hf__name_text(attempt->name), attempt->began_us);
    core->places += attempt->place ? 1 : 0;
}

void hf__turn_leave(struct hf_core *core, struct hf_attempt *attempt)
{
    const struct hf_line *line = &core->options.line;
    if (attempt->place == 0) return;
    if (line->leave) line->leave(line->user, attempt->place);
    attempt->place = 0;
    core->places--;
}

bool hf__turn_is_ours(const struct hf_core *core, const struct hf_attempt *attempt)
{
    const struct hf_line *line = &core->options.line;
    return !takes_turns(core, attempt) ||
           line->is_first(line->user, hf__name_text(attempt->name), attempt->place);
}

int64_t hf__turn_patience_us(struct hf_core *core, int64_t now_us)
{
    return now_us + PATIENCE_US + hf__random_below(core, SPREAD_US);
}

bool hf__turn_yields(struct hf_core *core, struct hf_attempt *attempt, int64_t now_us)
{
    if (hf__turn_is_ours(core, attempt)) return false;
    hf__turn_queue(core, attempt); /* T2 */
    if (!attempt->yields_until_us) {
        int64_t until_us = hf__turn_patience_us(core, now_us);
        int64_t half_us = now_us + (attempt->deadline_us - now_us) / 2; /* it must try, too */
        attempt->yields_until_us = until_us < half_us ? until_us : half_us;
    }
    bool is_over = now_us >= attempt->yields_until_us;
    if (attempt->place == 0 || is_over || hf__turn_is_ours(core, attempt)) { /* T1 */
        attempt->yields_until_us = 0;
        return false;
    }
    attempt->read_next = true;
    core->wants_hints = true;
    hf__attempt_sleep(core, attempt, attempt->yields_until_us);
    return true;
}
