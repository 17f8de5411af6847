/* holdfast table: the table in which locks are kept. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { CLOSE_MS = 5000 };

struct options {
    const char *billing;
    int64_t read_units;
    int64_t write_units;
};

static const struct option options[] = {
    {"billing", 0, OPTION_TEXT, "MODE", offsetof(struct options, billing),
     "create: on-demand (default) or provisioned"},
    {"read-units", 0, OPTION_NUMBER, "N", offsetof(struct options, read_units),
     "create, provisioned: read capacity (default: 5)"},
    {"write-units", 0, OPTION_NUMBER, "N", offsetof(struct options, write_units),
     "create, provisioned: write capacity (default: 5)"},
    {0},
};

static int create(struct cli *cli, struct hf_client *client, const struct options *given)
{
    enum { UNITS = 5 };
    struct hf_table_options how = {.size = sizeof how};
    struct hf_error error;
    if (given->billing && strcmp(given->billing, "provisioned") == 0) {
        how.read_units = given->read_units ? given->read_units : UNITS;
        how.write_units = given->write_units ? given->write_units : UNITS;
    } else if (given->billing && strcmp(given->billing, "on-demand") != 0) {
        return cli_usage("invalid --billing \"%s\": expected on-demand or provisioned",
                         given->billing);
    } else if (given->read_units || given->write_units) {
        return cli_usage("--read-units and --write-units need --billing provisioned");
    }
    int code = hf_table_create(client, &how, &error);
    if (code != 0) return cli_fail(cli, &error);
    if (cli->settings.json) puts("{\"ready\":true}");
    else if (!cli->settings.quiet) puts("the table is ready");
    return 0;
}

static int describe(struct cli *cli, struct hf_client *client, const struct options *given)
{
    (void)given;
    struct hf_table_status status;
    struct hf_store_info *store;
    struct hf_error error;
    int code = hf_table_describe(client, &status, &error);
    if (code != 0) return cli_fail(cli, &error);
    code = hf_store_describe(client, &store, &error);
    if (code != 0) return cli_fail(cli, &error);
    const char *format = cli->settings.format ? cli->settings.format : "holdfast";
    if (cli->settings.json) {
        struct hf_buf buf;
        struct hf_json_writer json;
        hf__buf_init(&buf, 1 << 16);
        hf__json_writer_init(&json, &buf);
        hf__json_open(&json, '{');
        json_text(&json, "table", store->table);
        json_text(&json, "store", store->kind);
        json_text(&json, "place", store->place);
        json_text(&json, "format", format);
        json_bool(&json, "exists", status.exists);
        json_bool(&json, "active", status.active);
        json_bool(&json, "key_fits", status.key_fits);
        json_bool(&json, "ttl_enabled", status.ttl_enabled);
        json_number(&json, "item_count", status.item_count);
        hf__json_close(&json, '}');
        cli_print_json(&buf);
        hf__buf_free(&buf);
    } else {
        printf("table    %s\nstore    %s %s\nformat   %s\n", store->table, store->kind,
               store->place, format);
        if (!status.exists) puts("exists   no; create it with: holdfast table create");
        else
            printf("active   %s\nkey      %s\nttl      %s\nitems    %lld\n",
                   status.active ? "yes" : "not yet",
                   status.key_fits ? "fits the format" : "does not fit the format",
                   status.ttl_enabled ? "on" : "off", (long long)status.item_count);
    }
    hf_store_info_free(store);
    return status.exists ? 0 : EXIT_NOT_ACQUIRED;
}

static int check(struct cli *cli, struct hf_client *client, const struct options *given)
{
    (void)given;
    struct hf_error error;
    int code = hf_table_check(client, &error);
    if (code != 0) {
        cli_fail(cli, &error);
        if (cli->settings.json) puts("{\"fits\":false}");
        return code == HF_ERR_INVALID || code == HF_ERR_NO_TABLE ? EXIT_NOT_ACQUIRED
                                                                 : EXIT_UNAVAILABLE;
    }
    if (cli->settings.json) puts("{\"fits\":true}");
    else if (!cli->settings.quiet) puts("locks can be kept in the table");
    return 0;
}

static int sweep(struct cli *cli, struct hf_client *client, const struct options *given)
{
    (void)given;
    int64_t deleted;
    struct hf_error error;
    int code = hf_table_sweep(client, &deleted, &error);
    if (code != 0) return cli_fail(cli, &error);
    if (cli->settings.json) printf("{\"deleted\":%lld}\n", (long long)deleted);
    else if (!cli->settings.quiet) printf("%lld records deleted\n", (long long)deleted);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct cli *cli, struct hf_client *client, const struct options *given);
} verbs[] = {{"create", create}, {"describe", describe}, {"check", check}, {"sweep", sweep}};

static int table(struct cli *cli, void *at)
{
    struct hf_client *client;
    struct hf_error error;
    if (!cli_words(cli, 1, 1, "expected table create, describe, check or sweep")) return EXIT_USAGE;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, cli->arguments.at[0]) != 0) continue;
        int code = cli_open(cli, &(struct client_use){0}, &client, &error);
        if (code != 0) return cli_fail(cli, &error);
        int exit_code = verbs[i].run(cli, client, at);
        hf_client_close(client, CLOSE_MS);
        return exit_code;
    }
    return cli_usage("unknown command \"table %s\"; use create, describe, check or sweep",
                     cli->arguments.at[0]);
}

const struct command command_table = {
    .name = "table",
    .summary = "create, describe, check or sweep the table of the locks",
    .synopsis = "table create [--billing MODE]\n       holdfast table describe|check|sweep",
    .text =
        "create    creates the table that the store names, with the key of the format, and turns\n"
        "          its time to live on; a table that exists is left as it is\n"
        "describe  shows it\n"
        "check     says whether its key fits the format: exit code 0, or 1\n"
        "sweep     deletes what time to live has not deleted yet: records released\n"
        "          more than a day ago, and sessions that ended as long ago\n\n"
        "The file store creates its table by itself.",
    .examples = "  holdfast --store 'dynamodb://locks?region=eu-west-1' table create\n"
                "  holdfast --store 'dynamodb://locks' --format awslabs table check",
    .options = options,
    .options_size = sizeof(struct options),
    .holds_nothing = true,
    .run = table,
};
