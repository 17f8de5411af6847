/* v2's requests, read and checked; pure. /openapi.yaml has the rules. */
#ifndef HF_SERVICE_API_V2_H
#define HF_SERVICE_API_V2_H

#include "base/arena.h"
#include "base/error.h"
#include "holdfast.h"

enum hf_v2_field {
    HF_V2_WAIT,
    HF_V2_LEASE,
    HF_V2_MODE,
    HF_V2_LIMIT,
    HF_V2_DATA,
    HF_V2_DATA_BASE64,
    HF_V2_KEEP_DATA,
    HF_V2_ONLY_IF_EXISTS,
    HF_V2_SESSION,
    HF_V2_IDEMPOTENCY_KEY,
    HF_V2_GRANT,
    HF_V2_REASON,
    HF_V2_ATTRIBUTES,
    HF_V2_INSTANCE,
    HF_V2_FIELDS,
};

struct hf_v2_body {
    int64_t wait_ms;
    int64_t lease_ms; /* 0: not given */
    int64_t limit;
    struct hf_slice mode; /* "exclusive", "shared" or empty */
    bool has_data;
    struct hf_slice data; /* decoded */
    bool keep_data;
    bool only_if_exists;
    /* Terminated, or empty. */
    struct hf_slice session;
    struct hf_slice idempotency_key;
    struct hf_slice grant;
    struct hf_slice reason;
    struct hf_slice instance;
    struct hf_attribute *attributes;
    size_t attribute_count;
};

enum { HF_V2_ATTRIBUTES_MAX = 32, HF_V2_KEY_MAX = 255, HF_V2_REASON_MAX = 255 };

/*
 * Reads a body that may have these fields (a set of bits); an empty one has none. HF_ERR_INVALID
 * with a message that names the field.
 */
int hf__v2_body(struct hf_arena *arena, struct hf_slice json, uint32_t allowed,
                struct hf_v2_body *ret, struct hf_error *reterr);

#endif
