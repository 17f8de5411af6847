/*
 * Options of a command line: tables that say what there is, and one reader for all of them.
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
    const char *argument; /* what the help calls its value; NULL: a flag */
    size_t offset;        /* in the struct that is filled */
    const char *help;     /* NULL: not shown, as it is another name of something */
};

/* A table, and what it fills. */
struct option_set {
    const struct option *options; /* ends with an empty one */
    void *target;
};

struct arguments {
    char **at;
    int count;
};

/* `text` as an option of this kind wants it. */
int option_set_value(const struct option *option, void *target, const char *text,
                     struct hf_error *reterr);

/*
 * Takes all options, also those behind words, and leaves the words. With `ends_at` > 0 the words
 * from that one on belong to somebody else's command line: nothing of them is looked at, and a --
 * before them is dropped. What is left ends with a NULL, as argv does.
 */
int options_take(const struct option_set *sets, size_t set_count, struct arguments *arguments,
                 int ends_at, struct hf_error *reterr);

#endif
