/* /metrics, /healthz, /readyz. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "service/api/session.h"
#include "service/service.h"

/* Microseconds: from the time of a read to longer than any caller waits. */
static const int64_t bounds_us[HF_METRIC_BUCKETS] = {100,     250,     500,      1000,     2500,
                                                     5000,    10000,   25000,    100000,   250000,
                                                     1000000, 5000000, 30000000, 300000000};

void hf__observe(struct hf_histogram *histogram, int64_t us)
{
    int bucket = 0;
    while (bucket < HF_METRIC_BUCKETS && us > bounds_us[bucket]) bucket++;
    __atomic_fetch_add(&histogram->counts[bucket], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&histogram->sum_us, us > 0 ? (uint64_t)us : 0, __ATOMIC_RELAXED);
}

/* Several threads may do this at once; a number that gets lost does no harm. */
void hf__metric_store(struct hf_metrics *metrics, int64_t took_us, bool failed, int64_t now_us)
{
    int64_t before = __atomic_load_n(&metrics->store_us, __ATOMIC_RELAXED);
    int64_t since = __atomic_load_n(&metrics->store_failing_us, __ATOMIC_RELAXED);
    if (!failed) {
        int64_t mean = before ? before + (took_us - before) / 16 : took_us;
        __atomic_store_n(&metrics->store_us, mean > 0 ? mean : 1, __ATOMIC_RELAXED);
    }
    if (failed && !since) since = now_us;
    __atomic_store_n(&metrics->store_failing_us, failed ? since : 0, __ATOMIC_RELAXED);
}

/* Requests without a route are counted after the last one. */
void hf__metric_request(struct hf_metrics *metrics, ptrdiff_t route, int status, int64_t us)
{
    size_t at = route >= 0 ? (size_t)route : HF_METRIC_ROUTES - 1;
    int class = status / 100 - 1;
    if (class < 0 || class >= HF_METRIC_CLASSES) class = HF_METRIC_CLASSES - 1;
    hf__count(&metrics->requests[at][class]);
    hf__observe(&metrics->latency[at], us);
}

/* ---- the page for Prometheus ---- */

