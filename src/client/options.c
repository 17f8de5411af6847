#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/text.h"
#include "client/client.h"

enum {
    LEASE_MS = 20000,
    LEAST_LEASE_MS = 100,
    REQUEST_TIMEOUT_MS = 3000,
    POLL_LIMIT_MS = 1000,
    SKEW_MS = 1000,
    MARGIN_PER_MILLE = 10,
    OWN_LEASES = 4,
    KEEP_S = 86400,
    LEAST_KEEP_S = 3600,
    MOST_KEEP_S = 10 * 366 * 86400,
    MOST_REQUEST_TIMEOUT_MS = 600000,
};

bool hf__options_copy(void *ret, size_t ret_size, const void *given)
{
    memset(ret, 0, ret_size);
    if (!given) return true;
    size_t size;
    memcpy(&size, given, sizeof size);
    memcpy(ret, given, size < ret_size ? size : ret_size);
    return size >= sizeof size;
}

/* For people: whom to ask about a lock that is not released. */
static struct hf_slice default_owner(struct hf_arena *arena)
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !host[0]) memcpy(host, "localhost", 10);
    const char *user = getenv("USER");
    if (!user || !*user) user = getenv("LOGNAME");
    struct passwd entry, *found = NULL;
    char texts[1024];
    if ((!user || !*user) && getpwuid_r(getuid(), &entry, texts, sizeof texts, &found) == 0 &&
        found)
        user = found->pw_name;
    if (user && *user) return hf__arena_printf(arena, "%s@%s:%d", user, host, (int)getpid());
    return hf__arena_printf(arena, "uid%d@%s:%d", (int)getuid(), host, (int)getpid());
}

static uint64_t random_u64(void *user)
{
    (void)user;
    return hf__random_u64();
}

static int64_t or_default(int64_t given, int64_t standard)
{
    return given == 0 ? standard : given;
}

#define REFUSE_IF(condition, ...)                                                                  \
    if (condition) return hf__error_set(reterr, HF_ERR_INVALID, __VA_ARGS__)

static int check_times(struct hf_core_options *o, struct hf_error *reterr)
{
    long long lease = (long long)o->lease_ms, period = (long long)o->period_ms;
    REFUSE_IF(period < 0, "a heartbeat every %lld ms is invalid", period);
    REFUSE_IF(period > lease / 2,
              "a heartbeat every %lld ms is too slow for a lease of %lld ms; it must be at most "
              "half of it",
              period, lease);
    REFUSE_IF(o->warn_ms != 0 && (o->warn_ms <= period || o->warn_ms >= lease),
              "a warning after %lld ms must lie between the heartbeat (%lld ms) and the lease "
              "(%lld ms)",
              (long long)o->warn_ms, period, lease);
    REFUSE_IF(o->request_timeout_ms < 1 || o->request_timeout_ms >= lease ||
                  o->request_timeout_ms > MOST_REQUEST_TIMEOUT_MS,
              "invalid request timeout of %lld ms: must be positive, shorter than the lease (%lld "
              "ms) and at most ten minutes",
              (long long)o->request_timeout_ms, lease);
    REFUSE_IF(o->poll_limit_ms < 1 || o->poll_limit_ms > 3600000,
              "invalid poll limit of %lld ms: must be between 1 ms and an hour",
              (long long)o->poll_limit_ms);
    REFUSE_IF(o->skew_ms < 0 || o->skew_ms > 3600000,
              "invalid skew of %lld ms: must be between 0 and an hour", (long long)o->skew_ms);
    REFUSE_IF(o->margin_per_mille < 1 || o->margin_per_mille > 500,
              "a drift of %d per mille: it must be between 1 and 500", o->margin_per_mille);
    return 0;
}

static int check_sessions(struct hf_core_options *o, struct hf_error *reterr)
{
    bool has_sessions = o->format->can & HF_CAN_SESSION;
    if (o->session == HF_USE_SESSION_ALWAYS && !has_sessions)
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the format \"%s\" has no sessions",
                             o->format->name);
    REFUSE_IF(o->session == HF_USE_SESSION_ALWAYS && o->period_ms == 0,
              "a session needs heartbeats; leave heartbeats on, or do not force sessions");
    if (!has_sessions || o->period_ms == 0) o->session = HF_USE_SESSION_NEVER;
    return 0;
}

static struct hf_slice text_or(struct hf_arena *arena, const char *given, const char *standard)
{
    return hf__arena_copy(arena, hf__slice_str(given ? given : standard ? standard : ""));
}

