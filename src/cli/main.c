#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/moment.h"
#include "cli/terminal.h"
#include "cli/wake.h"

static const struct command *const commands[] = {
    &command_run,   &command_acquire, &command_renew, &command_release,
    &command_get,   &command_list,    &command_watch, &command_elect,
    &command_table, &command_doctor,  &command_bench, &command_serve,
};
enum { FILE_POLL_MS = 100, ARGUMENTS_MOST = 256 };
enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* ---- errors ---- */

static const struct {
    int code;
    const char *hint;
} hints[] = {
    {HF_ERR_NO_TABLE, "create it with: holdfast table create"},
    {HF_ERR_DENIED, "holdfast doctor shows which permissions are missing"},
};

int cli_exit_code(int error_code)
{
    switch (error_code) {
    case 0: return 0;
    case HF_ERR_INVALID:
    case HF_ERR_SYNTAX:
    case HF_ERR_UNSUPPORTED:
    case HF_ERR_LIMIT:
    case HF_ERR_OTHER_LIMIT: return EXIT_USAGE;
    case HF_ERR_HELD:
    case HF_ERR_TIMED_OUT:
    case HF_ERR_ABSENT: return EXIT_NOT_ACQUIRED;
    case HF_ERR_LOST: return EXIT_LOST;
    case HF_ERR_NO_MEMORY: return EXIT_INTERNAL;
    default: return EXIT_UNAVAILABLE;
    }
}

static bool says_json; /* -o json, as far as that is known */

/* Reports why the command fails: a line for people, or an object for programs. */
static void complain(const char *name, const char *text, int exit_code)
{
    struct hf_json_writer json;
    struct hf_buf line;
    if (!says_json) {
        say_line(text);
        return;
    }
    hf__buf_init(&line, 8192);
    hf__json_writer_init(&json, &line);
    hf__json_open(&json, '{');
    json_text(&json, "error", name);
    json_text(&json, "message", hf__utf8_valid(hf__slice_str(text)) ? text : name);
    hf__json_put_name(&json, "exit_code");
    hf__json_put_int64(&json, exit_code);
    hf__json_close(&json, '}');
    const char *said = hf__buf_cstr(&line);
    say_plainly(said ? said : text);
    hf__buf_free(&line);
}

int cli_fail(const struct cli *cli, const struct hf_error *error)
{
    char line[1024];
    const char *hint = "";
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        bool served = cli->settings.store && strncmp(cli->settings.store, "http", 4) == 0;
        if (hints[i].code == error->code && !served) hint = hints[i].hint;
    }
    snprintf(line, sizeof line, "%s%s%s%s%s%s", error->message, *hint ? "; " : "", hint,
             cli->settings.verbose ? " (" : "",
             cli->settings.verbose ? hf_error_name(error->code) : "",
             cli->settings.verbose ? ")" : "");
    complain(hf_error_name(error->code), line, cli_exit_code(error->code));
    return cli_exit_code(error->code);
}

int cli_cannot_execute(const char *program, int error, int exit_code)
{
    char line[1024];
    snprintf(line, sizeof line, "cannot execute %s: %s", program, strerror(error));
    complain("cannot-execute", line, exit_code);
    return exit_code;
}

int cli_usage(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    complain("usage", line, EXIT_USAGE);
    return EXIT_USAGE;
}

void cli_note(const struct cli *cli, const char *format, ...)
{
    if (cli->settings.quiet) return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    say_line(line);
}

bool cli_words(const struct cli *cli, int least, int most, const char *what)
{
    if (cli->arguments.count < least) {
        cli_usage("%s; see holdfast --help", what);
        return false;
    }
    if (cli->arguments.count > most) {
        cli_usage("unexpected argument \"%s\"; %s", cli->arguments.at[most], what);
        return false;
    }
    return true;
}

bool cli_parse_exit_code(const char *text, int *ret)
{
    int64_t code;
    if (!hf__parse_int64(hf__slice_str(text), &code) || code < 0 || code > 255) {
        cli_usage("-E: invalid exit code \"%s\"; expected 0 to 255", text);
        return false;
    }
    *ret = (int)code;
    return true;
}

/* ---- output ---- */

static bool output_failed;
static int write_error; /* errno of the first write that failed */

