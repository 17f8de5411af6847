/* holdfast get, list, watch: who holds what. */
#include "cli/look.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cli/moment.h"
#include "cli/terminal.h"
#include "cli/wake.h"
#include "client/info_json.h"

enum { CLOSE_MS = 5000, PAGE = 1000, JSON_MAX = 64 << 20, TEXT_SIZE = 64 };

int64_t store_now_ms(struct hf_client *client)
{
    int64_t lo_us, hi_us;
    return hf_store_time(client, &lo_us, &hi_us, NULL) == 0 ? lo_us / 1000 : wall_ms();
}

/* It has a holder, even if expired. */
static bool is_taken(const struct hf_lock_info *info)
{
    return info->state != HF_LOCK_FREE;
}

static const char *word_for(const struct hf_lock_info *info)
{
    return info->state == HF_LOCK_HELD && info->shared ? "shared" : hf_lock_state_name(info->state);
}

static int64_t now_of(const struct hf_lock_info *info)
{
    return info->now_unix_ms ? info->now_unix_ms : wall_ms();
}

void put_lock(struct hf_json_writer *json, const struct hf_lock_info *info)
{
    hf__json_open(json, '{');
    hf__info_put(json, info, true);
    /* The same again, readable for people. */
    json_moment(json, "since", is_taken(info) ? info->since_unix_ms : 0);
    json_moment(json, "expires", info->expires_unix_ms);
    hf__json_close(json, '}');
}

static void print_json(const struct hf_lock_info *info)
{
    struct hf_buf buf;
    struct hf_json_writer json;
    hf__buf_init(&buf, JSON_MAX);
    hf__json_writer_init(&json, &buf);
    put_lock(&json, info);
    cli_print_json(&buf);
    hf__buf_free(&buf);
}

static enum style style_for(const struct hf_lock_info *info)
{
    static const enum style styles[] = {[HF_LOCK_FREE] = STYLE_DIM,
                                        [HF_LOCK_HELD] = STYLE_GOOD,
                                        [HF_LOCK_EXPIRED] = STYLE_WARN,
                                        [HF_LOCK_DAMAGED] = STYLE_BAD};
    return styles[info->state];
}

/* ---- get ---- */

static void print_field(const char *name, const char *value)
{
    print_safely(stdout, name);
    for (size_t len = strlen(name); len < 8; len++) putchar(' ');
    putchar(' ');
    print_safely(stdout, value);
    putchar('\n');
}

static void print_owner(const char *owner, const char *instance)
{
    print_safely(stdout, owner ? owner : "?");
    if (!instance) return;
    fputs(" (", stdout);
    print_safely(stdout, instance);
    putchar(')');
}

static void print_who(const char *label, const char *owner, const char *instance)
{
    printf("%-8s ", label);
    print_owner(owner, instance);
    putchar('\n');
}

static void print_details(const struct cli *cli, const struct hf_lock_info *info)
{
    int64_t now_ms = now_of(info);
    char text[MOMENT_SIZE], more[TEXT_SIZE * 2];
    printf("%-9s%s%s%s\n", "state", style_on(cli->colors, style_for(info)), word_for(info),
           style_off(cli->colors));
    if (info->damage) {
        snprintf(more, sizeof more, "attribute \"%s\" is invalid; no client takes the lock",
                 info->damage);
        print_field("damage", more);
    }
    if (info->owner)
        print_who(is_taken(info) ? "holder" : "last", info->owner,
                  is_taken(info) ? info->instance : NULL);
    if (info->shared) {
        if (info->limit)
            snprintf(more, sizeof more, "%lld of %lld", (long long)info->holders,
                     (long long)info->limit);
        else snprintf(more, sizeof more, "%lld", (long long)info->holders);
        print_field("holders", more);
    }
    for (size_t i = 0; info->held_by_count > 1 && i < info->held_by_count; i++)
        print_who("", info->held_by[i].owner, info->held_by[i].instance);
    for (size_t i = 0; i < info->waiting_count; i++)
        print_who(i == 0 ? "waiting" : "", info->waiting[i].owner, info->waiting[i].instance);
    if (is_taken(info) && info->since_unix_ms) {
        char moment[MOMENT_SIZE];
        snprintf(more, sizeof more, "%s (%s)", moment_print(info->since_unix_ms, moment),
                 duration_print(now_ms - info->since_unix_ms, text));
        print_field("since", more);
    }
    if (is_taken(info) && info->expires_unix_ms)
        print_field("left", info->state == HF_LOCK_EXPIRED
                                ? "none: not taken over since it expired"
                                : duration_print(info->expires_unix_ms - now_ms, text));
    if (info->lease_ms) print_field("lease", duration_print(info->lease_ms, text));
    if (info->token) printf("%-9s%lld\n", "token", (long long)info->token);
    if (info->data) {
        struct hf_slice data = hf__slice(info->data, info->data_size);
        if (hf__utf8_valid(data) && data.len < 200 &&
            (!data.len || !memchr(data.ptr, 0, data.len))) {
            char copy[256];
            snprintf(copy, sizeof copy, "%.*s", HF_FMT(data));
            print_field("data", copy);
        } else {
            printf("%-9s%zu bytes (see -o json)\n", "data", data.len);
        }
    }
    for (size_t i = 0; i < info->attribute_count; i++)
        print_field(info->attributes[i].name, info->attributes[i].text);
    if (info->forced_by) {
        printf("%-9sby ", "forced");
        print_safely(stdout, info->forced_by);
        fputs(": ", stdout);
        print_safely(stdout, info->forced_reason ? info->forced_reason : "");
        putchar('\n');
    }
}

