/* Where to send requests: region and endpoint, from the URL, the environment and the profile. */
#ifndef HF_STORE_ENDPOINT_H
#define HF_STORE_ENDPOINT_H

#include "store/profile.h"

/* NULL when nothing but the instance's metadata could tell. */
const char *hf__region_find(const char *wanted, hf_environment environment,
                            const struct hf_profiles *profiles);

/* A region becomes part of a host name: lower-case letters, digits and dashes. */
int hf__region_check(const char *region, struct hf_error *reterr);

/*
 * The URL for a service ("dynamodb", "sts", …): `wanted`, or what the
 * environment or profile sets, or AWS's own for the region. In the arena; NULL
 * for want of memory.
 */
const char *hf__endpoint_find(struct hf_arena *arena, const char *service, const char *region,
                              const char *wanted, hf_environment environment,
                              const struct hf_profiles *profiles);

/* Whether an endpoint is set for the service by any of these, so that no region is needed to find
 * one. */
bool hf__endpoint_is_set(const char *service, const char *wanted, hf_environment environment,
                         const struct hf_profiles *profiles);

/* An http or https URL in its parts. */
struct hf_http_url {
    bool secure;
    struct hf_slice authority; /* host with port, as in the Host header */
    struct hf_slice host;      /* without port and brackets */
    struct hf_slice path;      /* "/" at least */
};

int hf__http_url_parse(const char *url, struct hf_http_url *ret, struct hf_error *reterr);

#endif