bool cli_print_json(struct hf_buf *buf)
{
    hf__buf_char(buf, '\n');
    bool good = !buf->failed && fwrite(buf->data, 1, buf->len, stdout) == buf->len;
    good = fflush(stdout) == 0 && good;
    if (ferror(stdout) && !write_error) write_error = errno;
    if (!good && !ferror(stdout)) output_failed = true; /* too much, or out of memory */
    return good;
}

int cli_finish_output(int exit_code)
{
    bool good = fflush(stdout) == 0 && !ferror(stdout);
    if (!good && (write_error == EPIPE || errno == EPIPE))
        return exit_code; /* the reader has gone */
    if (good && !output_failed) return exit_code;
    cli_usage("cannot write: %s", good ? "out of memory" : strerror(errno));
    return exit_code ? exit_code : EXIT_UNAVAILABLE;
}

void json_text(struct hf_json_writer *json, const char *name, const char *text)
{
    char safe[1200];
    hf__json_put_name(json, name);
    if (text && !hf__utf8_valid(hf__slice_str(text))) { /* best effort */
        size_t len = 0;
        for (; *text && len + 1 < sizeof safe; text++)
            safe[len++] = (char)(*text & 0x80 ? '?' : *text);
        safe[len] = '\0';
        text = safe;
    }
    if (text) hf__json_put_string(json, hf__slice_str(text));
    else hf__json_put_null(json);
}

void json_number(struct hf_json_writer *json, const char *name, int64_t number)
{
    hf__json_put_name(json, name);
    hf__json_put_int64(json, number);
}

void json_bool(struct hf_json_writer *json, const char *name, bool value)
{
    hf__json_put_name(json, name);
    hf__json_put_bool(json, value);
}

void json_moment(struct hf_json_writer *json, const char *name, int64_t unix_ms)
{
    char text[MOMENT_SIZE];
    json_text(json, name, unix_ms > 0 ? moment_print(unix_ms, text) : NULL);
}

/* ---- the library ---- */

/* On any of the library's threads. */
static void print_log(void *user, enum hf_log_level level, const char *line)
{
    static const char *const names[] = {"debug: ", "", "warning: ", "error: "};
    (void)user;
    char text[768];
    snprintf(text, sizeof text, "%s%s", names[level], line);
    say_line(text);
}

int cli_client_options(struct cli *cli, const struct client_use *use, struct hf_client_options *ret,
                       struct hf_error *reterr)
{
    const struct settings *settings = &cli->settings;
    struct hf_client_options options = {
        .size = sizeof options,
        .store_url = settings->store,
        .format = settings->format,
        .table = settings->table,
        .token_file = settings->token_file,
        .ca_file = settings->ca,
        .client_cert_file = settings->client_cert,
        .client_key_file = settings->client_key,
        .owner = settings->owner,
        .lease_ms = use->lease_ms ? use->lease_ms : settings->lease_ms,
        .heartbeat_ms = use->detached ? HF_NONE : 0,
        .session = use->detached ? HF_SESSION_OFF : HF_SESSION_AUTO,
        .warn_ms = use->detached ? HF_NONE : 0,
        .request_timeout_ms = settings->request_timeout_ms,
        /* Polling a file is cheap. */
        .poll_limit_ms = settings->poll_ms                           ? settings->poll_ms
                         : strncmp(settings->store, "file:", 5) == 0 ? FILE_POLL_MS
                                                                     : 0,
        .skew_ms = settings->skew_ms,
        .create_table = use->create_table,
        .key_name = settings->key_name,
        .key_type = (char)(settings->key_type ? settings->key_type[0] : 0),
        .prefix = settings->key_prefix,
        .fencing = settings->fencing,
        .keep_on_release = settings->keep_on_release,
        .trust_clock = settings->trust_clock,
        .hold_on_unavailable = settings->hold_on_unavailable,
        .log = print_log,
        .log_level = settings->quiet     ? HF_LOG_ERROR
                     : settings->verbose ? HF_LOG_DEBUG
                                         : HF_LOG_WARN,
    };
    if (settings->sort_key) {
        const char *equals = strchr(settings->sort_key, '=');
        options.sort_key_name = hf__arena_str(
            &cli->arena, hf__slice(settings->sort_key, (size_t)(equals - settings->sort_key)));
        options.sort_key = equals + 1;
        if (!options.sort_key_name) return hf__error_no_memory(reterr);
    }
    *ret = options;
    return settings_make_store(settings, reterr);
}