static int get(struct cli *cli, void *at)
{
    (void)at;
    struct hf_client *client;
    struct hf_error error;
    struct hf_lock_info *info = NULL;
    struct hf_lock_info none = {0};
    if (!cli_words(cli, 1, 1, "expected the name of a lock")) return EXIT_USAGE;
    none.name = cli->arguments.at[0];
    int code = cli_open(cli, &(struct client_use){0}, &client, &error);
    if (code != 0) return cli_fail(cli, &error);
    code = hf_get(client, none.name, &info, &error);
    hf_client_close(client, CLOSE_MS);
    if (code != 0 && code != HF_ERR_ABSENT) return cli_fail(cli, &error);
    const struct hf_lock_info *shown = code == 0 ? info : &none;
    bool held = shown->held;
    if (cli->settings.json) print_json(shown);
    else if (!cli->settings.quiet) print_details(cli, shown);
    hf_lock_info_free(info);
    return cli->settings.quiet && !held ? EXIT_NOT_ACQUIRED : 0;
}

static const struct option no_options[] = {{0}};

const struct command command_get = {
    .name = "get",
    .summary = "show who holds a lock",
    .synopsis = "get NAME",
    .text =
        "Shows the state of the lock NAME: free, held, shared, expired (anybody can acquire it) or\n"
        "damaged; its holder, since when, how much is left of its lease, its token and data.\n"
        "With -q it prints nothing; the exit code is 0 if held, 1 if free.",
    .examples = "  holdfast get nightly\n"
                "  holdfast get -o json nightly | jq -r .owner\n"
                "  if holdfast get -q deploy; then echo 'deployment running'; fi",
    .options = no_options,
    .holds_nothing = true,
    .run = get,
};

/* ---- list ---- */

struct list_options {
    const char *prefix;
    bool held; /* the default */
    bool all;
    const char *key;
    bool any_sort_key;
};

static const struct option list_options[] = {
    {"prefix", 'p', OPTION_TEXT, "TEXT", offsetof(struct list_options, prefix),
     "locks whose names begin with TEXT"},
    {"all", 'a', OPTION_FLAG, NULL, offsetof(struct list_options, all),
     "include free and expired locks"},
    {"held", 0, OPTION_FLAG, NULL, offsetof(struct list_options, held),
     "held locks only (the default)"},
    {"key", 0, OPTION_TEXT, "NAME", offsetof(struct list_options, key),
     "locks with this partition key, under all sort keys"},
    {"any-sort-key", 0, OPTION_FLAG, NULL, offsetof(struct list_options, any_sort_key),
     "locks under all sort keys, not only ours"},
    {0},
};

static void print_header(const struct cli *cli)
{
    printf("%s%-28s %-8s %8s %8s %-18s %s%s\n", style_on(cli->colors, STYLE_BOLD), "NAME", "STATE",
           "AGE", "LEFT", "TOKEN", "HOLDER", style_off(cli->colors));
}