static void head(struct hf_buf *buf, const char *name, const char *type, const char *help)
{
    hf__buf_printf(buf, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", name, help, name, type);
}

static void put_histogram(struct hf_buf *buf, const char *name, const char *labels,
                          const struct hf_histogram *histogram)
{
    const char *comma = *labels ? "," : "";
    uint64_t total = 0;
    for (int i = 0; i <= HF_METRIC_BUCKETS; i++) {
        total += __atomic_load_n(&histogram->counts[i], __ATOMIC_RELAXED);
        if (i < HF_METRIC_BUCKETS)
            hf__buf_printf(buf, "holdfast_%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels,
                           comma, (double)bounds_us[i] / 1e6, total);
        else
            hf__buf_printf(buf, "holdfast_%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels,
                           comma, total);
    }
    const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    hf__buf_printf(buf, "holdfast_%s_sum%s%s%s %g\n", name, open, labels, close,
                   (double)__atomic_load_n(&histogram->sum_us, __ATOMIC_RELAXED) / 1e6);
    hf__buf_printf(buf, "holdfast_%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, total);
}

static void put_requests(struct hf_buf *buf, const struct hf_metrics *metrics)
{
    head(buf, "requests_total", "counter", "Requests, by route and class of status.");
    for (size_t i = 0; i < HF_METRIC_ROUTES; i++) {
        const char *route = i < hf__route_count ? hf__routes[i].name : "none";
        for (int class = 0; class < HF_METRIC_CLASSES; class ++) {
            uint64_t count = __atomic_load_n(&metrics->requests[i][class], __ATOMIC_RELAXED);
            if (count)
                hf__buf_printf(
                    buf, "holdfast_requests_total{route=\"%s\",status=\"%dxx\"} %" PRIu64 "\n",
                    route, class + 1, count);
        }
    }
    head(buf, "request_seconds", "histogram",
         "From the first byte of a request to the last of its answer, waiting included.");
    for (size_t i = 0; i < HF_METRIC_ROUTES; i++) {
        char label[64];
        uint64_t any = 0;
        for (int b = 0; b <= HF_METRIC_BUCKETS; b++)
            any |= __atomic_load_n(&metrics->latency[i].counts[b], __ATOMIC_RELAXED);
        if (!any) continue;
        snprintf(label, sizeof label, "route=\"%s\"",
                 i < hf__route_count ? hf__routes[i].name : "none");
        put_histogram(buf, "request_seconds", label, &metrics->latency[i]);
    }
}

void hf__metrics_page(struct hf_exchange *exchange)
{
    const struct hf_metrics *metrics = &exchange->service->metrics;
    struct hf_buf *buf = &exchange->answer;
    const struct {
        const char *name;
        const char *type;
        const char *help;
        const void *at;
    } numbers[] = {
        {"locks_held", "gauge", "Locks granted through v2 here, and held.", &metrics->locks_held},
        {"waiters", "gauge", "Acquires that have not been answered yet.", &metrics->waiters},
        {"sessions", "gauge", "Live sessions opened here.", &metrics->sessions},
        {"connections", "gauge", "Open connections.", &metrics->connections},
        {"streams", "gauge", "Open event streams.", &metrics->streams},
        {"peers", "gauge", "Other services whose events are heard.", &metrics->peers},
        {"data_bytes", "gauge", "Bytes of data stored with locks that are held or asked for.",
         &metrics->data_bytes},
        {"answer_bytes", "gauge", "Bytes of answers being sent.", &exchange->service->answer_bytes},
        {"body_bytes", "gauge", "Bytes of requests being received.",
         &exchange->service->body_bytes},
        {"grants_total", "counter", "Locks granted through v2.", &metrics->grants},
        {"given_back_total", "counter", "Grants given back because their caller had hung up.",
         &metrics->given_back},
        {"store_errors_total", "counter", "Operations that failed at the store.",
         &metrics->store_errors},
        {"takeovers_total", "counter", "Locks taken over from holders found dead.",
         &metrics->takeovers},
        {"refused_auth_total", "counter", "Calls refused as not authenticated or not permitted.",
         &metrics->refused_auth},
        {"refused_limit_total", "counter", "Calls refused because of a limit.",
         &metrics->refused_limit},
        {"dropped_slow_total", "counter", "Connections dropped for being slow.",
         &metrics->dropped_slow},
        {"events_total", "counter", "Events reported.", &metrics->events},
        {"log_lines_dropped_total", "counter",
         "Log lines dropped because they were not read in time.", exchange->service->log_dropped},
    };
    exchange->status = 200;
    exchange->content_type = "text/plain; version=0.0.4; charset=utf-8";
    hf__sessions_sweep_at_times(exchange->service);
    put_requests(buf, metrics);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        head(buf, numbers[i].name, numbers[i].type, numbers[i].help);
        hf__buf_printf(buf, "holdfast_%s %" PRId64 "\n", numbers[i].name,
                       __atomic_load_n((const int64_t *)numbers[i].at, __ATOMIC_RELAXED));
    }
    head(buf, "ended_total", "counter", "Locks that ended, by reason.");
    for (int i = 1; i < HF_REASON_COUNT; i++)
        hf__buf_printf(buf, "holdfast_ended_total{reason=\"%s\"} %" PRIu64 "\n",
                       hf_reason_name((enum hf_reason)i),
                       __atomic_load_n(&metrics->ended[i], __ATOMIC_RELAXED));
    head(buf, "queue_seconds", "histogram",
         "How long callers waited for the locks that they were granted.");
    put_histogram(buf, "queue_seconds", "", &metrics->queue_time);
    head(buf, "store_seconds", "histogram", "How long the store took to answer.");
    put_histogram(buf, "store_seconds", "", &metrics->store);
    hf__process_put(buf, exchange->service->started_unix_s);
    head(buf, "build_info", "gauge", "Version of holdfast.");
    hf__buf_printf(buf, "holdfast_build_info{version=\"%s\"} 1\n", HF_VERSION_STRING);
    hf__exchange_done(exchange);
}

/* ---- for operators ---- */

void hf__healthz(struct hf_exchange *exchange)
{
    struct hf_json_writer json;
    hf__answer_begin(exchange, 200, &json);
    hf__put_text(&json, "status", "ok");
    hf__answer_end(exchange, &json);
}

static void answer_ready(struct hf_exchange *exchange)
{
    struct hf_json_writer json;
    hf__answer_begin(exchange, 200, &json);
    hf__put_text(&json, "status", "ready");
    hf__answer_end(exchange, &json);
}

static void asked(struct hf_exchange *exchange, const struct hf_answer *answer)
{
    if (answer->code != 0 && answer->code != HF_ERR_CONDITION) {
        exchange->retry_after_s = 1;
        hf__answer_error(exchange, 503, hf_error_name(answer->code), "the store: %s",
                         answer->error.message);
        return;
    }
    __atomic_store_n(&exchange->service->ready_us, hf__service_now_us(exchange->service),
                     __ATOMIC_RELAXED);
    answer_ready(exchange);
}

/*
 * A write that changes nothing: a file may still be readable when it can no longer be written. On
 * DynamoDB, which has no such state and charges for writes, a read.
 */
static void build_question(const struct hf_service *service, struct hf_arena *arena,
                           struct hf_op *ret)
{
    const struct hf_layout *layout = hf__client_layout(service->client);
    /* Any key of the table's type will do. */
    hf__client_format(service->client)
        ->read(layout, arena, layout->key_type == HF_N ? HF_LIT("0") : HF_LIT("holdfast-ready"),
               ret);
    ret->attempts = 1;
    ret->timeout_ms = 2000;
    const char *key = hf__arena_str(arena, layout->key_name);
    if (!service->store->embedded || !key) return;
    const struct hf_item which = ret->key;
    *ret = (struct hf_op){.kind = HF_DELETE_ITEM, .table = ret->table, .key = which};
    ret->condition = hf__cond_absent(arena, key);
}

/* Small writes may succeed where larger ones do not: the store is full until there is room. */
static bool is_full(struct hf_service *service)
{
    enum { ROOM = 256 * 1024 };
    struct hf_store_info info = {0};
    struct statvfs space;
    if (!__atomic_load_n(&service->full, __ATOMIC_RELAXED)) return false;
    bool knows = service->store->embedded && hf__store_describe(service->store, &info, NULL) == 0 &&
                 statvfs(info.place, &space) == 0;
    if (knows && (uint64_t)space.f_bavail * space.f_frsize < ROOM) return true;
    __atomic_store_n(&service->full, false, __ATOMIC_RELAXED);
    return false;
}

/* Ready: the store can be used, and the service is not shutting down. */
void hf__readyz(struct hf_exchange *exchange)
{
    struct hf_op op;
    if (__atomic_load_n(&exchange->service->draining, __ATOMIC_RELAXED)) {
        hf__answer_error(exchange, 503, "closed", "the service is shutting down");
        return;
    }
    if (is_full(exchange->service)) {
        exchange->retry_after_s = 1;
        hf__answer_error(exchange, 503, hf_error_name(HF_ERR_FULL),
                         "the store: no space left; free some on its file system");
        return;
    }
    /* Any caller may ask, so the store is asked only from time to time. */
    int64_t ready_us = __atomic_load_n(&exchange->service->ready_us, __ATOMIC_RELAXED);
    if (ready_us && hf__service_now_us(exchange->service) - ready_us < 500000) {
        answer_ready(exchange);
        return;
    }
    build_question(exchange->service, &exchange->arena, &op);
    hf__exchange_run(exchange, &op, asked);
}