int cli_open(struct cli *cli, const struct client_use *use, struct hf_client **ret,
             struct hf_error *reterr)
{
    struct hf_client_options options;
    int code = cli_client_options(cli, use, &options, reterr);
    return code == 0 ? hf_client_new(&options, ret, reterr) : code;
}

/* ---- help ---- */

/* Prints words, wrapped at the width of a terminal; the first line begins in column `at`. */
static void print_wrapped(const char *text, size_t at)
{
    enum { INDENT = 30, WIDTH = 79 };
    for (; at < INDENT; at++) putchar(' ');
    while (*text) {
        size_t len = strcspn(text, " ");
        if (at > INDENT && at + 1 + len > WIDTH) {
            printf("\n%*s", INDENT, "");
            at = INDENT;
        } else if (at > INDENT) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)len, text);
        at += len;
        text += len + strspn(text + len, " ");
    }
    putchar('\n');
}

static void print_option(const struct option *option)
{
    char left[64];
    if (!option->help) return;
    snprintf(left, sizeof left, "%s%c%s--%s%s%s", option->letter ? "-" : " ",
             option->letter ? option->letter : ' ', option->letter ? ", " : "  ", option->name,
             option->argument ? " " : "", option->argument ? option->argument : "");
    printf("  %s", left);
    if (strlen(left) >= 27) putchar('\n');
    print_wrapped(option->help, strlen(left) >= 27 ? 0 : strlen(left) + 2);
}

static void print_options(const char *title, const struct option *options)
{
    if (!options || !options->name) return;
    printf("\n%s\n", title);
    for (; options->name; options++) print_option(options);
}

static int help_for(const struct command *command)
{
    printf("Usage: holdfast %s\n\n%s\n", command->synopsis, command->text);
    print_options("Options:", command->options);
    printf("\nExamples:\n%s\n", command->examples);
    printf("\nholdfast --help lists the options that all commands have.\n");
    return cli_finish_output(0);
}

static int general_help(void)
{
    puts("Usage: holdfast [OPTION…] COMMAND …\n\n"
         "Distributed locks for programs on many machines, kept in DynamoDB\n"
         "or in a file.\n\nCommands:");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i]->name, commands[i]->summary);
    print_options("Options of all commands; each is also a variable (HOLDFAST_STORE) and a line of "
                  "a\nconfiguration file (store = …):",
                  settings_options);
    puts("\nDurations are written as 500ms, 30s, 5m, 1h30m; a bare number is seconds.\n\n"
         "Examples:\n"
         "  holdfast run nightly -- ./report.sh     one machine at a time\n"
         "  holdfast run -n deploy -- ./deploy.sh   or not at all\n"
         "  holdfast list                           who holds what\n"
         "  holdfast doctor                         check the setup\n\n"
         "For more, see holdfast COMMAND --help and man holdfast.");
    return cli_finish_output(0);
}

/* ---- */

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    return NULL;
}

/* -qo: the letters before the last one take no value. */
static bool all_flags(const char *letters)
{
    for (; letters[0] && letters[1]; letters++) {
        const struct option *option = settings_options;
        while (option->name && option->letter != *letters) option++;
        if (!option->name || option->kind != OPTION_FLAG) return false;
    }
    return true;
}

/* The first word that is neither an option nor an option's value. */
static const struct command *peek_command(char **arguments, int count, const char **ret_word)
{
    *ret_word = NULL;
    for (int i = 0; i < count; i++) {
        const char *text = arguments[i];
        if (text[0] != '-') {
            *ret_word = text;
            return find_command(text);
        }
        for (const struct option *option = settings_options; option->name; option++) {
            bool takes_next =
                option->kind != OPTION_FLAG &&
                ((strncmp(text, "--", 2) == 0 && strcmp(text + 2, option->name) == 0) ||
                 (text[1] != '-' && option->letter && text[strlen(text) - 1] == option->letter &&
                  all_flags(text + 1)));
            if (takes_next) i++;
        }
    }
    return NULL;
}

static int print_version(void)
{
    puts("holdfast " HF_VERSION_STRING);
    return cli_finish_output(0);
}