/* The number of characters, which is the width unless some are wide. */
static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static void print_row(const struct cli *cli, const struct hf_lock_info *info)
{
    int64_t now_ms = now_of(info);
    char age[MOMENT_SIZE] = "-", left[MOMENT_SIZE] = "-", token[24] = "-", state[TEXT_SIZE];
    if (is_taken(info) && info->since_unix_ms) duration_print(now_ms - info->since_unix_ms, age);
    if (is_taken(info) && info->expires_unix_ms)
        duration_print(info->expires_unix_ms - now_ms, left);
    if (info->token) snprintf(token, sizeof token, "%lld", (long long)info->token);
    snprintf(state, sizeof state, "%s", word_for(info));
    if (info->held && info->shared)
        snprintf(state, sizeof state, "shared %lld", (long long)info->holders);
    print_safely(stdout, info->name);
    for (size_t i = characters(info->name); i < 28; i++) putchar(' ');
    printf(" %s%-8s%s %8s %8s %-18s ", style_on(cli->colors, style_for(info)), state,
           style_off(cli->colors), age, left, token);
    if (is_taken(info) && info->owner) print_owner(info->owner, info->instance);
    else putchar('-');
    if (info->sort_key) {
        fputs("  ", stdout);
        print_safely(stdout, info->sort_key);
    }
    putchar('\n');
}

static int compare_names(const void *a, const void *b)
{
    const struct hf_lock_info *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    if (order == 0 && (*x)->sort_key && (*y)->sort_key)
        order = strcmp((*x)->sort_key, (*y)->sort_key);
    return order;
}

/* All pages, kept until everything is printed. */
struct pages {
    struct hf_list_page **at;
    size_t count, capacity;
    const struct hf_lock_info **locks;
    size_t lock_count, lock_capacity;
    struct hf_arena arena;
};

static void pages_free(struct pages *pages)
{
    for (size_t i = 0; i < pages->count; i++) hf_list_page_free(pages->at[i]);
    hf__arena_free(&pages->arena);
    *pages = (struct pages){0};
}

static int read_all(struct hf_client *client, const struct list_options *given, struct pages *ret,
                    struct hf_error *reterr)
{
    struct hf_list_options how = {.size = sizeof how,
                                  .prefix = given->prefix,
                                  .limit = PAGE,
                                  .held_only = !given->all,
                                  .name = given->key,
                                  .any_sort_key = given->any_sort_key};
    do {
        struct hf_list_page *page;
        int code = hf_list(client, &how, &page, reterr);
        if (code != 0) return code;
        void *grown =
            hf__arena_grow(&ret->arena, ret->at, ret->count, &ret->capacity, sizeof *ret->at);
        if (!grown) {
            hf_list_page_free(page);
            return hf__error_no_memory(reterr);
        }
        ret->at = grown;
        ret->at[ret->count++] = page;
        for (size_t i = 0; i < page->count; i++) {
            grown = hf__arena_grow(&ret->arena, ret->locks, ret->lock_count, &ret->lock_capacity,
                                   sizeof *ret->locks);
            if (!grown) return hf__error_no_memory(reterr);
            ret->locks = grown;
            ret->locks[ret->lock_count++] = &page->locks[i];
        }
        how.cursor = page->cursor;
    } while (how.cursor);
    if (ret->lock_count > 0) qsort(ret->locks, ret->lock_count, sizeof *ret->locks, compare_names);
    return 0;
}

static void print_all_json(const struct pages *pages)
{
    struct hf_buf buf;
    struct hf_json_writer json;
    hf__buf_init(&buf, (size_t)1 << 31);
    hf__json_writer_init(&json, &buf);
    hf__json_open(&json, '{');
    hf__json_put_name(&json, "locks");
    hf__json_open(&json, '[');
    for (size_t i = 0; i < pages->lock_count; i++) put_lock(&json, pages->locks[i]);
    hf__json_close(&json, ']');
    hf__json_close(&json, '}');
    cli_print_json(&buf);
    hf__buf_free(&buf);
}

