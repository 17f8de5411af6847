/* holdfast elect: a command on one machine of many. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/await.h"
#include "cli/cli.h"
#include "cli/guard.h"
#include "cli/moment.h"
#include "cli/terminal.h"
#include "cli/wake.h"
#include "client/info_json.h"

enum { CLOSE_MS = 5000, AGAIN_MS = 1000 };

struct options {
    const char *data;
    int64_t kill_after_ms;
};

static const struct option options[] = {
    {"data", 0, OPTION_TEXT, "TEXT", offsetof(struct options, data),
     "published by the leader, such as its address"},
    {"kill-after", 0, OPTION_DURATION, "DUR", offsetof(struct options, kill_after_ms),
     "from SIGTERM to SIGKILL, if leadership is lost (default: a quarter of the lease)"},
    {0},
};

/* The leader's data, if it is a short text. */
static void print_data(const struct hf_lock_info *info)
{
    char text[200];
    if (!info || !info->data || info->data_size == 0 || info->data_size >= sizeof text) return;
    memcpy(text, info->data, info->data_size);
    text[info->data_size] = '\0';
    if (!hf__utf8_valid(hf__slice(text, info->data_size))) return;
    fputs(": ", stdout);
    print_safely(stdout, text);
}

/* `info`: what is known of the leader besides its name; NULL: nothing. */
static void print_leader(const struct cli *cli, const char *name, const char *leader, bool is_self,
                         const struct hf_lock_info *info)
{
    if (cli->settings.json) {
        struct hf_buf buf;
        struct hf_json_writer json;
        hf__buf_init(&buf, 1 << 16);
        hf__json_writer_init(&json, &buf);
        hf__json_open(&json, '{');
        json_moment(&json, "at", wall_ms());
        json_text(&json, "name", name);
        json_text(&json, "leader", leader);
        json_bool(&json, "self", is_self);
        if (info && info->instance) json_text(&json, "instance", info->instance);
        if (info) hf__data_put(&json, info->data, info->data_size);
        hf__json_close(&json, '}');
        cli_print_json(&buf);
        hf__buf_free(&buf);
    } else if (!cli->settings.quiet) {
        fputs("leader: ", stdout);
        print_safely(stdout, leader ? leader : "nobody");
        if (is_self) fputs(" (this one)", stdout);
        if (info && info->instance) {
            fputs(" (", stdout);
            print_safely(stdout, info->instance);
            putchar(')');
        }
        print_data(info);
        putchar('\n');
        fflush(stdout);
    }
}

struct campaign {
    struct cli *cli;
    struct hf_client *client;
};

static void held_by(void *user, const char *owner)
{
    const struct campaign *campaign = user;
    if (strcmp(owner, hf_client_owner(campaign->client)) == 0) return; /* printed when it leads */
    print_leader(campaign->cli, campaign->cli->arguments.at[0], owner, false, NULL);
}

/* ---- without a command: only watch ---- */

static void changed(void *user, enum hf_leadership state, const struct hf_lock_info *info)
{
    struct cli *cli = user;
    if (state == HF_LEADER_OTHER || state == HF_LEADER_NONE)
        print_leader(cli, cli->arguments.at[0], state == HF_LEADER_OTHER ? info->owner : NULL,
                     false, state == HF_LEADER_OTHER ? info : NULL);
    wake_up();
}

static int observe(struct cli *cli, struct hf_client *client)
{
    const struct hf_elect_options how = {
        .size = sizeof how, .observe_only = true, .changed = changed, .user = cli};
    struct hf_election *election;
    struct hf_error error;
    int signal = 0;
    struct hf_lock_info *info = NULL;
    int code = hf_get(client, cli->arguments.at[0], &info, &error);
    hf_lock_info_free(info);
    if (code != 0 && code != HF_ERR_ABSENT) return cli_fail(cli, &error);
    code = hf_elect(client, cli->arguments.at[0], &how, &election, &error);
    if (code != 0) return cli_fail(cli, &error);
    while (!(signal > 0 && wake_is_end(signal)) && !ferror(stdout)) signal = wake_wait(WAKE_NEVER);
    hf_election_resign(election, NULL);
    return signal > 0 && wake_is_end(signal) ? EXIT_BY_SIGNAL + signal : 0;
}

