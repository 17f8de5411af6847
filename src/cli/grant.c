/* holdfast acquire, renew, release: a lock that outlives the process that takes it. */
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/await.h"
#include "cli/cli.h"
#include "cli/guard.h"
#include "cli/moment.h"
#include "cli/terminal.h"
#include "cli/wake.h"

enum { CLOSE_MS = 5000, INPUT_LOOK_MS = 100 };

/* A lock without a lease reports more time left than any lease has. */
#define NEVER_MS ((int64_t)180 * 86400 * 1000)

/* ---- acquire ---- */

struct acquire_options {
    bool try;
    const char *wait_text;
    bool shared;
    int64_t limit;
    const char *conflict_text;
    const char *data;
    bool hold;
    bool retry;
};

#define AT(member) offsetof(struct acquire_options, member)

static const struct option acquire_options[] = {
    {"nonblock", 'n', OPTION_FLAG, NULL, AT(try), "do not wait; fail if the lock is held"},
    {"wait", 'w', OPTION_TEXT, "DUR", AT(wait_text), "maximum time to wait (default: forever)"},
    {"timeout", 0, OPTION_TEXT, "DUR", AT(wait_text), NULL},
    {"shared", 's', OPTION_FLAG, NULL, AT(shared),
     "with --hold: together with other shared holders"},
    {"limit", 0, OPTION_NUMBER, "N", AT(limit), "with --hold: a semaphore with at most N holders"},
    {"conflict-exit-code", 'E', OPTION_TEXT, "CODE", AT(conflict_text),
     "exit code if the lock was not acquired (default: 1)"},
    {"data", 0, OPTION_TEXT, "TEXT", AT(data), "stored with the lock, and shown to others"},
    {"hold", 0, OPTION_FLAG, NULL, AT(hold),
     "keep it until the end of standard input, then release it"},
    {"retry", 0, OPTION_FLAG, NULL, AT(retry), "keep trying while the store cannot be reached"},
    {0},
};

/* What is printed about a grant. */
struct said {
    const char *name;
    const char *grant; /* NULL: held by this process */
    const char *owner;
    int64_t token;
    int64_t asked_ms; /* the wall clock before left_ms was read, or earlier */
    int64_t left_ms;
};

static int print_grant(const struct cli *cli, const struct said *said)
{
    char text[MOMENT_SIZE];
    bool expires = said->left_ms < NEVER_MS;
    int64_t expires_ms = expires ? said->asked_ms + said->left_ms : 0;
    if (cli->settings.json) {
        struct hf_buf buf;
        struct hf_json_writer json;
        hf__buf_init(&buf, 1 << 20);
        hf__json_writer_init(&json, &buf);
        hf__json_open(&json, '{');
        json_text(&json, "name", said->name);
        json_text(&json, "grant", said->grant);
        if (said->owner) json_text(&json, "owner", said->owner);
        json_number(&json, "token", said->token);
        json_number(&json, "left_ms", said->left_ms);
        json_moment(&json, "expires", expires_ms);
        hf__json_close(&json, '}');
        cli_print_json(&buf);
        hf__buf_free(&buf);
    } else if (cli->settings.quiet) {
        if (said->grant) printf("%s\n", said->grant);
    } else {
        if (said->grant) printf("grant    %s\n", said->grant);
        printf("token    %lld\nexpires  %s\n", (long long)said->token,
               expires ? moment_print(expires_ms, text) : "never: it stays until it is released");
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : EXIT_UNAVAILABLE; /* or a closed pipe */
}

static bool input_has_ended(void)
{
    char waste[4096];
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, waste, sizeof waste) <= 0;
}

static int hold(struct cli *cli, struct hf_lock *lock)
{
    struct hf_error error;
    int signal = 0;
    bool ended = false;
    while (hf_lock_is_held(lock) && !ended) {
        signal = wake_wait(INPUT_LOOK_MS);
        ended = (signal > 0 && wake_is_end(signal)) || input_has_ended();
    }
    int code = hf_release(lock, NULL, &error);
    if (code == HF_ERR_LOST) {
        cli_note(cli, "lock \"%s\" was lost: %s", hf_lock_name(lock),
                 hf_reason_meaning(hf_lock_reason(lock)));
        return EXIT_LOST;
    }
    if (code != 0) return cli_fail(cli, &error);
    return signal > 0 && wake_is_end(signal) ? EXIT_BY_SIGNAL + signal : 0;
}