static int list(struct cli *cli, void *at)
{
    const struct list_options *given = at;
    struct hf_client *client;
    struct hf_error error;
    struct pages pages = {0};
    if (!cli_words(cli, 0, 0, "list takes no name; use --prefix, or holdfast get NAME"))
        return EXIT_USAGE;
    if (given->all && given->held) return cli_usage("--all and --held are mutually exclusive");
    int code = cli_open(cli, &(struct client_use){0}, &client, &error);
    if (code != 0) return cli_fail(cli, &error);
    code = read_all(client, given, &pages, &error);
    hf_client_close(client, CLOSE_MS);
    if (code == 0 && cli->settings.json) {
        print_all_json(&pages);
    } else if (code == 0) {
        if (!cli->settings.quiet && pages.lock_count > 0) print_header(cli);
        for (size_t i = 0; i < pages.lock_count; i++) {
            if (cli->settings.quiet) {
                print_safely(stdout, pages.locks[i]->name);
                putchar('\n');
                continue;
            }
            print_row(cli, pages.locks[i]);
        }
    }
    pages_free(&pages);
    return code == 0 ? 0 : cli_fail(cli, &error);
}

const struct command command_list = {
    .name = "list",
    .summary = "show the locks that are held",
    .synopsis = "list [--prefix TEXT] [--all]",
    .text = "Shows the locks that are held, in the order of their names; with --all also free and\n"
            "expired ones. With -q only their names are printed.",
    .examples = "  holdfast list\n  holdfast list --all --prefix customer-\n"
                "  holdfast list -o json | jq -r '.locks[].name'",
    .options = list_options,
    .options_size = sizeof(struct list_options),
    .holds_nothing = true,
    .run = list,
};

/* ---- watch ---- */

struct watch_options {
    const char *prefix;
    int64_t count;
};

static const struct option watch_options[] = {
    {"prefix", 'p', OPTION_TEXT, "TEXT", offsetof(struct watch_options, prefix),
     "all locks whose names begin with TEXT (empty: all locks)"},
    {"count", 'n', OPTION_NUMBER, "N", offsetof(struct watch_options, count),
     "exit after N changes"},
    {0},
};

struct watching {
    struct cli *cli;
    struct hf_client *client;
    pthread_mutex_t mutex;
    int64_t printed;
};

static void print_change(struct watching *watching, const struct hf_lock_info *info)
{
    const struct cli *cli = watching->cli;
    int64_t now_ms = store_now_ms(watching->client);
    if (cli->settings.json) {
        struct hf_buf buf;
        struct hf_json_writer json;
        hf__buf_init(&buf, JSON_MAX);
        hf__json_writer_init(&json, &buf);
        hf__json_open(&json, '{');
        json_moment(&json, "at", now_ms);
        hf__json_put_name(&json, "lock");
        put_lock(&json, info);
        hf__json_close(&json, '}');
        cli_print_json(&buf);
        hf__buf_free(&buf);
    } else {
        char at[MOMENT_SIZE];
        printf("%s  ", moment_print(now_ms, at));
        print_safely(stdout, info->name);
        printf("  %s%s%s", style_on(cli->colors, style_for(info)), word_for(info),
               style_off(cli->colors));
        if (is_taken(info) && info->owner) {
            fputs("  ", stdout);
            print_owner(info->owner, info->instance);
        }
        if (is_taken(info) && info->token) printf("  token %lld", (long long)info->token);
        if (info->held && info->holders > 1) printf("  %lld holders", (long long)info->holders);
        putchar('\n');
        fflush(stdout);
    }
    pthread_mutex_lock(&watching->mutex);
    watching->printed++;
    pthread_mutex_unlock(&watching->mutex);
}

static void on_change(void *user, const struct hf_lock_info *info)
{
    print_change(user, info);
    wake_up();
}

static bool has_enough(struct watching *watching, const struct watch_options *given)
{
    pthread_mutex_lock(&watching->mutex);
    bool enough = given->count > 0 && watching->printed >= given->count;
    pthread_mutex_unlock(&watching->mutex);
    return enough || ferror(stdout);
}

