/*
 * JSON Web Tokens, parsed and checked; pure except for verifying signatures. Signed with RS256,
 * ES256 or EdDSA (Ed25519), and nothing else.
 */
#ifndef HF_SERVICE_HTTP_JWT_H
#define HF_SERVICE_HTTP_JWT_H

#include "base/arena.h"
#include "base/error.h"
#include "service/http/rules.h"

enum hf_jwt_algorithm { HF_JWT_RS256, HF_JWT_ES256, HF_JWT_EDDSA };
enum { HF_JWT_AUDIENCES = 16, HF_JWT_RIGHTS = 64, HF_JWT_MAX_SIZE = 8 * 1024 };

struct hf_jwt {
    enum hf_jwt_algorithm algorithm;
    struct hf_slice key_id; /* empty: none */
    struct hf_slice issuer;
    struct hf_slice subject;
    struct hf_slice audiences[HF_JWT_AUDIENCES];
    size_t audience_count;
    bool has_audience; /* it names an audience, even an empty one */
    int64_t expires_s; /* 0: not given */
    int64_t not_before_s;
    int64_t issued_s;
    bool has_admin_claim; /* the claim that makes an administrator has its value */
    uint64_t claims;      /* bit i: the i-th claim tested */
    struct hf_slice rights[HF_JWT_RIGHTS];
    size_t right_count;
    struct hf_slice signed_part;
    struct hf_slice signature; /* bytes */
};

/* Tests of claims that are not standard ones. */
struct hf_jwt_wants {
    struct hf_claim_test admin; /* "scope=holdfast:admin" */
    const struct hf_claim_test *claims;
    size_t claim_count;           /* at most 64 */
    struct hf_slice rights_claim; /* the claim that contains rights (rules.h); empty: none does */
};

/* Parses a token; it is not verified yet. Messages say what is wrong, without quoting it. */
int hf__jwt_parse(struct hf_arena *arena, struct hf_slice token, const struct hf_jwt_wants *wants,
                  struct hf_jwt *ret, struct hf_error *reterr);

struct hf_jwt_rules {
    struct hf_slice issuer;   /* empty: any */
    struct hf_slice audience; /* "*": any; empty: tokens that name none */
    int64_t leeway_s;
};
/* Checks the claims of a token whose signature is valid. */
int hf__jwt_check(const struct hf_jwt *jwt, const struct hf_jwt_rules *rules, int64_t now_s,
                  struct hf_error *reterr);

/* ---- keys ---- */

struct hf_jwks;
/* A JSON Web Key Set; keys of other kinds are skipped. */
int hf__jwks_parse(struct hf_slice json, struct hf_jwks **ret, struct hf_error *reterr);
struct hf_jwks *hf__jwks_ref(struct hf_jwks *keys);
void hf__jwks_unref(struct hf_jwks *keys);
size_t hf__jwks_count(const struct hf_jwks *keys);
/*
 * 0: one of the keys has signed it. HF_ERR_ABSENT: no key of this name and kind; a newer set may
 * have it. HF_ERR_DENIED: the signature is invalid.
 */
int hf__jwks_verify(const struct hf_jwks *keys, const struct hf_jwt *jwt, struct hf_error *reterr);

/* Base64 with - and _, without padding; strict. */
bool hf__base64url_decode(struct hf_arena *arena, struct hf_slice text, struct hf_slice *ret);

#endif