static int acquire_with(struct cli *cli, struct hf_client *client,
                        const struct acquire_options *given, int64_t wait_ms, int conflict_code)
{
    struct hf_acquire_options how = {
        .size = sizeof how,
        .shared = given->shared,
        .limit = given->limit,
        .data = given->data,
        .data_size = given->data ? strlen(given->data) : 0,
    };
    const struct await_options await = {.wait_ms = wait_ms, .retry = given->retry};
    struct await_result got;
    char grant[HF_GRANT_SIZE];
    int code = await_lock(cli, client, cli->arguments.at[0], &await, &how, &got);
    if (got.signal) return EXIT_BY_SIGNAL + got.signal;
    if (code != 0) {
        int exit_code = cli_fail(cli, &got.error);
        bool conflict = code == HF_ERR_HELD || code == HF_ERR_TIMED_OUT;
        return conflict ? conflict_code : exit_code;
    }
    if (!given->hold) code = hf_lock_grant(got.lock, grant, &got.error);
    const struct said said = {
        .name = hf_lock_name(got.lock),
        .grant = given->hold ? NULL : grant,
        .owner = hf_lock_owner(got.lock),
        .token = hf_lock_token(got.lock),
        .asked_ms = wall_ms(),
        .left_ms = hf_lock_left_ms(got.lock),
    };
    int exit_code = code == 0 ? print_grant(cli, &said) : cli_fail(cli, &got.error);
    if (exit_code != 0) hf_release(got.lock, NULL, NULL); /* nobody could ever release it */
    else if (given->hold) exit_code = hold(cli, got.lock);
    hf_lock_unref(got.lock);
    return exit_code;
}

static int acquire(struct cli *cli, void *at)
{
    const struct acquire_options *given = at;
    struct hf_client *client;
    struct hf_error error;
    int64_t wait_ms = given->try ? 0 : HF_FOREVER;
    if (!cli_words(cli, 1, 1, "expected the name of a lock")) return EXIT_USAGE;
    if (given->try && given->wait_text) return cli_usage("-n and -w are mutually exclusive");
    if (given->wait_text && !duration_parse(given->wait_text, &wait_ms))
        return cli_usage("-w: invalid duration \"%s\": expected a number followed by ms, s, m or h",
                         given->wait_text);
    int conflict_code = EXIT_NOT_ACQUIRED;
    if (given->conflict_text && !cli_parse_exit_code(given->conflict_text, &conflict_code))
        return EXIT_USAGE;
    bool is_native = !cli->settings.format || strcmp(cli->settings.format, "holdfast") == 0;
    if ((given->shared || given->limit) && !given->hold && is_native)
        return cli_usage("a shared lock needs a process that keeps it: add --hold, or use "
                         "holdfast run");
    const struct client_use use = {.detached = !given->hold};
    int signal;
    int code = open_patiently(cli, &use, given->retry, &client, &signal, &error);
    if (signal) return EXIT_BY_SIGNAL + signal;
    if (code != 0) return cli_fail(cli, &error);
    int exit_code = acquire_with(cli, client, given, wait_ms, conflict_code);
    hf_client_close(client, CLOSE_MS);
    return exit_code;
}

const struct command command_acquire = {
    .name = "acquire",
    .summary = "acquire a lock, and print its grant",
    .synopsis = "acquire [OPTION…] NAME",
    .text =
        "Acquires the lock NAME and prints its grant, its token, and when it expires. It is not\n"
        "renewed automatically: use holdfast renew GRANT before it expires, and holdfast release\n"
        "GRANT when you are done. With -q only the grant is printed.\n\n"
        "With --hold the lock is renewed and kept until the end of standard input.\n\n"
        "Exit code: 0; 1 (-E) not acquired; 69 the store cannot be used; with --hold, 75 lost.",
    .examples = "  grant=$(holdfast acquire -q --lease 5m deploy) || exit\n"
                "  holdfast renew \"$grant\"\n"
                "  holdfast release \"$grant\"",
    .options = acquire_options,
    .options_size = sizeof(struct acquire_options),
    .needs_store = true,
    .run = acquire,
};

/* ---- renew ---- */

static const struct option no_options[] = {{0}};