/* ---- with one: campaign ---- */

/* One campaign, one command. True: leadership was lost, and another campaign may begin. */
static bool lead_once(struct cli *cli, struct hf_client *client, const struct options *given,
                      const struct guard_options *guard, int *ret_exit_code)
{
    struct campaign campaign = {cli, client};
    struct hf_acquire_options how = {
        .size = sizeof how,
        .data = given->data,
        .data_size = given->data ? strlen(given->data) : 0,
    };
    const struct await_options await = {
        .wait_ms = HF_FOREVER, .retry = true, .held_by = held_by, .user = &campaign};
    struct await_result got;
    guard_listen(&how);
    int code = await_lock(cli, client, cli->arguments.at[0], &await, &how, &got);
    if (code != 0) {
        *ret_exit_code = got.signal ? EXIT_BY_SIGNAL + got.signal : cli_fail(cli, &got.error);
        return false;
    }
    print_leader(cli, hf_lock_name(got.lock), hf_lock_owner(got.lock), true, NULL);
    struct guard_result result = guard_run(cli, client, got.lock, cli->arguments.at + 1, guard);
    if (guard_release(got.lock, &got.error) == HF_ERR_LOST && result.was_started)
        result.lost = true;
    hf_lock_unref(got.lock);
    *ret_exit_code = result.exit_code;
    return result.lost && !result.ended_by;
}

static int elect(struct cli *cli, void *at)
{
    const struct options *given = at;
    struct hf_client *client;
    struct hf_error error;
    int exit_code = 0;
    if (cli->arguments.count < 1)
        return cli_usage("missing NAME: holdfast elect NAME [-- COMMAND]");
    const struct guard_options guard = {.lease_ms = cli->settings.lease_ms,
                                        .kill_after_ms = given->kill_after_ms};
    if (!guard_check(&guard)) return EXIT_USAGE;
    bool campaigns = cli->arguments.count > 1;
    int signal;
    if (campaigns) exit_code = guard_begin(cli->arguments.at + 1);
    if (exit_code != 0) return exit_code;
    int code = open_patiently(cli, &(struct client_use){0}, true, &client, &signal, &error);
    if (signal) return EXIT_BY_SIGNAL + signal;
    if (code != 0) return cli_fail(cli, &error);
    if (!campaigns) {
        exit_code = observe(cli, client);
    } else {
        while (lead_once(cli, client, given, &guard, &exit_code)) {
            cli_note(cli, "leadership of \"%s\" was lost; campaigning again", cli->arguments.at[0]);
            signal = wake_wait(AGAIN_MS);
            if (signal > 0 && wake_is_end(signal)) {
                exit_code = EXIT_BY_SIGNAL + signal;
                break;
            }
        }
    }
    hf_client_close(client, CLOSE_MS);
    guard_end();
    return exit_code;
}

const struct command command_elect = {
    .name = "elect",
    .summary = "run a command on the machine that is the leader",
    .synopsis = "elect [OPTION…] NAME [--] COMMAND [ARG…]\n       holdfast elect NAME",
    .text =
        "Campaigns for the leadership NAME, prints the leader until it is elected, and then runs\n"
        "the command. If leadership is about to be lost the command is stopped, and the campaign\n"
        "begins anew; when the command ends by itself, leadership is released, and its exit code\n"
        "is that of holdfast. Outages of the store do not end the campaign.\n\n"
        "Without a command it prints the leader, and the data that the leader publishes (--data),\n"
        "whenever that changes.",
    .examples = "  holdfast elect scheduler -- ./scheduler --foreground\n"
                "  holdfast elect --data 10.0.0.7:9000 primary -- ./serve\n"
                "  holdfast elect scheduler             show the leader",
    .options = options,
    .options_size = sizeof(struct options),
    .ends_at = 1,
    .needs_store = true,
    .run = elect,
};
