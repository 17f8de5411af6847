/* holdfast run: a command under a lock. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/await.h"
#include "cli/cli.h"
#include "cli/foreground.h"
#include "cli/guard.h"
#include "cli/moment.h"

enum { CLOSE_MS = 5000 };

struct options {
    bool try;
    int64_t wait_ms; /* -1: no limit */
    const char *wait_text;
    bool shared;
    bool exclusive;
    int64_t limit;
    int conflict_code;
    const char *conflict_text;
    const char *shell;
    int64_t kill_after_ms;
    bool retry;
    const char *data;
    bool unlock;
};

#define AT(member) offsetof(struct options, member)

static const struct option options[] = {
    {"nonblock", 'n', OPTION_FLAG, NULL, AT(try), "do not wait; fail if the lock is held"},
    {"nb", 0, OPTION_FLAG, NULL, AT(try), NULL},
    {"wait", 'w', OPTION_TEXT, "DUR", AT(wait_text), "maximum time to wait (default: forever)"},
    {"timeout", 0, OPTION_TEXT, "DUR", AT(wait_text), NULL},
    {"shared", 's', OPTION_FLAG, NULL, AT(shared), "hold it together with other shared holders"},
    {"exclusive", 'x', OPTION_FLAG, NULL, AT(exclusive), "hold it alone (the default)"},
    {"exclusive", 'e', OPTION_FLAG, NULL, AT(exclusive), NULL},
    {"limit", 0, OPTION_NUMBER, "N", AT(limit), "a semaphore with at most N holders"},
    {"conflict-exit-code", 'E', OPTION_TEXT, "CODE", AT(conflict_text),
     "exit code if the lock was not acquired (default: 1)"},
    {"command", 'c', OPTION_TEXT, "STR", AT(shell), "run with sh -c"},
    {"kill-after", 0, OPTION_DURATION, "DUR", AT(kill_after_ms),
     "from SIGTERM to SIGKILL, if the lock is lost (default: a quarter of the lease)"},
    {"retry", 0, OPTION_FLAG, NULL, AT(retry), "keep trying while the store cannot be reached"},
    {"data", 0, OPTION_TEXT, "TEXT", AT(data), "stored with the lock, and shown to others"},
    {"unlock", 'u', OPTION_FLAG, NULL, AT(unlock), NULL},
    {0},
};

/* Interprets the options; a message and false if they are invalid. */
static bool check(struct options *given)
{
    given->conflict_code = EXIT_NOT_ACQUIRED;
    given->wait_ms = HF_FOREVER;
    if (given->unlock) {
        cli_usage("a lock ends with its command; to release another holder's lock, use "
                  "holdfast release --force");
        return false;
    }
    if (given->wait_text && !duration_parse(given->wait_text, &given->wait_ms)) {
        cli_usage("-w: invalid duration \"%s\": expected a number followed by ms, s, m or h",
                  given->wait_text);
        return false;
    }
    if (given->try && given->wait_text) {
        cli_usage("-n and -w are mutually exclusive");
        return false;
    }
    if (given->try) given->wait_ms = 0;
    if (given->shared && given->exclusive) {
        cli_usage("-s and -x are mutually exclusive");
        return false;
    }
    if (given->exclusive && given->limit > 0) {
        cli_usage("-x and --limit are mutually exclusive");
        return false;
    }
    return !given->conflict_text ||
           cli_parse_exit_code(given->conflict_text, &given->conflict_code);
}

/* The command: the words after the name, or the argument of -c. */
static char **command_line(struct cli *cli, const struct options *given)
{
    static char dash_c[] = "-c", sh[] = "/bin/sh";
    static char *by_shell[] = {NULL, dash_c, NULL, NULL};
    char **words = cli->arguments.at + 1;
    int count = cli->arguments.count - 1;
    const char *shell = given->shell;
    if (!shell && count >= 1 && strcmp(words[0], "-c") == 0) { /* flock FILE -c STR */
        if (count != 2) {
            cli_usage("-c takes one argument, and nothing after it");
            return NULL;
        }
        shell = words[1];
        count = 0;
    }
    if (shell && count > 0) {
        cli_usage("use a command or -c, not both");
        return NULL;
    }
    if (!shell) {
        if (count == 0) cli_usage("missing COMMAND: holdfast run NAME -- COMMAND");
        return count > 0 ? words : NULL;
    }
    char *program = getenv("SHELL");
    by_shell[0] = program && *program ? program : sh;
    by_shell[2] = (char *)shell;
    return by_shell;
}

