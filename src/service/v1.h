/* LockServiceCentral's requests, read and checked; pure. docs/SERVICE.md has the rules. */
#ifndef HF_SERVICE_V1_H
#define HF_SERVICE_V1_H

#include "base/arena.h"
#include "base/error.h"

/* What is wrong with the names in the path, in the words of the original; NULL: nothing. */
const char *hf__v1_path_refusal(struct hf_arena *arena, struct hf_slice space,
                                struct hf_slice name);

struct hf_v1_body {
    struct hf_slice instance_id;
    int64_t lease_s;
};

/* The body of a POST. Otherwise a detail that names the field, in the arena. */
const char *hf__v1_body(struct hf_arena *arena, struct hf_slice json, bool wants_lease,
                        struct hf_v1_body *ret);

#endif
