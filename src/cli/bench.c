/* holdfast bench: measures the speed of a store. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/moment.h"
#include "cli/terminal.h"
#include "cli/wake.h"

enum {
    CLOSE_MS = 5000,
    SAMPLES_MOST = 1 << 20,
    CLIENTS_MOST = 64,
    TAKEOVERS = 5,
    TAKEOVER_LEASE_MS = 1000,
    BARS = 12,
    BAR_WIDTH = 40,
    NAME_SIZE = 64,
};

struct options {
    int64_t clients;
    int64_t duration_ms;
};

static const struct option options[] = {
    {"clients", 'c', OPTION_NUMBER, "N", offsetof(struct options, clients),
     "number of clients at a time (default: 4)"},
    {"duration", 'd', OPTION_DURATION, "DUR", offsetof(struct options, duration_ms),
     "of each part (default: 3s)"},
    {0},
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- samples ---- */

struct samples {
    double *at; /* milliseconds */
    size_t count;
    double elapsed_ms;
    int error;
    struct hf_error why;
    int ended_by; /* a signal; 0: none */
};

static bool samples_init(struct samples *samples)
{
    *samples = (struct samples){.at = hf__malloc(SAMPLES_MOST * sizeof(double))};
    return samples->at;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double percentile(const struct samples *samples, double p)
{
    if (samples->count == 0) return 0;
    size_t at = (size_t)(p * (double)(samples->count - 1) + 0.5);
    return samples->at[at];
}

/* ---- what is measured ---- */

struct worker {
    pthread_t thread;
    struct hf_client *client;
    char name[NAME_SIZE];
    double end_ms;
    const bool *stop;        /* atomic */
    struct samples *samples; /* shared; `next` assigns places */
    size_t *next;
    double *released_ms; /* handover: when the lock was last released */
    int error;
    struct hf_error why;
};

static void keep(struct worker *worker, double ms)
{
    size_t at = __atomic_fetch_add(worker->next, 1, __ATOMIC_RELAXED);
    if (at < SAMPLES_MOST) worker->samples->at[at] = ms;
}

static bool is_on(const struct worker *worker)
{
    return now_ms() < worker->end_ms && worker->error == 0 &&
           !__atomic_load_n(worker->stop, __ATOMIC_RELAXED);
}

/* Each client acquires and releases a lock of its own. */
static void *pairs(void *user)
{
    struct worker *worker = user;
    while (is_on(worker)) {
        struct hf_lock *lock;
        double begin = now_ms();
        worker->error =
            hf_acquire(worker->client, worker->name, HF_FOREVER, NULL, &lock, &worker->why);
        if (worker->error) break;
        worker->error = hf_release(lock, NULL, &worker->why);
        hf_lock_unref(lock);
        keep(worker, now_ms() - begin);
    }
    return NULL;
}

/* All clients want the same lock: measures the time from a release to the next grant. */
static void *handover(void *user)
{
    struct worker *worker = user;
    while (is_on(worker)) {
        struct hf_lock *lock;
        worker->error = hf_acquire(worker->client, worker->name, 60000, NULL, &lock, &worker->why);
        if (worker->error) break;
        double last = *worker->released_ms; /* the lock itself guards it */
        if (last > 0) keep(worker, now_ms() - last);
        *worker->released_ms = now_ms();
        worker->error = hf_release(lock, NULL, &worker->why);
        hf_lock_unref(lock);
    }
    return NULL;
}

static bool measure(struct cli *cli, struct hf_client *const *clients, int count, bool is_handover,
                    int64_t duration_ms, struct samples *ret)
{
    struct worker workers[CLIENTS_MOST] = {0};
    size_t next = 0;
    bool stop = false;
    double released = 0, begin = now_ms();
    int started = 0;
    char common[NAME_SIZE / 2];
    snprintf(common, sizeof common, "bench:%s", is_handover ? "handover" : "pair");
    ret->count = 0;
    for (; started < count; started++) {
        struct worker *worker = &workers[started];
        *worker = (struct worker){.client = clients[started],
                                  .end_ms = begin + (double)duration_ms,
                                  .stop = &stop,
                                  .samples = ret,
                                  .next = &next,
                                  .released_ms = &released};
        snprintf(worker->name, sizeof worker->name, is_handover ? "%s" : "%s-%d", common, started);
        if (hf__thread_create(&worker->thread, is_handover ? handover : pairs, worker) != 0) break;
    }
    bool shows = isatty(STDERR_FILENO) && !cli->settings.quiet && !cli->settings.json;
    while (now_ms() < begin + (double)duration_ms && !stop) {
        if (shows)
            progress_show("%s: %zu, %s left", is_handover ? "handover" : "pairs",
                          __atomic_load_n(&next, __ATOMIC_RELAXED),
                          duration_print((int64_t)(begin + (double)duration_ms - now_ms()),
                                         (char[MOMENT_SIZE]){0}));
        int signal = wake_wait(200);
        if (signal > 0 && wake_is_end(signal)) {
            __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
            ret->ended_by = signal;
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].error) {
            ret->error = workers[i].error;
            ret->why = workers[i].why;
        }
    }
    progress_clear();
    ret->elapsed_ms = now_ms() - begin;
    ret->count = next < SAMPLES_MOST ? next : SAMPLES_MOST;
    qsort(ret->at, ret->count, sizeof ret->at[0], compare);
    return started == count && ret->error == 0 && !ret->ended_by;
}

