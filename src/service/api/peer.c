/*
 * The item: key S = holdfast:services · service-<id> S = "<expires, unix ms> <URL>" for each service.
 * One write every ten seconds refreshes one's own attribute and returns those of the others.
 *
 * Invariants
 * P1  Everything here runs on a loop of its own, except the store's answer, which is posted to it.
 * P2  At most one call to the store is under way.
 */
#include "service/api/peer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json_reader.h"
#include "base/random.h"
#include "base/text.h"
#include "format/keyed.h"
#include "service/service.h"
#include "store/hearing.h"

#define ITEM "holdfast:services"
#define PREFIX "service-"

enum {
    MOST = 32,
    URL_MOST = 512,
    STALE_MOST = 8,
    REFRESH_US = 10 * 1000000,
    RETRY_US = 3 * 1000000,
    LEASE_MS = 30000,
    SKEW_MS = 5000,
    EVENT_MOST = 8192,
    WITHDRAW_MS = 1000,
};

struct peer {
    struct hf_list node;
    struct hf_peers *peers;
    struct hf_hearing hearing;
    struct hf_access *access;
    bool named; /* by --peer */
    bool found; /* in the table, just now */
    char url[];
};

struct hf_peers {
    struct hf_service *service;
    struct hf_loop *loop;
    struct hf_http *http;
    struct hf_list list;
    size_t count;
    struct hf_store_options access; /* texts in `texts` */
    struct hf_arena texts;
    const char *advertise; /* NULL: it is not told */
    char attribute[sizeof PREFIX + 2 * sizeof(struct hf_id)];
    struct hf_timer timer;
    bool has_timer;

    struct hf_call call;
    struct hf_arena arena; /* the call's */
    struct hf_task answered;
    bool is_out;                /* atomic */
    char stale[STALE_MOST][64]; /* attributes of services that have ended */
    size_t stale_count;
};

/* ---- what peers say ---- */

static void heard(struct hf_hearing *hearing, struct hf_slice event)
{
    struct peer *peer = HF_CONTAINER(hearing, struct peer, hearing);
    struct hf_arena arena = {0};
    struct hf_json_reader json;
    struct hf_slice key, name = {0};
    hf__json_reader_init(&json, event, EVENT_MOST, &arena);
    if (hf__json_object(&json)) {
        while (hf__json_key(&json, &key)) {
            bool is_name = hf__slice_is(key, "name");
            if (is_name ? !hf__json_string(&json, &name) : !hf__json_skip(&json)) break;
        }
    }
    if (name.len > 0) hf__client_hint(peer->peers->service->client, name);
    hf__arena_free(&arena);
}

/* ---- the list ---- */

static void remove_peer(struct peer *peer)
{
    hf__list_remove(&peer->node);
    peer->peers->count--;
    hf__gauge(&peer->peers->service->metrics.peers, -1);
    hf__hearing_end(&peer->hearing);
    hf__hearing_free(&peer->hearing);
    hf__access_free(peer->access);
    hf__free(peer);
}

static struct peer *find(struct hf_peers *peers, struct hf_slice url)
{
    for (struct hf_list *at = peers->list.next; at != &peers->list; at = at->next) {
        struct peer *peer = HF_CONTAINER(at, struct peer, node);
        if (hf__slice_is(url, peer->url)) return peer;
    }
    return NULL;
}

static int open_access(const struct hf_peers *peers, const char *url, struct hf_access **ret,
                       struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    bool good = strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0;
    int code = good ? hf__access_new(&arena, url, &peers->access, ret, reterr)
                    : hf__error_set(reterr, HF_ERR_INVALID,
                                    "invalid URL \"%s\": expected https://HOST[:PORT]", url);
    hf__arena_free(&arena);
    return code;
}

