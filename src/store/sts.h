/* The Security Token Service: temporary credentials for a role. */
#ifndef HF_STORE_STS_H
#define HF_STORE_STS_H

#include "store/providers.h"

struct hf_role {
    const char *arn;
    const char *session_name; /* NULL: one is made up */
    const char *external_id;  /* NULL: none */
    const char *duration_s;   /* NULL: the default */
};

/* AssumeRole, signed with other credentials. */
int hf__sts_assume_role(struct hf_provider_context *context, const struct hf_role *role,
                        const struct hf_credentials *source, struct hf_credentials **ret,
                        struct hf_error *reterr);

/* AssumeRoleWithWebIdentity with the token in a file, which is read anew each time. */
int hf__sts_web_identity(struct hf_provider_context *context, const struct hf_role *role,
                         const char *token_file, struct hf_credentials **ret,
                         struct hf_error *reterr);

#endif