/* A holder dies: measures the time until another client has its lock. */
static bool measure_takeover(struct cli *cli, struct samples *ret)
{
    const struct client_use dead = {.detached = true, .lease_ms = TAKEOVER_LEASE_MS};
    const struct client_use living = {.lease_ms = TAKEOVER_LEASE_MS};
    struct hf_client *a = NULL, *b = NULL;
    ret->error = cli_open(cli, &dead, &a, &ret->why);
    if (ret->error) return false;
    ret->error = cli_open(cli, &living, &b, &ret->why);
    double begin = now_ms();
    for (int i = 0; i < TAKEOVERS && ret->error == 0; i++) {
        struct hf_lock *lost, *lock;
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "bench:takeover-%d", i);
        ret->error = hf_acquire(a, name, 60000, NULL, &lost, &ret->why);
        if (ret->error) break;
        double died = now_ms();
        hf_lock_unref(lost);
        ret->error = hf_acquire(b, name, 60000, NULL, &lock, &ret->why);
        if (ret->error) break;
        ret->at[ret->count++] = now_ms() - died;
        ret->error = hf_release(lock, NULL, &ret->why);
        hf_lock_unref(lock);
    }
    ret->elapsed_ms = now_ms() - begin;
    qsort(ret->at, ret->count, sizeof ret->at[0], compare);
    hf_client_close(a, CLOSE_MS);
    hf_client_close(b, CLOSE_MS);
    return ret->error == 0;
}

/* ---- printing ---- */

/* Bars of equal width between the minimum and the 99th percentile; the last one has the rest. */
static void print_histogram(const struct samples *samples)
{
    double least = samples->at[0], most = percentile(samples, 0.99);
    size_t counts[BARS] = {0}, highest = 1;
    double width = (most - least) / (BARS - 1);
    for (size_t i = 0; i < samples->count; i++) {
        size_t at = width > 0 ? (size_t)((samples->at[i] - least) / width) : 0;
        if (at >= BARS) at = BARS - 1;
        if (++counts[at] > highest) highest = counts[at];
    }
    for (int i = 0; i < BARS; i++) {
        if (width <= 0 && i > 0) break;
        size_t len = (counts[i] * BAR_WIDTH + highest - 1) / highest;
        printf("  %s%8.2f ms ", i == BARS - 1 ? "≥" : " ", least + width * i);
        for (size_t k = 0; k < len; k++) fputs("▇", stdout);
        printf(" %zu\n", counts[i]);
    }
}