/* Before the loop runs, or on its thread. */
static int add_peer(struct hf_peers *peers, struct hf_slice url, struct peer **ret,
                    struct hf_error *reterr)
{
    if (peers->count >= MOST)
        return hf__error_set(reterr, HF_ERR_INVALID, "more than %d services on one table", MOST);
    struct peer *peer = hf__calloc(1, sizeof *peer + url.len + 1);
    if (!peer) return hf__error_no_memory(reterr);
    memcpy(peer->url, url.ptr, url.len);
    peer->peers = peers;
    int code = open_access(peers, peer->url, &peer->access, reterr);
    if (code == 0 && !hf__hearing_init(&peer->hearing, peers->loop, peers->http, peer->access)) {
        hf__access_free(peer->access);
        code = hf__error_no_memory(reterr);
    }
    if (code != 0) {
        hf__free(peer);
        return code;
    }
    peer->hearing.heard = heard;
    hf__list_append(&peers->list, &peer->node);
    peers->count++;
    hf__gauge(&peers->service->metrics.peers, 1);
    *ret = peer;
    return 0;
}

/* ---- finding each other ---- */

/* "<expires> <URL>"; false: not valid. */
static bool parse_entry(const struct hf_value *value, int64_t *ret_expires,
                        struct hf_slice *ret_url)
{
    if (value->type != HF_S) return false;
    struct hf_slice text = value->bytes;
    size_t space = 0;
    while (space < text.len && text.ptr[space] != ' ') space++;
    if (space == text.len || text.len - space - 1 > URL_MOST) return false;
    *ret_url = hf__slice_skip(text, space + 1);
    return hf__parse_int64(hf__slice(text.ptr, space), ret_expires) && ret_url->len > 0 &&
           !memchr(ret_url->ptr, '\0', ret_url->len);
}

/* What is in the table must not name files of this machine. */
static bool is_plain(struct hf_slice url)
{
    return !memchr(url.ptr, '?', url.len);
}

static void note_stale(struct hf_peers *peers, struct hf_slice attribute)
{
    if (peers->stale_count >= STALE_MOST || attribute.len >= sizeof peers->stale[0]) return;
    char *at = peers->stale[peers->stale_count++];
    memcpy(at, attribute.ptr, attribute.len);
    at[attribute.len] = '\0';
}

static void take_entry(struct hf_peers *peers, const struct hf_attr *attr, int64_t now_unix_ms)
{
    int64_t expires;
    struct hf_slice url;
    struct hf_error error;
    if (!hf__slice_starts(attr->name, HF_LIT(PREFIX)) || hf__slice_is(attr->name, peers->attribute))
        return;
    bool is_valid = parse_entry(&attr->value, &expires, &url) && is_plain(url);
    if (!is_valid || expires + SKEW_MS < now_unix_ms) {
        note_stale(peers, attr->name);
        return;
    }
    if (hf__slice_is(url, peers->advertise)) return; /* this one, before it was started again */
    struct peer *peer = find(peers, url);
    if (!peer && add_peer(peers, url, &peer, &error) != 0) {
        hf__log(&peers->service->log, HF_LOG_WARN, "cannot listen to the service at %.*s: %s",
                HF_FMT(url), error.message);
        return;
    }
    peer->found = true;
    hf__hearing_begin(&peer->hearing);
}

static void take_entries(struct hf_peers *peers, struct hf_item item)
{
    struct hf_interval now = hf__service_time(peers->service);
    peers->stale_count = 0;
    for (struct hf_list *at = peers->list.next; at != &peers->list; at = at->next)
        HF_CONTAINER(at, struct peer, node)->found = false;
    for (size_t i = 0; i < item.count; i++)
        take_entry(peers, &item.attrs[i], now.known ? now.lo_unix_us / 1000 : 0);
    for (struct hf_list *at = peers->list.next, *next; at != &peers->list; at = next) {
        struct peer *peer = HF_CONTAINER(at, struct peer, node);
        next = at->next;
        if (!peer->named && !peer->found) remove_peer(peer);
    }
}

static void set_timer(struct hf_peers *peers, int64_t in_us)
{
    hf__loop_timer_set(peers->loop, &peers->timer, hf__loop_now_us(peers->loop) + in_us);
}