static int run_locked(struct cli *cli, struct hf_client *client, const struct options *given,
                      const struct guard_options *guard, char **argv)
{
    struct hf_acquire_options how = {
        .size = sizeof how,
        .shared = given->shared,
        .limit = given->limit,
        .data = given->data,
        .data_size = given->data ? strlen(given->data) : 0,
    };
    const struct await_options await = {.wait_ms = given->wait_ms, .retry = given->retry};
    const char *name = cli->arguments.at[0];
    struct await_result got;
    guard_listen(&how);
    const char *outer = getenv("HOLDFAST_LOCK");
    if (outer && strcmp(outer, name) == 0 && given->wait_ms > 0 && !given->shared && !given->limit)
        cli_note(cli,
                 "already running under a lock \"%s\"; if it is the same one, this wait cannot end",
                 name);
    int code = await_lock(cli, client, name, &await, &how, &got);
    if (got.signal == SIGINT && foreground_is_ours()) cli->dies_of = SIGINT;
    if (got.signal) return EXIT_BY_SIGNAL + got.signal;
    if (code == HF_ERR_OTHER_LIMIT) { /* a mistake of the caller, not a conflict */
        cli_fail(cli, &got.error);
        return EXIT_USAGE;
    }
    if (code == HF_ERR_HELD || code == HF_ERR_TIMED_OUT) {
        if (cli->settings.verbose) cli_fail(cli, &got.error);
        return given->conflict_code;
    }
    if (code != 0) return cli_fail(cli, &got.error);
    if (cli->settings.verbose)
        cli_note(cli, "lock \"%s\": acquired, token %lld", name,
                 (long long)hf_lock_token(got.lock));
    struct guard_result result = guard_run(cli, client, got.lock, argv, guard);
    code = guard_release(got.lock, &got.error);
    if (code != 0 && code != HF_ERR_LOST && !result.lost)
        cli_note(cli,
                 "lock \"%s\": the store did not confirm its release; it expires with its "
                 "lease",
                 name);
    if (code == HF_ERR_LOST && !result.lost && result.was_started) {
        cli_note(cli, "lock \"%s\": lost while the command ran", name);
        result.exit_code = EXIT_LOST;
    }
    hf_lock_unref(got.lock);
    return result.exit_code;
}

static int run(struct cli *cli, void *at)
{
    struct options *given = at;
    struct hf_client *client;
    struct hf_error error;
    if (!check(given)) return EXIT_USAGE;
    if (cli->arguments.count < 1)
        return cli_usage("missing NAME and COMMAND: holdfast run NAME -- COMMAND");
    char **argv = command_line(cli, given);
    const struct guard_options guard = {.lease_ms = cli->settings.lease_ms,
                                        .kill_after_ms = given->kill_after_ms};
    if (!argv || !guard_check(&guard)) return EXIT_USAGE;
    int signal, exit_code = guard_begin(argv);
    if (exit_code != 0) return exit_code;
    int code = open_patiently(cli, &(struct client_use){0}, given->retry, &client, &signal, &error);
    if (signal) exit_code = EXIT_BY_SIGNAL + signal;
    else if (code != 0) exit_code = cli_fail(cli, &error);
    else {
        exit_code = run_locked(cli, client, given, &guard, argv);
        hf_client_close(client, exit_code == EXIT_LOST ? 1 : CLOSE_MS);
    }
    guard_end();
    return exit_code;
}

const struct command command_run = {
    .name = "run",
    .summary = "run a command while holding a lock",
    .synopsis = "run [OPTION…] NAME [--] COMMAND [ARG…]\n"
                "       holdfast run [OPTION…] NAME -c STR",
    .text =
        "Acquires the lock NAME, runs the command, and releases the lock. If the lock is about\n"
        "to be lost, the command and all that it has started get SIGTERM, and SIGKILL before\n"
        "the lease ends. Flags of flock(1) that apply here have the same meaning.\n\n"
        "The command sees HOLDFAST_LOCK, HOLDFAST_TOKEN and HOLDFAST_OWNER.\n\n"
        "Exit code: that of the command, or 128 + signal; 1 (-E) not acquired; 64 wrong usage;\n"
        "69 the store cannot be used; 75 the lock was lost; 126, 127 the command cannot be\n"
        "executed.",
    .examples =
        "  holdfast run nightly -- ./report.sh --all\n"
        "  holdfast run -n -E 0 hourly -c 'sync && backup'     skip it if it runs elsewhere\n"
        "  holdfast run -w 10m --lease 1m deploy -- make deploy\n"
        "  holdfast run --limit 3 encoder -- ./encode.sh        at most three at a time",
    .options = options,
    .options_size = sizeof(struct options),
    .ends_at = 1,
    .needs_store = true,
    .run = run,
};
