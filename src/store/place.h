/*
 * Where a store's file lies: whether SQLite can keep its promises there, and whether the file is
 * still the one that was opened.
 *
 * Processes exclude each other by locks on the file and by memory that they share in PATH-shm. That
 * holds while all of them are on one machine and see the same three files under the same names.
 */
#ifndef HF_STORE_PLACE_H
#define HF_STORE_PLACE_H

#include <sys/types.h>

#include "base/error.h"

enum { HF_PLACE_FILES = 4 }; /* PATH, PATH-wal, PATH-shm, PATH-open */

struct hf_place {
    char *paths[HF_PLACE_FILES]; /* absolute: the process may go elsewhere */
    struct {
        dev_t device;
        ino_t inode;
    } seen[HF_PLACE_FILES];
};

/* Makes a missing file, mode 0600, and refuses places where a store cannot be. */
int hf__place_prepare(const char *path, struct hf_error *reterr);

/* After the file was opened, and what belongs to it: remembers all of them. */
int hf__place_mark(struct hf_place *place, const char *path, struct hf_error *reterr);

/* HF_ERR_DAMAGED if one of them was deleted, moved or replaced since. From any thread. */
int hf__place_verify(const struct hf_place *place, struct hf_error *reterr);

/* PATH-open. */
const char *hf__place_open_file(const struct hf_place *place);

void hf__place_free(struct hf_place *place);

#endif
