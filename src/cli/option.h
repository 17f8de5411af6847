/*
 * Options of a command line: tables that describe them, and one parser for all tables.
 *
 *   --name VALUE  --name=VALUE  --flag  -w VALUE  -wVALUE  -nx  --
 */
#ifndef HF_CLI_OPTION_H
#define HF_CLI_OPTION_H

#include "base/arena.h"
#include "base/error.h"

enum option_kind {
    OPTION_FLAG,     /* bool: becomes true */
    OPTION_TEXT,     /* const char * */
    OPTION_DURATION, /* int64_t, milliseconds */
    OPTION_NUMBER,   /* int64_t */
};

struct option {
    const char *name; /* without dashes */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *argument; /* the name of its value in the help; NULL: a flag */
    size_t offset;        /* in the struct that is filled */
    const char *help;     /* NULL: not shown, since it is another name of an option */
};

/* A table, and the struct that it fills. */
struct option_set {
    const struct option *options; /* ends with an empty one */
    void *target;
};

struct arguments {
    char **at;
    int count;
};

/* Converts `text` to the kind of the option. */
int option_set_value(const struct option *option, void *target, const char *text,
                     struct hf_error *reterr);

/*
 * Takes all options, even those after words, and leaves the words. With `ends_at` > 0 the words
 * from that one on belong to another command line: they are not examined, and a -- before them is
 * dropped. The remaining words end with a NULL, like argv.
 */
int options_take(const struct option_set *sets, size_t set_count, struct arguments *arguments,
                 int ends_at, struct hf_error *reterr);

#endif