static void print_part(const struct cli *cli, const char *name, const char *what,
                       const struct samples *samples, struct hf_json_writer *json)
{
    double rate = samples->elapsed_ms > 0 ? (double)samples->count / samples->elapsed_ms * 1000 : 0;
    double p50 = percentile(samples, 0.5), p99 = percentile(samples, 0.99),
           most = percentile(samples, 1);
    if (cli->settings.json) {
        char text[64];
        hf__json_put_name(json, name);
        hf__json_open(json, '{');
        json_number(json, "count", (int64_t)samples->count);
        const struct {
            const char *name;
            double value;
        } figures[] = {{"per_second", rate}, {"p50_ms", p50}, {"p99_ms", p99}, {"max_ms", most}};
        for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
            snprintf(text, sizeof text, "%.3f", figures[i].value);
            hf__json_put_name(json, figures[i].name);
            hf__json_put_raw(json, hf__slice_str(text));
        }
        hf__json_close(json, '}');
        return;
    }
    printf("%s%s%s: %s\n", style_on(cli->colors, STYLE_BOLD), name, style_off(cli->colors), what);
    printf("  %zu, %.0f per second; p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", samples->count, rate,
           p50, p99, most);
    if (samples->count > 1 && !cli->settings.quiet) print_histogram(samples);
    fflush(stdout);
}

static int run_all(struct cli *cli, struct hf_client *const *clients, int count,
                   const struct options *given, struct hf_json_writer *json)
{
    struct samples samples;
    int64_t duration_ms = given->duration_ms ? given->duration_ms : 3000;
    if (!samples_init(&samples)) return EXIT_INTERNAL;
    bool good = measure(cli, clients, count, false, duration_ms, &samples);
    if (good) print_part(cli, "pairs", "acquire and release, one lock per client", &samples, json);
    good = good && measure(cli, clients, count > 1 ? count : 2, true, duration_ms, &samples);
    if (good)
        print_part(cli, "handover", "from a release to the next grant, one lock", &samples, json);
    samples.count = 0;
    good = good && measure_takeover(cli, &samples);
    if (good)
        print_part(cli, "takeover", "from a holder's death to the next grant; its lease is 1 s",
                   &samples, json);
    int exit_code = good               ? 0
                    : samples.ended_by ? EXIT_BY_SIGNAL + samples.ended_by
                    : samples.error    ? cli_fail(cli, &samples.why)
                                       : EXIT_INTERNAL;
    hf__free(samples.at);
    return exit_code;
}

static int bench(struct cli *cli, void *at)
{
    const struct options *given = at;
    struct hf_client *clients[CLIENTS_MOST] = {0};
    struct hf_error error;
    struct hf_buf buf;
    struct hf_json_writer json;
    int count = given->clients ? (int)given->clients : 4, code = 0;
    if (!cli_words(cli, 0, 0, "bench takes no arguments")) return EXIT_USAGE;
    if (given->clients > CLIENTS_MOST) return cli_usage("--clients: at most %d", CLIENTS_MOST);
    int opened = count > 1 ? count : 2; /* a handover takes two */
    for (int i = 0; i < opened && code == 0; i++)
        code = cli_open(cli, &(struct client_use){0}, &clients[i], &error);
    hf__buf_init(&buf, 1 << 16);
    hf__json_writer_init(&json, &buf);
    hf__json_open(&json, '{');
    int exit_code = code == 0 ? run_all(cli, clients, count, given, &json) : cli_fail(cli, &error);
    hf__json_close(&json, '}');
    if (exit_code == 0 && cli->settings.json) cli_print_json(&buf);
    hf__buf_free(&buf);
    for (int i = 0; i < opened; i++) hf_client_close(clients[i], CLOSE_MS);
    return exit_code;
}

const struct command command_bench = {
    .name = "bench",
    .summary = "measure the store",
    .synopsis = "bench [--clients N] [--duration DUR]",
    .text =
        "Measures acquire and release, the handover of a lock that many want, and the takeover\n"
        "from a dead holder. Uses locks of its own (bench:…), and real requests: on\n"
        "DynamoDB they cost money.",
    .examples = "  holdfast bench\n  holdfast bench -c 16 -d 10s -o json",
    .options = options,
    .options_size = sizeof(struct options),
    .run = bench,
};