static int watch_one(struct watching *watching, const struct watch_options *given)
{
    struct hf_watcher *watcher;
    struct hf_lock_info *info = NULL;
    struct hf_error error;
    int signal = 0;
    /* A watcher does not report a store that does not answer: check at least once. */
    int code = hf_get(watching->client, watching->cli->arguments.at[0], &info, &error);
    hf_lock_info_free(info);
    if (code != 0 && code != HF_ERR_ABSENT) return cli_fail(watching->cli, &error);
    code = hf_watch(watching->client, watching->cli->arguments.at[0],
                    watching->cli->settings.poll_ms, on_change, watching, &watcher, &error);
    if (code != 0) return cli_fail(watching->cli, &error);
    while (!has_enough(watching, given) && !(signal > 0 && wake_is_end(signal)))
        signal = wake_wait(WAKE_NEVER);
    hf_watch_stop(watcher);
    return signal > 0 && wake_is_end(signal) ? EXIT_BY_SIGNAL + signal : 0;
}

static bool has_changed(const struct hf_lock_info *a, const struct hf_lock_info *b)
{
    const char *x = a->owner ? a->owner : "", *y = b->owner ? b->owner : "";
    return a->state != b->state || a->token != b->token || a->holders != b->holders ||
           a->since_unix_ms != b->since_unix_ms || strcmp(x, y) != 0;
}

/* Both are sorted by name. */
static void print_differences(struct watching *watching, const struct watch_options *given,
                              const struct pages *before, const struct pages *now)
{
    size_t i = 0, k = 0;
    while ((i < before->lock_count || k < now->lock_count) && !has_enough(watching, given)) {
        int order = i == before->lock_count ? 1
                    : k == now->lock_count  ? -1
                                            : compare_names(&before->locks[i], &now->locks[k]);
        if (order < 0) {
            const struct hf_lock_info gone = {.name = before->locks[i++]->name};
            print_change(watching, &gone);
        } else {
            if (order > 0 || has_changed(before->locks[i], now->locks[k]))
                print_change(watching, now->locks[k]);
            k++;
            if (order == 0) i++;
        }
    }
}

static int watch_many(struct watching *watching, const struct watch_options *given)
{
    enum { EVERY_MS = 1000 };
    int64_t every_ms = watching->cli->settings.poll_ms ? watching->cli->settings.poll_ms : EVERY_MS;
    const struct list_options all = {.prefix = given->prefix, .all = true};
    struct pages before = {0};
    struct hf_error error;
    int code = 0, signal = 0;
    while (code == 0 && !has_enough(watching, given) && !(signal > 0 && wake_is_end(signal))) {
        struct pages now = {0};
        code = read_all(watching->client, &all, &now, &error);
        if (code == 0) print_differences(watching, given, &before, &now);
        pages_free(&before);
        before = now;
        if (code == 0 && !has_enough(watching, given)) signal = wake_wait(every_ms);
    }
    pages_free(&before);
    if (code != 0) return cli_fail(watching->cli, &error);
    return signal > 0 && wake_is_end(signal) ? EXIT_BY_SIGNAL + signal : 0;
}

static int watch(struct cli *cli, void *at)
{
    const struct watch_options *given = at;
    struct watching watching = {.cli = cli, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct hf_error error;
    if (given->prefix && cli->arguments.count > 0)
        return cli_usage("give a lock or --prefix, not both");
    if (!given->prefix && !cli_words(cli, 1, 1, "expected the name of a lock, or --prefix"))
        return EXIT_USAGE;
    int code = cli_open(cli, &(struct client_use){0}, &watching.client, &error);
    if (code != 0) return cli_fail(cli, &error);
    int exit_code = given->prefix ? watch_many(&watching, given) : watch_one(&watching, given);
    hf_client_close(watching.client, CLOSE_MS);
    return exit_code;
}

const struct command command_watch = {
    .name = "watch",
    .summary = "print the changes of a lock as they happen",
    .synopsis = "watch NAME\n       holdfast watch --prefix TEXT",
    .text = "Prints the state of a lock, and a line whenever it has changed, until it is\n"
            "interrupted. Changes that are undone between two polls (--poll, default 1s) are not\n"
            "seen.",
    .examples = "  holdfast watch leader\n"
                "  holdfast watch -o json --prefix job- | jq --unbuffered -r .lock.owner\n"
                "  holdfast watch -n 1 nightly      print its current state and exit",
    .options = watch_options,
    .options_size = sizeof(struct watch_options),
    .run = watch,
};
