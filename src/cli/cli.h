/*
 * The command: declarations that its parts share.
 *
 * main.c      commands, options, help, errors
 * settings.c  store, format, owner, output: options, environment, files
 * option.c    reading options          moment.c    durations and moments
 * terminal.c  colours and progress     wake.c      signals
 * foreground.c  the terminal's owner   logger.c    a log that does not block
 * child.c     the command that runs under a lock
 * await.c     waiting for a lock       guard.c     keeping a child within its lease
 * warden.c    the process between us and the command, which does so
 *
 * One file per command: run.c, grant.c (acquire, renew, release), look.c (get, list, watch),
 * elect.c, table.c, doctor.c, bench.c, serve.c.
 *
 * The service is a program of its own, holdfast-serve, made of the same files and those of the
 * service (serve_here.c): loading its libraries takes longer than a whole `holdfast run`.
 * `holdfast serve` executes it (serve_exec.c).
 */
#ifndef HF_CLI_CLI_H
#define HF_CLI_CLI_H

#include "base/arena.h"
#include "base/json_writer.h"
#include "cli/settings.h"
#include "holdfast.h"

enum exit_code {
    EXIT_NOT_ACQUIRED = 1,
    EXIT_USAGE = 64,
    EXIT_UNAVAILABLE = 69,
    EXIT_INTERNAL = 70,
    EXIT_LOST = 75,
    EXIT_CANNOT_EXECUTE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_BY_SIGNAL = 128, /* and its number */
};

/* One invocation. */
struct cli {
    struct settings settings;
    struct arguments arguments; /* the words that are not options */
    struct hf_arena arena;
    bool colors;
    int dies_of;            /* SIGINT of the terminal, if it ended the command; 0: nothing */
    int64_t given_lease_ms; /* --lease alone, without variables and files; 0: not given */
    char **given;           /* the command line as given; NULL: too long */
};

struct command {
    const char *name;
    const char *summary;
    const char *synopsis;
    const char *text;
    const char *examples;
    const struct option *options;
    size_t options_size;
    int ends_at;        /* the word at which another command line begins; 0: none does */
    bool needs_store;   /* one that other processes see: not memory: */
    bool holds_nothing; /* it holds no lock: a signal may simply end it */
    int (*run)(struct cli *cli, void *options);
};

/* 0 to 255; a message and false otherwise. */
bool cli_parse_exit_code(const char *text, int *ret);

extern const struct command command_run, command_acquire, command_renew, command_release,
    command_get, command_list, command_watch, command_elect, command_table, command_doctor,
    command_bench, command_serve;

/* How a command uses the library. */
struct client_use {
    bool detached; /* own leases, and no heartbeats: the lock outlives the process */
    bool create_table;
    int64_t lease_ms; /* 0: as set */
};

/* The client's options by the settings; creates the directory of the default store. */
int cli_client_options(struct cli *cli, const struct client_use *use, struct hf_client_options *ret,
                       struct hf_error *reterr);
int cli_open(struct cli *cli, const struct client_use *use, struct hf_client **ret,
             struct hf_error *reterr);

/* Prints one line on standard error, with a hint if there is one; returns the exit code. */
int cli_fail(const struct cli *cli, const struct hf_error *error);
/* The exit code. */
int cli_cannot_execute(const char *program, int error, int exit_code);
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A message for people; not with --quiet. */
void cli_note(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_exit_code(int error_code);

/* One line of JSON on standard output; false if it could not be written. */
bool cli_print_json(struct hf_buf *buf);
/* Flushes; a command whose output could not be written has failed. */
int cli_finish_output(int exit_code);

/* name: a moment; null if it is 0. */
void json_moment(struct hf_json_writer *json, const char *name, int64_t unix_ms);
void json_text(struct hf_json_writer *json, const char *name, const char *text);
void json_number(struct hf_json_writer *json, const char *name, int64_t number);
void json_bool(struct hf_json_writer *json, const char *name, bool value);

/* The words after the command; a message if there are too few or too many. */
bool cli_words(const struct cli *cli, int least, int most, const char *what);

#endif
