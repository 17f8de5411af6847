/*
 * Where AWS credentials come from: the chain that AWS's own clients follow.
 *
 * explicit → environment → web identity → profile (role, web identity, SSO,
 * static keys, process) → container → EC2 instance. The first that is
 * configured decides; if it fails, that is an error, not a reason to try the
 * next.
 */
#ifndef HF_STORE_PROVIDERS_H
#define HF_STORE_PROVIDERS_H

#include "base/clock.h"
#include "base/log.h"
#include "store/credentials.h"
#include "store/profile.h"

struct hf_provider_context {
    struct hf_arena *arena; /* scratch of one resolution */
    hf_environment environment;
    const struct hf_clock *clock;
    const bool *stop; /* atomic; when it becomes true, what takes long is given up. NULL: never */
    const char *access_key_id; /* explicit ones; NULL: none */
    const char *secret;
    const char *token;
    const char *region; /* for STS and SSO; may be NULL */
    struct hf_profiles profiles;
};

/* Blocks while it asks files, programs and servers. HF_ERR_CREDENTIALS says what was tried. */
int hf__providers_resolve(struct hf_provider_context *context, struct hf_credentials **ret,
                          struct hf_error *reterr);

/* The region of the EC2 instance this runs on, in the arena. */
int hf__imds_region(struct hf_provider_context *context, const char **ret, struct hf_error *reterr);

#endif
