#include "store/key_ring.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "store/providers.h"

enum {
    REFRESH_BEFORE_MS = 15 * 60 * 1000,
    SHORTEST_WAIT_MS = 250,
    AFTER_FAILURE_MS = 60 * 1000,
    ASK_AGAIN_MS = 1000,
    FOREVER_MS = 24 * 3600 * 1000,
};

struct hf_key_ring {
    struct hf_key_ring_options options; /* with texts of our own, in `memory` */
    struct hf_arena memory;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t wake;
    bool stopping;
    bool refreshing; /* under way, or asked for */
    bool failing;    /* the last try failed */
    int64_t tried_boot_us;
    struct hf_error error;
    struct hf_credentials *credentials;
    const struct hf_credentials
        *rejected;      /* by the server; not to be used while others are coming */
    const char *region; /* set once, in `memory` */
    const char *endpoint;
};

static int64_t wall_ms(const struct hf_key_ring *k)
{
    return hf__clock_wall_us(k->options.clock) / 1000;
}

/* Region and endpoint do not change while the process runs: found once. */
static int locate(struct hf_key_ring *k, struct hf_provider_context *c, struct hf_error *reterr)
{
    const struct hf_key_ring_options *o = &k->options;
    const char *region = hf__region_find(o->region, o->environment, &c->profiles);
    if (!region && hf__endpoint_is_set("dynamodb", o->endpoint, o->environment, &c->profiles))
        region = "us-east-1"; /* only signed, not looked up: any name serves */
    int code = region ? 0 : hf__imds_region(c, &region, reterr);
    if (code == 0) code = hf__region_check(region, reterr);
    if (code != 0) return code;
    const char *endpoint =
        hf__endpoint_find(c->arena, "dynamodb", region, o->endpoint, o->environment, &c->profiles);
    struct hf_http_url url;
    code = endpoint ? hf__http_url_parse(endpoint, &url, reterr) : hf__error_no_memory(reterr);
    if (code != 0) return code;
    const char *kept_region = hf__arena_str(&k->memory, hf__slice_str(region));
    const char *kept_endpoint = hf__arena_str(&k->memory, hf__slice_str(endpoint));
    if (!kept_region || !kept_endpoint) return hf__error_no_memory(reterr);
    pthread_mutex_lock(&k->mutex);
    k->region = kept_region;
    k->endpoint = kept_endpoint;
    pthread_mutex_unlock(&k->mutex);
    return 0;
}

static int resolve(struct hf_key_ring *k, struct hf_credentials **ret, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_provider_context context = {
        .arena = &arena,
        .environment = k->options.environment,
        .clock = k->options.clock,
        .stop = &k->stopping,
        .access_key_id = k->options.access_key_id,
        .secret = k->options.secret,
        .token = k->options.token,
    };
    int code = hf__profiles_load(&arena, k->options.environment, k->options.profile,
                                 &context.profiles, reterr);
    if (code == 0 && !k->endpoint) code = locate(k, &context, reterr);
    context.region = k->region;
    if (code == 0) code = hf__providers_resolve(&context, ret, reterr);
    hf__arena_free(&arena);
    return code;
}

/* How long the thread may sleep before it looks again. */
static int64_t pause_ms(const struct hf_key_ring *k)
{
    const struct hf_credentials *c = k->credentials;
    if (!c || !c->expires_unix_ms) return FOREVER_MS;
    int64_t left = c->expires_unix_ms - wall_ms(k);
    int64_t pause = left - REFRESH_BEFORE_MS;
    bool source_fails =
        k->failing || left <= 0; /* fresh ones that have ended are no better than none */
    if (pause <= 0) pause = source_fails ? AFTER_FAILURE_MS : left / 2;
    if (pause > left && left > 0) pause = left;
    return pause < SHORTEST_WAIT_MS ? SHORTEST_WAIT_MS : pause > FOREVER_MS ? FOREVER_MS : pause;
}

static void adopt(struct hf_key_ring *k, int code, struct hf_credentials *fresh,
                  const struct hf_error *error)
{
    struct hf_credentials *old = NULL;
    pthread_mutex_lock(&k->mutex);
    k->refreshing = false;
    k->failing = code != 0;
    k->tried_boot_us = hf__clock_boot_us(&hf__clock_system);
    k->error = *error;
    if (code == 0) {
        old = k->credentials;
        k->credentials = fresh;
        k->rejected = NULL;
    }
    bool keeps = code != 0 && k->credentials;
    pthread_mutex_unlock(&k->mutex);
    hf__credentials_unref(old);
    if (keeps)
        hf__log(&k->options.log, HF_LOG_WARN,
                "credentials could not be refreshed, using the old ones: %s", error->message);
}