/* The choices that a format leaves open. */
static int layout_of(const struct hf_client_options *given, const struct hf_format *format,
                     struct hf_arena *arena, struct hf_layout *ret, struct hf_error *reterr)
{
    static const char types[] = "SNB";
    char type = given->key_type ? given->key_type : 'S';
    const char *at = strchr(types, type);
    REFUSE_IF(!at, "a key is of type S, N or B, not '%c'", type);
    ret->key_type = (enum hf_type)(at - types); /* HF_S, HF_N, HF_B */
    ret->prefix = text_or(arena, given->prefix, format->default_prefix);
    ret->sort_name = text_or(arena, given->sort_key_name, format->default_sort);
    ret->sort_value = text_or(arena, given->sort_key, format->default_sort_value);
    ret->fencing = given->fencing;
    ret->keep_on_release = given->keep_on_release;
    ret->trust_clock = given->trust_clock;
    const char *missing = NULL;
    if (given->expiry == HF_EXPIRY_OBSERVED && !(format->can & HF_CAN_OBSERVE))
        missing = "expiry by observation";
    if (given->expiry == HF_EXPIRY_CLOCK && !(format->can & HF_CAN_EXPIRE))
        missing = "expiry by the clock";
    bool native = format->can & HF_CAN_SESSION;
    if (missing) (void)0;
    else if (type != 'S' && !(format->can & HF_CAN_KEY_TYPES)) missing = "keys other than strings";
    else if (given->sort_key_name && !(format->can & HF_CAN_SORT)) missing = "sort keys";
    else if (given->prefix && native) missing = "prefixes";
    else if (given->hold_on_unavailable && !(format->can & HF_CAN_HOLD_ON))
        missing = "locks that outlive an outage of the store";
    else if (given->fencing && !(format->can & HF_CAN_TOKEN)) missing = "fencing tokens";
    if (missing)
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the format \"%s\" has no %s",
                             format->name, missing);
    REFUSE_IF(ret->sort_name.len > 0 && ret->sort_value.len == 0,
              "a sort key needs a value: set sort_key");
    REFUSE_IF(ret->prefix.len > 512 || ret->sort_value.len > 1024 || ret->sort_name.len > 255,
              "a prefix has at most 512 bytes, a sort key 1024, a name 255");
    return 0;
}

int hf__client_options(const struct hf_client_options *given, struct hf_arena *arena,
                       struct hf_core_options *ret, struct hf_error *reterr)
{
    const char *format_name = given->format ? given->format : "holdfast";
    const struct hf_format *format = hf__format_find(hf__slice_str(format_name));
    REFUSE_IF(!format, "unknown table format \"%s\"; see docs/FORMATS.md", format_name);
    REFUSE_IF((unsigned)given->expiry > HF_EXPIRY_CLOCK, "invalid expiry mode %d",
              (int)given->expiry);
    REFUSE_IF((unsigned)given->session > HF_SESSION_OFF, "invalid session mode %d",
              (int)given->session);
    int64_t lease_ms = or_default(given->lease_ms, LEASE_MS);
    REFUSE_IF(lease_ms < LEAST_LEASE_MS || lease_ms > HF_LEASE_MAX_MS,
              "invalid lease of %lld ms: must be between %d ms and a year", (long long)lease_ms,
              LEAST_LEASE_MS);
    int64_t timeout_ms = lease_ms / 5 < REQUEST_TIMEOUT_MS ? lease_ms / 5 : REQUEST_TIMEOUT_MS;
    struct hf_slice owner = hf__slice_str(given->owner);
    if (!given->owner) owner = default_owner(arena);
    if (arena->failed) return hf__error_no_memory(reterr);
    REFUSE_IF(owner.len == 0 || owner.len > HF_OWNER_MAX || !hf__utf8_valid(owner),
              "an owner is UTF-8 text of 1 to %d bytes", HF_OWNER_MAX);
    const char *key_name = given->key_name ? given->key_name : format->default_key;
    REFUSE_IF(*key_name == '\0' || strlen(key_name) > 255, "a key name has 1 to 255 bytes");
    int64_t keep_s = or_default(given->keep_s, KEEP_S);
    REFUSE_IF(keep_s < LEAST_KEEP_S,
              "released records must be kept for at least an hour: requests in flight may still "
              "refer to them");
    REFUSE_IF(keep_s > MOST_KEEP_S, "released records cannot be kept for more than ten years");
    bool has_lease = format->can & HF_CAN_RENEW;
    int64_t skew_ms = format->skew_ms ? format->skew_ms : SKEW_MS;
    struct hf_core_options o = {
        .format = format,
        .layout.key_name = hf__arena_copy(arena, hf__slice_str(key_name)),
        .layout.keep_s = keep_s,
        .owner = hf__arena_copy(arena, owner),
        .lease_ms = lease_ms,
        .period_ms =
            given->heartbeat_ms == HF_NONE ? 0 : or_default(given->heartbeat_ms, lease_ms / 4),
        .warn_ms = given->warn_ms == HF_NONE ? 0 : or_default(given->warn_ms, lease_ms * 2 / 3),
        .request_timeout_ms = or_default(given->request_timeout_ms, timeout_ms),
        .poll_limit_ms = or_default(given->poll_limit_ms, POLL_LIMIT_MS),
        .skew_ms = given->skew_ms == HF_NONE ? 0 : or_default(given->skew_ms, skew_ms),
        .margin_per_mille = given->drift_per_mille ? given->drift_per_mille : MARGIN_PER_MILLE,
        .judge = (enum hf_expiry_mode)given->expiry,
        .session = (enum hf_session_use)given->session,
        .hold_on_unavailable = given->hold_on_unavailable,
        .own_leases = given->own_leases > 0 ? (size_t)given->own_leases : OWN_LEASES,
        .draw = random_u64,
        .log = {given->log, given->log_user, given->log_level},
    };
    if (!has_lease) { /* held until it is released, or an operator intervenes */
        o.lease_ms = HF_LEASE_MAX_MS;
        o.period_ms = o.warn_ms = 0;
    }
    int code = layout_of(given, format, arena, &o.layout, reterr);
    if (code == 0) code = check_times(&o, reterr);
    if (code == 0) code = check_sessions(&o, reterr);
    if (code == 0 && arena->failed) code = hf__error_no_memory(reterr);
    if (code == 0) *ret = o;
    return code;
}
