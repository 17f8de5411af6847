/*
 * Access rules: who may do what on which names. In a small file, or in a claim of a JWT. Pure.
 *
 *     # who               may               on
 *     owner:ci            read,lock         ci.* deploy
 *     claim:groups=ops    read,lock,force   *
 *     cert:backup         lock              backup
 *     key:AKIDEXAMPLE     read,write        table:locks
 *     *                   read              public.*
 *
 * A name is exact, or a prefix that ends with *. Whatever no rule allows is forbidden. `lock`,
 * `force` and `write` include `read`, and `admin` includes everything on these names.
 */
#ifndef HF_SERVICE_HTTP_RULES_H
#define HF_SERVICE_HTTP_RULES_H

#include "base/error.h"
#include "base/slice.h"

enum hf_right {
    HF_RIGHT_READ = 1,
    HF_RIGHT_LOCK = 2,
    HF_RIGHT_FORCE = 4,
    HF_RIGHT_ADMIN = 8,
    HF_RIGHT_WRITE = 16, /* of a table, by the DynamoDB API */
};

enum { HF_RULES_MOST = 1000, HF_RULES_CLAIMS_MOST = 64, HF_RULES_MAX_SIZE = 256 * 1024 };

struct hf_rules;

/* NAME=VALUE of a JWT: the claim is this word, has it among its words, or in its array. */
struct hf_claim_test {
    struct hf_slice name;
    struct hf_slice value;
};

/* What is known about a caller. */
struct hf_who {
    const char *owner;
    const char *certificate; /* its common name; NULL: none was shown */
    const char *access_key;  /* NULL: it was not signed */
    uint64_t claims;         /* bit i: the i-th of hf__rules_claims holds */
};

/* `name` is the file's: errors begin with it and the line number. Counted. */
int hf__rules_parse(struct hf_slice text, const char *name, struct hf_rules **ret,
                    struct hf_error *reterr);
/* RIGHTS NAME … of one claim: rules for its bearer. Added to `rules`, or to new ones. */
int hf__rules_add(struct hf_rules **rules, struct hf_slice text, struct hf_error *reterr);
struct hf_rules *hf__rules_ref(struct hf_rules *rules);
void hf__rules_unref(struct hf_rules *rules);

/* The claims that they test. */
const struct hf_claim_test *hf__rules_claims(const struct hf_rules *rules, size_t *ret_count);

/* Rules that are NULL allow nothing. */
bool hf__rules_allow(const struct hf_rules *rules, const struct hf_who *who, enum hf_right right,
                     bool is_table, struct hf_slice name);

#endif
