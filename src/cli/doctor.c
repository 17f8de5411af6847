/* holdfast doctor: checks the setup, and says what to do about problems. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "cli/cli.h"
#include "cli/moment.h"
#include "cli/terminal.h"

enum {
    CLOSE_MS = 5000,
    LOOKS = 20,
    SCRATCH_MS = 10000, /* another doctor may be running */
    SAMPLE = 200,
    CLOCK_WARN_MS = 1000,
    CLOCK_FAIL_MS = 240000, /* DynamoDB refuses signatures at five minutes */
    TEXT_SIZE = 640,
};

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

struct examination {
    struct cli *cli;
    enum verdict worst;
    struct hf_buf buf; /* JSON */
    struct hf_json_writer json;
};

static void report(struct examination *exam, enum verdict verdict, const char *what,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));

static void report(struct examination *exam, enum verdict verdict, const char *what,
                   const char *format, ...)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    static const enum style styles[] = {STYLE_GOOD, STYLE_WARN, STYLE_BAD};
    char text[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (verdict > exam->worst) exam->worst = verdict;
    if (exam->cli->settings.json) {
        hf__json_open(&exam->json, '{');
        json_text(&exam->json, "check", what);
        json_text(&exam->json, "verdict", names[verdict]);
        json_text(&exam->json, "detail", text);
        hf__json_close(&exam->json, '}');
        return;
    }
    if (exam->cli->settings.quiet && verdict == VERDICT_OK) return;
    printf("%s%-4s%s  %-12s ", style_on(exam->cli->colors, styles[verdict]), names[verdict],
           style_off(exam->cli->colors), what);
    print_safely(stdout, text);
    putchar('\n');
    fflush(stdout);
}

/* ---- the store ---- */

static void check_file(struct examination *exam, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        report(exam, VERDICT_WARN, "file", "cannot stat %s", path);
    } else if (info.st_mode & 022) {
        report(exam, VERDICT_WARN, "file",
               "%s is writable by other users (mode %04o), who could break every lock; use "
               "chmod 600",
               path, (unsigned)info.st_mode & 07777);
    } else {
        report(exam, VERDICT_OK, "file", "%s, %lld KiB, mode %04o", path,
               (long long)(info.st_size / 1024), (unsigned)info.st_mode & 07777);
    }
}

static bool check_credentials(struct examination *exam, struct hf_client *client)
{
    struct hf_store_info *store;
    struct hf_error error;
    char until[MOMENT_SIZE];
    if (hf_store_describe(client, &store, &error) != 0) {
        report(exam, VERDICT_FAIL, "credentials", "%s", error.message);
        return false;
    }
    if (strcmp(store->kind, "dynamodb") == 0) {
        report(exam, VERDICT_OK, "credentials", "%s, from %s%s%s", store->key_id,
               store->credentials, store->key_expires_unix_ms ? ", until " : "",
               store->key_expires_unix_ms ? moment_print(store->key_expires_unix_ms, until) : "");
        report(exam, VERDICT_OK, "region", "%s", store->region);
        report(exam, VERDICT_OK, "endpoint", "%s", store->place);
    } else if (strcmp(store->kind, "file") == 0) {
        check_file(exam, store->place);
    } else if (strcmp(store->kind, "service") == 0) {
        report(exam, VERDICT_OK, "service", "%s, by %s", store->place,
               strcmp(store->credentials, "none") == 0 ? "no credentials" : store->credentials);
    }
    hf_store_info_free(store);
    return true;
}

static bool check_table(struct examination *exam, struct hf_client *client)
{
    struct hf_table_status status;
    struct hf_error error;
    int code = hf_table_describe(client, &status, &error);
    if (code == HF_ERR_DENIED) {
        const char *store = exam->cli->settings.store;
        bool served = strncmp(store, "http", 4) == 0;
        report(exam, served ? VERDICT_FAIL : VERDICT_WARN, served ? "service" : "table", "%s%s",
               error.message, served ? "" : "; allow dynamodb:DescribeTable to check its key");
        return !served;
    }
    if (code != 0) {
        report(exam, VERDICT_FAIL, "store", "%s", error.message);
        return false;
    }
    report(exam, VERDICT_OK, "store", "answers");
    if (hf_table_check(client, &error) != 0) {
        report(exam, VERDICT_FAIL, "table", "%s%s", error.message,
               status.exists ? "" : "; create it with: holdfast table create");
        return false;
    }
    report(exam, VERDICT_OK, "table", "its key fits; %lld item%s", (long long)status.item_count,
           status.item_count == 1 ? "" : "s");
    const char *format = exam->cli->settings.format;
    bool wants_ttl = !format || strcmp(format, "holdfast") == 0 ||
                     strcmp(format, "lockservice") == 0 || strcmp(format, "single-table") == 0;
    if (status.ttl_enabled) report(exam, VERDICT_OK, "ttl", "on");
    else if (wants_ttl)
        report(
            exam, VERDICT_WARN, "ttl",
            "off: old records stay. Turn it on with holdfast table create, or run holdfast table "
            "sweep from time to time");
    else report(exam, VERDICT_OK, "ttl", "not used by this format");
    return true;
}

