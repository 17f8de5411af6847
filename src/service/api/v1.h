/* LockServiceCentral's requests, read and checked; pure. docs/SERVICE.md has the rules. */
#ifndef HF_SERVICE_API_V1_H
#define HF_SERVICE_API_V1_H

#include "base/arena.h"
#include "base/error.h"

struct hf_v1_body {
    struct hf_slice instance_id;
    int64_t lease_s;
};

enum { HF_V1_PROBLEMS_MOST = 16 };

/* All problems of a path or a body; each names its parameter or field. */
struct hf_v1_problems {
    const char *at[HF_V1_PROBLEMS_MOST];
    size_t count;
};

/* Checks the names in the path; the problems are in the words of the original. */
void hf__v1_path(struct hf_arena *arena, struct hf_slice space, struct hf_slice name,
                 struct hf_v1_problems *ret);

/* Reads the body of a POST if it has no problems; the texts are in the arena. */
void hf__v1_body(struct hf_arena *arena, struct hf_slice json, bool wants_lease,
                 struct hf_v1_body *ret, struct hf_v1_problems *ret_problems);

#endif