static void on_answer(struct hf_task *task)
{
    struct hf_peers *peers = HF_CONTAINER(task, struct hf_peers, answered);
    const struct hf_answer *answer = &peers->call.answer;
    bool good = answer->code == 0 && answer->has_item && !peers->arena.failed;
    if (good) take_entries(peers, answer->item);
    hf__arena_reset(&peers->arena);
    peers->arena.failed = false;
    if (peers->has_timer) set_timer(peers, good ? REFRESH_US : RETRY_US);
    __atomic_store_n(&peers->is_out, false, __ATOMIC_RELEASE);
}

/* P1. */
static void on_store_answer(struct hf_call *call)
{
    struct hf_peers *peers = call->user;
    hf__loop_post(peers->loop, &peers->answered);
}

static void build_refresh(struct hf_peers *peers, int64_t expires_unix_ms, struct hf_op *ret)
{
    const struct hf_layout *layout = hf__client_layout(peers->service->client);
    struct hf_update *update = hf__keyed_update(layout, &peers->arena, HF_LIT(ITEM), NULL, ret);
    struct hf_slice entry =
        hf__arena_printf(&peers->arena, "%" PRId64 " %s", expires_unix_ms, peers->advertise);
    hf__update_set(&peers->arena, update, peers->attribute, hf__s(entry));
    for (size_t i = 0; i < peers->stale_count; i++)
        hf__update_remove(&peers->arena, update, peers->stale[i]);
    ret->old_on_failure = false;
}

static void on_timer(struct hf_timer *timer)
{
    struct hf_peers *peers = HF_CONTAINER(timer, struct hf_peers, timer);
    struct hf_interval now = hf__service_time(peers->service);
    if (!now.known) {
        set_timer(peers, RETRY_US);
        return;
    }
    peers->call = (struct hf_call){.arena = &peers->arena, .done = on_store_answer, .user = peers};
    build_refresh(peers, now.hi_unix_us / 1000 + LEASE_MS, &peers->call.op);
    __atomic_store_n(&peers->is_out, true, __ATOMIC_RELEASE);
    hf__store_submit(peers->service->store, &peers->call);
}

/* ---- starting and stopping ---- */

static int add_named(struct hf_peers *peers, const char *list, struct hf_error *reterr)
{
    int code = 0;
    for (const char *at = list; code == 0 && at && *at;) {
        size_t len = strcspn(at, ",");
        struct hf_slice url = hf__slice(at, len);
        struct peer *peer;
        if (len > URL_MOST)
            code = hf__error_set(reterr, HF_ERR_INVALID, "a URL of %zu bytes is too long", len);
        else if (len > 0 && !find(peers, url)) {
            code = add_peer(peers, url, &peer, reterr);
            if (code == 0) peer->named = true;
        }
        at += len + (at[len] == ',' ? 1 : 0);
    }
    if (code != 0) hf__error_prefix(reterr, "--peer");
    return code;
}

static int check_own(struct hf_peers *peers, struct hf_error *reterr)
{
    struct hf_access *access = NULL;
    if (!peers->advertise) return 0;
    if (strcmp(peers->service->format, "holdfast") != 0)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "--advertise needs a table of the format \"holdfast\"; use --peer");
    struct hf_slice url = hf__slice_str(peers->advertise);
    int code = url.len > URL_MOST || !is_plain(url)
                   ? hf__error_set(reterr, HF_ERR_INVALID, "invalid URL \"%.*s\"", HF_FMT(url))
                   : open_access(peers, peers->advertise, &access, reterr);
    hf__access_free(access);
    if (code != 0) hf__error_prefix(reterr, "--advertise");
    return code;
}

static const char *keep(struct hf_peers *peers, const char *text)
{
    return text ? hf__arena_str(&peers->texts, hf__slice_str(text)) : NULL;
}

