/* A set of AWS credentials, and the formats in which they arrive. */
#ifndef HF_STORE_CREDENTIALS_H
#define HF_STORE_CREDENTIALS_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum { HF_CREDENTIALS_MAX_SIZE = 64 * 1024 };

/* Immutable and counted. Secrets are wiped with the last reference. */
struct hf_credentials {
    int references;       /* atomic */
    const char *provider; /* a literal: "environment", "imds", … */
    char *access_key_id;
    char *secret;
    char *token;             /* NULL: none */
    int64_t expires_unix_ms; /* 0: never */
};

/* Copies; a token of NULL or length 0 is none. Incomplete or unprintable ones are refused. */
int hf__credentials_new(const char *provider, struct hf_slice access_key_id, struct hf_slice secret,
                        struct hf_slice token, int64_t expires_unix_ms, struct hf_credentials **ret,
                        struct hf_error *reterr);

struct hf_credentials *hf__credentials_ref(struct hf_credentials *credentials);
/* NULL is ignored. */
void hf__credentials_unref(struct hf_credentials *credentials);

/*
 * From the JSON of a credential_process, a container or IMDS (AccessKeyId,
 * SecretAccessKey, Token or SessionToken, Expiration). A "Version" is checked
 * when `needs_version`.
 */
int hf__credentials_from_json(const char *provider, struct hf_slice json, bool needs_version,
                              struct hf_credentials **ret, struct hf_error *reterr);

/* From the SSO portal's roleCredentials, whose expiration is a number. */
int hf__credentials_from_sso(struct hf_slice json, struct hf_credentials **ret,
                             struct hf_error *reterr);

/* From the XML of an STS AssumeRole… answer. */
int hf__credentials_from_sts(const char *provider, struct hf_slice xml, struct hf_credentials **ret,
                             struct hf_error *reterr);

/*
 * The text of the first element of that name, entities decoded. A scan, not a
 * parser: enough for STS, whose answers have a fixed shape. False if absent.
 */
bool hf__xml_text(struct hf_arena *arena, struct hf_slice xml, const char *name,
                  struct hf_slice *ret);

#endif