static int dispatch(struct cli *cli, const struct command *command)
{
    struct hf_error error;
    void *options = hf__arena_zalloc(&cli->arena, 1, command->options_size + 1);
    if (!options) return EXIT_INTERNAL;
    const struct option_set sets[] = {{command->options, options},
                                      {settings_options, &cli->settings}};
    /* The command's own name is the first word. */
    int code =
        options_take(sets, 2, &cli->arguments, command->ends_at ? command->ends_at + 1 : 0, &error);
    if (code != 0) return cli_usage("%s; see holdfast %s --help", error.message, command->name);
    if (cli->settings.help) return help_for(command);
    if (cli->settings.version) return print_version();
    cli->given_lease_ms = cli->settings.lease_ms;
    cli->arguments.at++;
    cli->arguments.count--;
    code = settings_complete(&cli->settings, &cli->arena, &error);
    says_json = cli->settings.json || (code != 0 && says_json);
    if (code != 0) return cli_fail(cli, &error);
    cli->colors = terminal_colors(cli->settings.color);
    if (command->needs_store && strncmp(cli->settings.store, "memory:", 7) == 0)
        return cli_usage(
            "a memory: store is private to this process; use a store that others can see");
    if (command->holds_nothing) wake_let_signals_end();
    return cli_finish_output(command->run(cli, options));
}

/* For errors in the options themselves: whether they ask for JSON, as far as one can see. */
static bool asks_for_json(char *const *words, int count)
{
    const char *output = getenv("HOLDFAST_OUTPUT");
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++) {
        bool follows = strcmp(words[i], "-o") == 0 || strcmp(words[i], "--output") == 0;
        if (follows && i + 1 < count) output = words[i + 1];
        else if (strncmp(words[i], "--output=", 9) == 0) output = words[i] + 9;
        else if (strncmp(words[i], "-o", 2) == 0 && words[i][2]) output = words[i] + 2;
    }
    return output && strcmp(output, "json") == 0;
}

/* A store's file must never become our standard output. */
static void open_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) _exit(EXIT_INTERNAL);
    }
}

int main(int argc, char **argv)
{
    struct cli cli = {.arguments = {argv + 1, argc > 0 ? argc - 1 : 0}};
    char *given[ARGUMENTS_MOST + 1] = {0}; /* parsing reorders argv */
    for (int i = 0; i < argc && i < ARGUMENTS_MOST; i++) given[i] = argv[i];
    cli.given = argc <= ARGUMENTS_MOST ? given : NULL;
    const char *word;
    open_standard_files();
    says_json = asks_for_json(cli.arguments.at, cli.arguments.count);
    child_remember();
    signal(SIGPIPE, SIG_IGN);
    const struct command *command = peek_command(cli.arguments.at, cli.arguments.count, &word);
    int code;
    if (command) {
        wake_init();
        code = dispatch(&cli, command);
    } else if (word && strcmp(word, "help") == 0) {
        const char *topic = cli.arguments.at[cli.arguments.count - 1];
        const struct command *about = find_command(topic);
        if (about) code = help_for(about);
        else if (topic == word) code = general_help();
        else code = cli_usage("unknown command \"%s\"; see holdfast --help", topic);
    } else if (word) {
        /* The unknown option may have been meant to take a value. */
        struct hf_error error;
        const struct option_set set = {settings_options, &cli.settings};
        if (options_take(&set, 1, &cli.arguments, 0, &error) != 0)
            code = cli_usage("%s; see holdfast --help", error.message);
        else code = cli_usage("unknown command \"%s\"; see holdfast --help", word);
    } else {
        struct hf_error error;
        const struct option_set set = {settings_options, &cli.settings};
        if (cli.arguments.count == 0) {
            code = cli_usage("no command given; see holdfast --help");
        } else if (options_take(&set, 1, &cli.arguments, 0, &error) != 0) {
            code = cli_usage("%s; see holdfast --help", error.message);
        } else if (cli.settings.version) {
            code = print_version();
        } else {
            code = cli.settings.help ? general_help()
                                     : cli_usage("no command given; see holdfast --help");
        }
    }
    hf__arena_free(&cli.arena);
    if (cli.dies_of) wake_die_of(cli.dies_of);
    return code;
}
