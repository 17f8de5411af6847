/*
 * Settings of all commands: the store, its format, the owner, the output.
 *
 * Each setting is an option (--store), a variable (HOLDFAST_STORE) and a line in a configuration
 * file (store = …). The first one found wins: the option, the variable, the user's file
 * ($XDG_CONFIG_HOME/holdfast/config, or the one that --config names), /etc/holdfast/config.
 */
#ifndef HF_CLI_SETTINGS_H
#define HF_CLI_SETTINGS_H

#include "cli/option.h"

struct settings {
    const char *config;
    const char *store; /* NULL: the default file */
    const char *format;
    const char *table;
    const char *token_file; /* of a service */
    const char *ca;
    const char *client_cert;
    const char *client_key;
    const char *owner;
    const char *output;
    const char *color;
    bool quiet;
    bool verbose;
    bool help;
    bool version;
    int64_t lease_ms; /* 0: the library's */
    int64_t request_timeout_ms;
    int64_t poll_ms;
    int64_t skew_ms;
    const char *key_name;
    const char *key_type;
    const char *sort_key; /* NAME=VALUE */
    const char *key_prefix;
    bool fencing;
    bool keep_on_release;
    bool trust_clock;
    bool hold_on_unavailable;

    uint64_t decided;         /* a bit for each option that a variable or a file has set */
    bool json;                /* of `output` */
    const char *store_from;   /* where the store was set, for doctor */
    char default_store[1088]; /* of the user, or of root */
    char default_directory[1024];
};

extern const struct option settings_options[];

/* Fills in from the environment and the files whatever no option has set. */
int settings_complete(struct settings *settings, struct hf_arena *arena, struct hf_error *reterr);

/* The lines of a configuration file; `path` is for messages. */
int settings_read(struct settings *settings, struct hf_arena *arena, struct hf_slice text,
                  const char *path, struct hf_error *reterr);

/* Creates the directory of the default store, accessible to its user only. */
int settings_make_store(const struct settings *settings, struct hf_error *reterr);

#endif