/* ---- permissions: a scratch lock through its whole life ---- */

/* A name that every format accepts, and only doctors use. */
static void scratch_name(const struct settings *settings, char ret[64])
{
    if (settings->key_type && settings->key_type[0] == 'N')
        snprintf(ret, 64, "%llu", (unsigned long long)(hf__random_u64() >> 1));
    else snprintf(ret, 64, "doctor:scratch");
}

/* AWS names the action that it has denied; other stores may not. */
static bool names_action(const struct hf_error *error, char ret[64])
{
    const char *at = strstr(error->message, "dynamodb:");
    size_t len = at ? strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:") : 0;
    if (len <= strlen("dynamodb:") || len >= 64) return false;
    memcpy(ret, at, len);
    ret[len] = '\0';
    return true;
}

static bool try_permission(struct examination *exam, int code, const struct hf_error *error,
                           const char *what, const char *action)
{
    char named[64];
    if (code == 0) return true;
    if (code == HF_ERR_DENIED)
        report(exam, VERDICT_FAIL, "permissions", "cannot %s: %s; allow %s", what, error->message,
               names_action(error, named) ? named : action);
    else report(exam, VERDICT_FAIL, "permissions", "cannot %s: %s", what, error->message);
    return false;
}

static void check_permissions(struct examination *exam, struct hf_client *client)
{
    struct hf_error error;
    struct hf_lock *lock;
    struct hf_lock_info *info = NULL;
    struct hf_list_page *page = NULL;
    const struct hf_list_options some = {.size = sizeof some, .limit = SAMPLE};
    char name[64];
    scratch_name(&exam->cli->settings, name);
    int code = hf_acquire(client, name, SCRATCH_MS, NULL, &lock, &error);
    const char *format = exam->cli->settings.format;
    bool native = !format || strcmp(format, "holdfast") == 0;
    if (!try_permission(exam, code, &error, "acquire a lock",
                        native ? "dynamodb:UpdateItem"
                               : "dynamodb:UpdateItem and dynamodb:PutItem"))
        return;
    bool good = true;
    if (hf_lock_renew(lock, &error) != 0 && error.code != HF_ERR_UNSUPPORTED)
        good = try_permission(exam, error.code, &error, "renew a lock", "dynamodb:UpdateItem");
    code = hf_get(client, name, &info, &error);
    good &= try_permission(exam, code, &error, "read a lock", "dynamodb:GetItem");
    hf_lock_info_free(info);
    code = hf_release(lock, NULL, &error);
    good &= try_permission(exam, code, &error, "release a lock",
                           "dynamodb:UpdateItem and dynamodb:DeleteItem");
    hf_lock_unref(lock);
    if (hf_list(client, &some, &page, &error) != 0)
        report(exam, VERDICT_WARN, "permissions",
               "cannot list locks: %s; allow dynamodb:Scan if you need it", error.message);
    size_t damaged = 0;
    for (size_t i = 0; page && i < page->count; i++) damaged += page->locks[i].damaged;
    if (damaged > 0)
        report(exam, VERDICT_WARN, "records",
               "%zu of %zu are invalid in this format; the table may be used with another one",
               damaged, page->count);
    hf_list_page_free(page);
    if (good) report(exam, VERDICT_OK, "permissions", "acquire, renew, read and release work");
}

/* ---- time ---- */