static int renew(struct cli *cli, void *at)
{
    (void)at;
    struct hf_client *client;
    struct hf_error error;
    struct hf_grant_status status;
    if (!cli_words(cli, 1, 1, "expected the grant that acquire printed")) return EXIT_USAGE;
    int code = cli_open(cli, &(struct client_use){.detached = true}, &client, &error);
    if (code != 0) return cli_fail(cli, &error);
    const char *grant = cli->arguments.at[0], *hash = strrchr(grant, '#');
    int64_t asked_ms = wall_ms();
    code = hf_grant_renew(client, grant, cli->given_lease_ms, &status, &error);
    int exit_code;
    if (code != 0) {
        exit_code = cli_fail(cli, &error);
    } else {
        const struct said said = {
            .name = hf__arena_str(&cli->arena, hf__slice(grant, (size_t)(hash - grant))),
            .grant = grant,
            .token = status.token,
            .asked_ms = asked_ms,
            .left_ms = status.left_ms,
        };
        exit_code = print_grant(cli, &said);
    }
    hf_client_close(client, CLOSE_MS);
    return exit_code;
}

const struct command command_renew = {
    .name = "renew",
    .summary = "renew a grant for a full lease",
    .synopsis = "renew [--lease DUR] GRANT",
    .text =
        "Renews the grant for a full lease from now on: as long as before, or --lease if that is\n"
        "longer; a lease never shrinks. (Records of dlock and single-table do not contain the\n"
        "length of a lease: there it is --lease, or the default.)\n"
        "An expired grant is renewed too, unless another client has taken the lock since.\n\n"
        "Exit code: 0; 75 the grant no longer holds the lock.",
    .examples = "  holdfast renew \"$grant\"\n  holdfast renew --lease 10m \"$grant\"",
    .options = no_options,
    .holds_nothing = true,
    .run = renew,
};

/* ---- release ---- */

struct release_options {
    bool force;
    const char *reason;
    int64_t timeout_ms;
};

static const struct option release_options[] = {
    {"force", 0, OPTION_FLAG, NULL, offsetof(struct release_options, force),
     "take the lock NAME away from its holder; requires --reason"},
    {"reason", 0, OPTION_TEXT, "TEXT", offsetof(struct release_options, reason),
     "the reason; it is stored with the lock"},
    {"timeout", 0, OPTION_DURATION, "DUR", offsetof(struct release_options, timeout_ms),
     "shared holders: time for them to comply (default: 1m)"},
    {0},
};

static int release(struct cli *cli, void *at)
{
    const struct release_options *given = at;
    struct hf_client *client;
    struct hf_error error;
    if (!cli_words(cli, 1, 1,
                   given->force ? "expected the name of a lock"
                                : "expected the grant that acquire printed"))
        return EXIT_USAGE;
    if (given->force && (!given->reason || !*given->reason))
        return cli_usage("--force requires --reason");
    if (!given->force && given->reason) return cli_usage("--reason requires --force");
    const char *word = cli->arguments.at[0];
    if (!given->force && !strchr(word, '#'))
        return cli_usage(
            "invalid grant \"%s\"; to take a lock away from its holder: holdfast release "
            "--force --reason TEXT %s",
            word, word);
    int code = cli_open(cli, &(struct client_use){0}, &client, &error);
    if (code != 0) return cli_fail(cli, &error);
    if (given->force)
        code = hf_force_release(client, word, given->reason, given->timeout_ms, &error);
    else code = hf_grant_release(client, word, &error);
    int exit_code = code == 0 ? 0 : cli_fail(cli, &error);
    if (code == HF_ERR_TIMED_OUT) exit_code = EXIT_UNAVAILABLE; /* 1: it is not held */
    hf_client_close(client, CLOSE_MS);
    return exit_code;
}

const struct command command_release = {
    .name = "release",
    .summary = "release a grant, or take a lock away from its holder",
    .synopsis = "release GRANT\n       holdfast release --force --reason TEXT NAME",
    .text =
        "Releases the grant that acquire printed. Releasing it twice does no harm (in the native\n"
        "format; records of other formats do not remember it).\n\n"
        "With --force it takes the lock NAME away from its holder. The holder learns of it at its\n"
        "next heartbeat, and until then believes that it holds the lock: make sure that it is\n"
        "dead, or does no harm. The operator and the reason are stored with the lock.\n\n"
        "Exit code: 0; 1 the lock is not held; 69 it was not released in time; 75 the grant no\n"
        "longer holds it.",
    .examples = "  holdfast release \"$grant\"\n"
                "  holdfast release --force --reason 'web3 is gone, see ticket 812' nightly",
    .options = release_options,
    .options_size = sizeof(struct release_options),
    .holds_nothing = true,
    .run = release,
};
