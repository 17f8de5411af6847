/*
 * When other holders' signs of life were seen, and since when they are unchanged.
 *
 * Invariants
 * O1  Time counts from the return of the read that showed the sign of life, and
 *     starts again whenever the pair of id and version changes.
 * O2  Observations outlive attempts: for a caller that comes back, the clock has
 *     kept running.
 * O3  There are at most OBSERVATIONS; the least recently used one makes room.
 *     Forgetting one only makes a challenger wait longer.
 */
#include "lock/inside.h"

enum { OBSERVATIONS = 65536, BUCKETS = 1024, ID_MAX = 64, VERSION_MAX = 64 };

struct seen {
    struct hf_list order; /* least recently used first */
    struct seen *next;    /* in its bucket, or free */
    int64_t since_us;
    int64_t asked_us;
    int64_t lease_ms;
    uint8_t id_len;
    uint8_t version_len;
    char id[ID_MAX];
    char version[VERSION_MAX];
};

struct hf_observation {
    struct hf_list order;
    size_t count;
    struct seen *buckets[BUCKETS];
};

bool hf__observations_init(struct hf_core *core)
{
    core->observed = hf__calloc(1, sizeof *core->observed);
    if (core->observed) hf__list_init(&core->observed->order);
    return core->observed;
}

void hf__observations_free(struct hf_core *core)
{
    if (!core->observed) return;
    struct hf_list *node;
    while ((node = hf__list_pop(&core->observed->order)))
        hf__free(HF_CONTAINER(node, struct seen, order));
    hf__free(core->observed);
    core->observed = NULL;
}

static struct seen **bucket(struct hf_observation *all, const char *id, size_t len)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)id[i]) * 16777619u;
    return &all->buckets[h % BUCKETS];
}

static void unlink_seen(struct hf_observation *all, struct seen *seen)
{
    struct seen **at = bucket(all, seen->id, seen->id_len);
    while (*at != seen) at = &(*at)->next;
    *at = seen->next;
    hf__list_remove(&seen->order);
    all->count--;
}

/* The entry of an id, created if missing; NULL: out of memory, or the id is empty or too long. */
static struct seen *find(struct hf_core *core, struct hf_slice id, bool *ret_is_new)
{
    struct hf_observation *all = core->observed;
    *ret_is_new = false;
    if (id.len == 0 || id.len > ID_MAX) return NULL;
    struct seen **head = bucket(all, id.ptr, id.len);
    struct seen *seen = *head;
    while (seen && !hf__slice_eq(hf__slice(seen->id, seen->id_len), id)) seen = seen->next;
    if (!seen) {
        if (all->count >= OBSERVATIONS) { /* O3 */
            seen = HF_CONTAINER(all->order.next, struct seen, order);
            unlink_seen(all, seen);
        } else {
            seen = hf__malloc(sizeof *seen);
            if (!seen) return NULL;
        }
        *seen = (struct seen){.id_len = (uint8_t)id.len, .next = *head};
        memcpy(seen->id, id.ptr, id.len);
        hf__list_init(&seen->order);
        *head = seen;
        all->count++;
        *ret_is_new = true;
    }
    hf__list_remove(&seen->order);
    hf__list_append(&all->order, &seen->order);
    return seen;
}

static int64_t observed_dead_us(struct hf_core *core, const struct hf_liveness *liveness,
                                int64_t now_us)
{
    bool is_new;
    struct hf_slice id = HF_BUG(VERSION_ALONE) ? HF_LIT("any") : liveness->id;
    struct seen *seen = find(core, id, &is_new);
    if (!seen || liveness->version.len == 0 || liveness->version.len > VERSION_MAX) return HF_NEVER;
    struct hf_slice version = hf__slice(seen->version, seen->version_len);
    if (is_new || !hf__slice_eq(version, liveness->version)) {
        seen->since_us = now_us;
        seen->version_len = (uint8_t)liveness->version.len;
        memcpy(seen->version, liveness->version.ptr, liveness->version.len);
        seen->lease_ms = liveness->lease_ms;
    }
    if (liveness->lease_ms > seen->lease_ms) seen->lease_ms = liveness->lease_ms;
    int64_t wait_us = seen->lease_ms * 1000;
    if (HF_BUG(SHORT_OBSERVATION)) wait_us = wait_us * 9 / 10;
    return seen->since_us + wait_us;
}

/* When expires + skew will be below the low end of store time, which slows down as it ages. */
static int64_t expired_dead_us(struct hf_core *core, const struct hf_liveness *liveness,
                               int64_t now_us)
{
    struct hf_interval store = hf__core_store_time(core, now_us);
    if (!store.known || liveness->expires_unix_ms <= 0) return HF_NEVER;
    if (liveness->expires_unix_ms > INT64_MAX / 2000) return HF_NEVER;
    int64_t low_us = HF_BUG(COMPARE_HIGH) ? store.hi_unix_us : store.lo_unix_us;
    int64_t missing_us = (liveness->expires_unix_ms + core->options.skew_ms) * 1000 - low_us;
    if (missing_us < 0) return now_us;
    return now_us + missing_us + missing_us / 50 + 1000;
}

struct hf_verdict hf__judge(struct hf_core *core, const struct hf_liveness *liveness,
                            int64_t now_us)
{
    unsigned can = core->options.format->can;
    enum hf_expiry_mode mode = core->options.judge;
    if (!(can & HF_CAN_OBSERVE) || !(can & HF_CAN_EXPIRE)) mode = HF_JUDGE_BOTH; /* what it has */
    int64_t dead_us = HF_NEVER;
    if ((can & HF_CAN_EXPIRE) && mode != HF_JUDGE_OBSERVED)
        dead_us = expired_dead_us(core, liveness, now_us);
    /* By the clock alone, but only if it is known: otherwise a lock could stay held for ever. */
    bool has_clock = dead_us != HF_NEVER;
    if ((can & HF_CAN_OBSERVE) && !(has_clock && mode == HF_JUDGE_CLOCK)) {
        int64_t observed_us = observed_dead_us(core, liveness, now_us);
        if (observed_us < dead_us) dead_us = observed_us;
    }
    return (struct hf_verdict){.dead = dead_us <= now_us, .judge_at_us = dead_us};
}

bool hf__core_finds_dead(struct hf_core *core, const struct hf_liveness *liveness, int64_t now_us)
{
    return hf__judge(core, liveness, now_us).dead;
}

bool hf__worth_asking(struct hf_core *core, struct hf_slice grant, int64_t lease_ms, int64_t now_us)
{
    bool is_new;
    struct seen *seen = find(core, grant, &is_new);
    if (!seen) return false;
    if (is_new) {
        seen->since_us = seen->asked_us = now_us;
        return false;
    }
    if (now_us - seen->asked_us < lease_ms * 1000) return false;
    seen->asked_us = now_us;
    return true;
}