static void check_clock(struct examination *exam, struct hf_client *client)
{
    int64_t lo_us, hi_us;
    struct hf_error error;
    if (hf_store_time(client, &lo_us, &hi_us, &error) != 0) {
        report(exam, VERDICT_WARN, "clock",
               "%s: dead holders are detected by observing them for a lease", error.message);
        return;
    }
    long long now_us = (long long)wall_ms() * 1000;
    double lo_s = (double)(now_us - hi_us) / 1e6, hi_s = (double)(now_us - lo_us) / 1e6;
    double off_s = lo_s > 0 ? lo_s : hi_s < 0 ? -hi_s : 0;
    enum verdict verdict = off_s * 1000 > CLOCK_FAIL_MS   ? VERDICT_FAIL
                           : off_s * 1000 > CLOCK_WARN_MS ? VERDICT_WARN
                                                          : VERDICT_OK;
    double most_s = -lo_s > hi_s ? -lo_s : hi_s;
    char within[32];
    if (most_s < 1)
        snprintf(within, sizeof within, "%.0f ms", most_s * 1000 < 1 ? 1 : most_s * 1000);
    else snprintf(within, sizeof within, "%.1f s", most_s);
    report(exam, verdict, "clock", "within %s of the store%s", within,
           verdict == VERDICT_OK ? ""
           : verdict == VERDICT_WARN
               ? ": harmless for holdfast, but not for every lock client; start NTP"
               : ": requests may be refused; set the clock and start NTP");
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void check_latency(struct examination *exam, struct hf_client *client)
{
    double ms[LOOKS];
    char name[64];
    struct hf_error error;
    scratch_name(&exam->cli->settings, name);
    for (int i = 0; i < LOOKS; i++) {
        struct hf_lock_info *info = NULL;
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        int code = hf_get(client, name, &info, &error);
        clock_gettime(CLOCK_MONOTONIC, &end);
        hf_lock_info_free(info);
        if (code != 0 && code != HF_ERR_ABSENT) {
            report(exam, VERDICT_FAIL, "latency", "%s", error.message);
            return;
        }
        ms[i] =
            (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
    }
    qsort(ms, LOOKS, sizeof ms[0], compare);
    int64_t lease_ms = exam->cli->settings.lease_ms ? exam->cli->settings.lease_ms : 20000;
    bool slow = ms[LOOKS / 2] > (double)lease_ms / 40;
    report(exam, slow ? VERDICT_WARN : VERDICT_OK, "latency",
           "a read takes %.2f ms, at worst %.2f ms%s", ms[LOOKS / 2], ms[LOOKS - 1],
           slow ? ": slow for this lease; use a longer one, or a nearer region" : "");
}

/* ---- the format ---- */

static void add(char *text, const char *more)
{
    size_t len = strlen(text);
    snprintf(text + len, TEXT_SIZE - len, "%s%s", len ? ", " : "", more);
}

static void check_format(struct examination *exam)
{
    const char *name = exam->cli->settings.format ? exam->cli->settings.format : "holdfast";
    struct hf_format_info info;
    char can[TEXT_SIZE] = "", cannot[TEXT_SIZE] = "";
    for (size_t i = 0; hf_format_describe(i, &info) == 0; i++) {
        if (strcmp(info.name, name) != 0) continue;
        add(info.leases ? can : cannot, "leases");
        add(info.tokens && (strcmp(name, "dlock") != 0 || exam->cli->settings.fencing) ? can
                                                                                       : cannot,
            "fencing tokens");
        add(info.data ? can : cannot, "data");
        add(info.shared ? can : cannot, "shared locks");
        add(info.semaphores ? can : cannot, "semaphores");
        add(info.sessions ? can : cannot, "sessions");
        report(exam, VERDICT_OK, "format", "%s has %s%s%s", name, *can ? can : "locks",
               *cannot ? "; it has no " : "", cannot);
        return;
    }
}

static void examine(struct examination *exam)
{
    struct hf_client *client;
    struct hf_error error;
    const struct settings *settings = &exam->cli->settings;
    if (strcmp(settings->store_from, "default") != 0)
        report(exam, VERDICT_OK, "settings", "store %s (%s)", settings->store,
               settings->store_from);
    else
        report(
            exam, VERDICT_WARN, "settings",
            "store %s (default), which only this user on this machine uses; to exclude others as "
            "well, set --store or HOLDFAST_STORE",
            settings->store);
    if (cli_open(exam->cli, &(struct client_use){0}, &client, &error) != 0) {
        report(exam, VERDICT_FAIL, "store", "%s", error.message);
        return;
    }
    check_format(exam);
    if (check_credentials(exam, client) && check_table(exam, client)) {
        check_permissions(exam, client);
        check_clock(exam, client);
        check_latency(exam, client);
    }
    hf_client_close(client, CLOSE_MS);
}

static int doctor(struct cli *cli, void *at)
{
    (void)at;
    struct examination exam = {.cli = cli};
    if (!cli_words(cli, 0, 0, "doctor takes no arguments")) return EXIT_USAGE;
    if (cli->settings.json) {
        hf__buf_init(&exam.buf, 1 << 20);
        hf__json_writer_init(&exam.json, &exam.buf);
        hf__json_open(&exam.json, '{');
        hf__json_put_name(&exam.json, "checks");
        hf__json_open(&exam.json, '[');
    }
    examine(&exam);
    if (cli->settings.json) {
        hf__json_close(&exam.json, ']');
        hf__json_close(&exam.json, '}');
        cli_print_json(&exam.buf);
        hf__buf_free(&exam.buf);
    }
    return exam.worst;
}

static const struct option no_options[] = {{0}};

const struct command command_doctor = {
    .name = "doctor",
    .summary = "check that everything is in order",
    .synopsis = "doctor",
    .text =
        "Checks the store, credentials, region, endpoint, the table's key and time to live, the\n"
        "permissions (with a lock of its own, doctor:scratch), the clock against the store's\n"
        "time, and latency; says how to solve problems; and lists what the format can\n"
        "do.\n\n"
        "Exit code: 0 no problems, 1 a warning, 2 a failure.",
    .examples =
        "  holdfast doctor\n  holdfast --store 'dynamodb://locks?region=eu-west-1' doctor -q",
    .options = no_options,
    .run = doctor,
};