static void begin(void *user)
{
    struct hf_peers *peers = user;
    for (struct hf_list *at = peers->list.next; at != &peers->list; at = at->next)
        hf__hearing_begin(&HF_CONTAINER(at, struct peer, node)->hearing);
    if (peers->advertise) on_timer(&peers->timer);
}

int hf__peers_start(struct hf_service *service, const struct hf_serve_options *options,
                    struct hf_peers **ret, struct hf_error *reterr)
{
    struct hf_id id;
    if (!options->peers && !options->advertise) return 0;
    struct hf_peers *peers = hf__calloc(1, sizeof *peers);
    if (!peers) return hf__error_no_memory(reterr);
    peers->service = service;
    hf__list_init(&peers->list);
    hf__list_init(&peers->answered.node);
    peers->answered.run = on_answer;
    peers->access.token_file = keep(peers, options->peer_token_file);
    peers->access.ca_file = keep(peers, options->peer_ca);
    peers->advertise = keep(peers, options->advertise);
    hf__random_bytes(id.bytes, sizeof id.bytes);
    memcpy(peers->attribute, PREFIX, sizeof PREFIX);
    hf__hex_encode(id.bytes, sizeof id.bytes, peers->attribute + sizeof PREFIX - 1);
    int code = peers->texts.failed ? hf__error_no_memory(reterr) : check_own(peers, reterr);
    if (code == 0) code = hf__loop_new(&hf__clock_system, &peers->loop, reterr);
    if (code == 0) code = hf__http_open(peers->loop, MOST, &peers->http, reterr);
    if (code == 0) {
        peers->has_timer = hf__loop_timer_init(peers->loop, &peers->timer, on_timer);
        if (!peers->has_timer) code = hf__error_no_memory(reterr);
    }
    if (code == 0) code = add_named(peers, options->peers, reterr);
    if (code == 0) code = hf__loop_start(peers->loop, reterr);
    if (code != 0) {
        hf__peers_stop(peers);
        return code;
    }
    hf__loop_call(peers->loop, begin, peers);
    *ret = peers;
    return 0;
}

static void end(void *user)
{
    struct hf_peers *peers = user;
    if (peers->has_timer) hf__loop_timer_done(peers->loop, &peers->timer);
    peers->has_timer = false;
    while (!hf__list_empty(&peers->list))
        remove_peer(HF_CONTAINER(peers->list.next, struct peer, node));
    if (peers->http) hf__http_close(peers->http);
    peers->http = NULL;
}

/* The others need not try to reach this one. */
static void withdraw(struct hf_peers *peers)
{
    struct hf_arena arena = {0};
    struct hf_call call = {.arena = &arena};
    const struct hf_layout *layout = hf__client_layout(peers->service->client);
    struct hf_update *update = hf__keyed_update(layout, &arena, HF_LIT(ITEM), NULL, &call.op);
    hf__update_remove(&arena, update, peers->attribute);
    call.op.attempts = 1;
    call.op.timeout_ms = WITHDRAW_MS;
    hf__store_run(peers->service->store, &call);
    hf__arena_free(&arena);
}

void hf__peers_stop(struct hf_peers *peers)
{
    enum { WAITS = 2000 };
    if (!peers) return;
    bool runs = peers->service->peers == peers;
    if (runs) hf__loop_call(peers->loop, end, peers);
    else if (peers->loop) end(peers);
    /* The store answers everything, and its answer is posted to the loop. */
    if (__atomic_load_n(&peers->is_out, __ATOMIC_ACQUIRE))
        hf__store_cancel(peers->service->store, peers->call.id);
    for (int i = 0; i < WAITS && __atomic_load_n(&peers->is_out, __ATOMIC_ACQUIRE); i++) {
        const struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
    }
    if (__atomic_load_n(&peers->is_out, __ATOMIC_ACQUIRE)) return; /* the answer needs it */
    if (runs && peers->advertise) withdraw(peers);
    if (peers->loop) hf__loop_stop(peers->loop);
    hf__arena_free(&peers->arena);
    hf__arena_free(&peers->texts);
    hf__free(peers);
}