static void sleep_until_needed(struct hf_key_ring *k)
{
    pthread_mutex_lock(&k->mutex);
    struct timespec until = hf__deadline_in(pause_ms(k));
    while (!k->stopping && !k->refreshing)
        if (pthread_cond_timedwait(&k->wake, &k->mutex, &until) != 0) break;
    k->refreshing = true;
    pthread_mutex_unlock(&k->mutex);
}

static bool is_stopping(struct hf_key_ring *k)
{
    pthread_mutex_lock(&k->mutex);
    bool stopping = k->stopping;
    pthread_mutex_unlock(&k->mutex);
    return stopping;
}

static void *run(void *arg)
{
    struct hf_key_ring *k = arg;
    while (!is_stopping(k)) {
        struct hf_credentials *fresh = NULL;
        struct hf_error error = {0};
        int code = resolve(k, &fresh, &error);
        adopt(k, code, fresh, &error);
        k->options.changed(k->options.user);
        sleep_until_needed(k);
    }
    return NULL;
}

static const char *keep(struct hf_key_ring *k, const char *text)
{
    return text ? hf__arena_str(&k->memory, hf__slice_str(text)) : NULL;
}

static void destroy(struct hf_key_ring *k)
{
    hf__credentials_unref(k->credentials);
    pthread_cond_destroy(&k->wake);
    pthread_mutex_destroy(&k->mutex);
    hf__arena_free(&k->memory);
    hf__free(k);
}

int hf__key_ring_start(const struct hf_key_ring_options *options, struct hf_key_ring **ret,
                       struct hf_error *reterr)
{
    struct hf_key_ring *k = hf__calloc(1, sizeof *k);
    if (!k) return hf__error_no_memory(reterr);
    pthread_mutex_init(&k->mutex, NULL);
    hf__cond_init(&k->wake);
    k->options = *options;
    k->options.profile = keep(k, options->profile);
    k->options.region = keep(k, options->region);
    k->options.endpoint = keep(k, options->endpoint);
    k->options.access_key_id = keep(k, options->access_key_id);
    k->options.secret = keep(k, options->secret);
    k->options.token = keep(k, options->token);
    k->refreshing = true;
    if (k->memory.failed || hf__thread_create(&k->thread, run, k) != 0) {
        destroy(k);
        return hf__error_no_memory(reterr);
    }
    *ret = k;
    return 0;
}

void hf__key_ring_stop(struct hf_key_ring *k)
{
    pthread_mutex_lock(&k->mutex);
    __atomic_store_n(&k->stopping, true, __ATOMIC_RELAXED); /* providers look without the mutex */
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->mutex);
    pthread_join(k->thread, NULL);
}

void hf__key_ring_free(struct hf_key_ring *k)
{
    destroy(k);
}

static void ask_locked(struct hf_key_ring *k)
{
    k->refreshing = true;
    pthread_cond_signal(&k->wake);
}

enum hf_keeper_state hf__key_ring_get(struct hf_key_ring *k, struct hf_identity *ret,
                                      struct hf_error *reterr)
{
    enum hf_keeper_state state = HF_KEEPER_WAIT;
    int64_t now_us = hf__clock_boot_us(&hf__clock_system);
    pthread_mutex_lock(&k->mutex);
    struct hf_credentials *c = k->credentials;
    /* While keys are valid, no request waits for newer ones: their source may be slow. */
    bool has_ended = c && c->expires_unix_ms && wall_ms(k) >= c->expires_unix_ms;
    bool replaced_soon = k->refreshing && !k->failing && (has_ended || c == k->rejected);
    if (c && !replaced_soon) {
        *ret = (struct hf_identity){hf__credentials_ref(c), k->region, k->endpoint};
        state = HF_KEEPER_READY;
    } else if (!c && !k->refreshing && now_us - k->tried_boot_us > ASK_AGAIN_MS * 1000) {
        ask_locked(k);
    } else if (!c && !k->refreshing) {
        if (reterr) *reterr = k->error;
        state = HF_KEEPER_FAILED;
    }
    pthread_mutex_unlock(&k->mutex);
    return state;
}

void hf__key_ring_refresh(struct hf_key_ring *k, const struct hf_credentials *expired)
{
    pthread_mutex_lock(&k->mutex);
    if (k->credentials == expired) {
        k->rejected = expired;
        k->failing = false;
        ask_locked(k);
    }
    pthread_mutex_unlock(&k->mutex);
}
