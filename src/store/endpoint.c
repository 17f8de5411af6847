#include "store/endpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *hf__region_find(const char *wanted, hf_environment environment,
                            const struct hf_profiles *profiles)
{
    if (wanted) return wanted;
    const char *region = hf__env_get(environment, "AWS_REGION");
    if (!region) region = hf__env_get(environment, "AWS_DEFAULT_REGION");
    return region ? region : hf__profile_get(profiles, profiles->name, "region");
}

int hf__region_check(const char *region, struct hf_error *reterr)
{
    size_t good = strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (good > 0 && good < 64 && region[good] == '\0') return 0;
    return hf__error_set(reterr, HF_ERR_INVALID,
                         "\"%s\" is not an AWS region, such as eu-central-1", region);
}

static const char *configured(const char *service, const char *wanted, hf_environment environment,
                              const struct hf_profiles *profiles)
{
    char name[64];
    if (wanted) return wanted;
    const char *ignore =
        hf__profile_get(profiles, profiles->name, "ignore_configured_endpoint_urls");
    if (hf__env_is_true(environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") ||
        hf__text_is_true(ignore))
        return NULL;
    snprintf(name, sizeof name, "AWS_ENDPOINT_URL_%s", service);
    for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
    const char *url = hf__env_get(environment, name);
    if (!url) url = hf__env_get(environment, "AWS_ENDPOINT_URL");
    return url ? url : hf__profile_get(profiles, profiles->name, "endpoint_url");
}

bool hf__endpoint_is_set(const char *service, const char *wanted, hf_environment environment,
                         const struct hf_profiles *profiles)
{
    return configured(service, wanted, environment, profiles) != NULL;
}

/* A switch of the environment or the profile. */
static bool is_on(const char *variable, const char *key, hf_environment environment,
                  const struct hf_profiles *profiles)
{
    const char *text = hf__env_get(environment, variable);
    return hf__text_is_true(text ? text : hf__profile_get(profiles, profiles->name, key));
}

const char *hf__endpoint_find(struct hf_arena *arena, const char *service, const char *region,
                              const char *wanted, hf_environment environment,
                              const struct hf_profiles *profiles)
{
    static const struct {
        const char *prefix, *suffix, *dual_suffix;
    } partitions[] = {
        {"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"},
        {"eusc-", "amazonaws.eu", "api.amazonwebservices.eu"},
        {"", "amazonaws.com", "api.aws"},
    };
    const char *url = configured(service, wanted, environment, profiles);
    if (url) return url;
    bool fips = is_on("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint", environment, profiles);
    bool dual =
        is_on("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint", environment, profiles);
    int i = 0;
    while (strncmp(region, partitions[i].prefix, strlen(partitions[i].prefix)) != 0) i++;
    return hf__arena_printf(arena, "https://%s%s.%s.%s", service, fips ? "-fips" : "", region,
                            dual ? partitions[i].dual_suffix : partitions[i].suffix)
        .ptr;
}

int hf__http_url_parse(const char *url, struct hf_http_url *ret, struct hf_error *reterr)
{
    struct hf_http_url parsed = {.secure = strncmp(url, "https://", 8) == 0};
    if (!parsed.secure && strncmp(url, "http://", 7) != 0)
        return hf__error_set(reterr, HF_ERR_INVALID, "\"%s\" is not an http or https URL", url);
    const char *authority = url + (parsed.secure ? 8 : 7);
    size_t len = strcspn(authority, "/?#");
    parsed.authority = hf__slice(authority, len);
    parsed.path = authority[len] == '/' ? hf__slice_str(authority + len) : HF_LIT("/");
    if (len == 0 || authority[len] == '?' || authority[len] == '#' || memchr(authority, '@', len) ||
        strpbrk(url, " \r\n\t"))
        return hf__error_set(reterr, HF_ERR_INVALID, "\"%s\" is not a plain http or https URL",
                             url);
    const char *host_end = authority + len;
    if (authority[0] == '[') {
        const char *bracket = memchr(authority, ']', len);
        if (!bracket) return hf__error_set(reterr, HF_ERR_INVALID, "\"%s\" lacks a ]", url);
        parsed.host = hf__slice(authority + 1, (size_t)(bracket - authority) - 1);
    } else {
        const char *colon = memchr(authority, ':', len);
        parsed.host = hf__slice(authority, (size_t)((colon ? colon : host_end) - authority));
    }
    *ret = parsed;
    return 0;
}
