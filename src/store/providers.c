#include "store/providers.h"

#include <arpa/inet.h>
#include <nettle/sha1.h>
#include <string.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "store/endpoint.h"
#include "store/fetch.h"
#include "store/sts.h"
#include "store/subprocess.h"

enum { DEEPEST_CHAIN = 8, PROCESS_TIMEOUT_MS = 60000, IMDS_TIMEOUT_MS = 1000 };

/* A provider that is not configured answers NOT_HERE; any other code ends the chain. */
enum { NOT_HERE = 1 };

typedef int (*provider_fn)(struct hf_provider_context *c, struct hf_credentials **ret,
                           struct hf_error *reterr);

static int static_keys(const char *provider, const char *id, const char *secret, const char *token,
                       struct hf_credentials **ret, struct hf_error *reterr)
{
    return hf__credentials_new(provider, hf__slice_str(id), hf__slice_str(secret),
                               hf__slice_str(token), 0, ret, reterr);
}

static int from_options(struct hf_provider_context *c, struct hf_credentials **ret,
                        struct hf_error *reterr)
{
    if (!c->access_key_id) return NOT_HERE;
    return static_keys("options", c->access_key_id, c->secret, c->token, ret, reterr);
}

static int from_environment(struct hf_provider_context *c, struct hf_credentials **ret,
                            struct hf_error *reterr)
{
    const char *id = hf__env_get(c->environment, "AWS_ACCESS_KEY_ID");
    const char *secret = hf__env_get(c->environment, "AWS_SECRET_ACCESS_KEY");
    if (!id && !secret) return NOT_HERE;
    if (!id || !secret)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "AWS_%s is set, but AWS_%s is not",
                             id ? "ACCESS_KEY_ID" : "SECRET_ACCESS_KEY",
                             id ? "SECRET_ACCESS_KEY" : "ACCESS_KEY_ID");
    return static_keys("environment", id, secret, hf__env_get(c->environment, "AWS_SESSION_TOKEN"),
                       ret, reterr);
}

static int from_web_identity(struct hf_provider_context *c, struct hf_credentials **ret,
                             struct hf_error *reterr)
{
    const char *file = hf__env_get(c->environment, "AWS_WEB_IDENTITY_TOKEN_FILE");
    struct hf_role role = {.arn = hf__env_get(c->environment, "AWS_ROLE_ARN"),
                           .session_name = hf__env_get(c->environment, "AWS_ROLE_SESSION_NAME")};
    if (!file) return NOT_HERE;
    if (!role.arn)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
    return hf__sts_web_identity(c, &role, file, ret, reterr);
}

/* One line of printable text without blanks, as names and tokens are. */
static bool is_word(struct hf_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~') return false;
    return text.len > 0;
}

/* ---- container ---- */

/* Plain http is for addresses that do not leave the machine or its host. */
static bool may_be_plain(struct hf_slice host)
{
    static const char *const allowed[] = {"localhost", "::1", "169.254.170.2", "169.254.170.23",
                                          "fd00:ec2::23"};
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        if (hf__slice_is(host, allowed[i])) return true;
    char text[INET_ADDRSTRLEN];
    unsigned char address[4];
    if (host.len >= sizeof text) return false;
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, address) == 1 && address[0] == 127;
}

/* The Authorization header's value; the file wins over the variable and is read anew. */
static int container_token(struct hf_provider_context *c, struct hf_slice *ret,
                           struct hf_error *reterr)
{
    const char *file = hf__env_get(c->environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    *ret = hf__slice_str(hf__env_get(c->environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN"));
    if (file && hf__read_file(c->arena, file, HF_CREDENTIALS_MAX_SIZE, ret, NULL, reterr) != 0)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "container credentials: cannot read %s",
                             file);
    if (ret->len && (memchr(ret->ptr, '\r', ret->len) || memchr(ret->ptr, '\n', ret->len)))
        return hf__error_set(
            reterr, HF_ERR_CREDENTIALS,
            "container credentials: the authorization token contains a line break");
    return 0;
}

static int from_container(struct hf_provider_context *c, struct hf_credentials **ret,
                          struct hf_error *reterr)
{
    const char *relative = hf__env_get(c->environment, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *url = hf__env_get(c->environment, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    struct hf_http_url parsed;
    struct hf_slice token, body;
    if (!relative && !url) return NOT_HERE;
    if (relative) url = hf__arena_printf(c->arena, "http://169.254.170.2%s", relative).ptr;
    if (!url) return hf__error_no_memory(reterr);
    if (hf__http_url_parse(url, &parsed, reterr) != 0) {
        hf__error_prefix(reterr, "container credentials");
        return HF_ERR_CREDENTIALS;
    }
    if (!parsed.secure && !may_be_plain(parsed.host))
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "container credentials: %s must be https, or on this host", url);
    int code = container_token(c, &token, reterr);
    if (code != 0) return code;
    struct hf_http_request request = hf__fetch_request("GET", url);
    request.no_proxy = !parsed.secure;
    if (token.len)
        request.headers[request.header_count++] =
            hf__arena_printf(c->arena, "Authorization: %.*s", HF_FMT(token)).ptr;
    if (c->arena->failed) return hf__error_no_memory(reterr);
    code = hf__fetch(c, &request, "the container's credentials server", &body, reterr);
    return code == 0 ? hf__credentials_from_json("container", body, false, ret, reterr) : code;
}

/* ---- EC2 instance metadata, version 2 ---- */

static int imds_get(struct hf_provider_context *c, struct hf_slice token, const char *path,
                    struct hf_slice *ret, struct hf_error *reterr)
{
    const char *base = hf__env_get(c->environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    bool is_token = token.len == 0;
    const char *url =
        hf__arena_printf(c->arena, "%s/latest/%s", base ? base : "http://169.254.169.254", path)
            .ptr;
    struct hf_http_request request = hf__fetch_request(is_token ? "PUT" : "GET", url);
    request.no_proxy = true;
    request.timeout_ms = IMDS_TIMEOUT_MS;
    request.headers[request.header_count++] =
        is_token ? "X-aws-ec2-metadata-token-ttl-seconds: 21600"
                 : hf__arena_printf(c->arena, "X-aws-ec2-metadata-token: %.*s", HF_FMT(token)).ptr;
    if (c->arena->failed) return hf__error_no_memory(reterr);
    return hf__fetch(c, &request, "the instance's metadata server", ret, reterr);
}

static int imds_token(struct hf_provider_context *c, struct hf_slice *ret, struct hf_error *reterr)
{
    if (hf__env_is_true(c->environment, "AWS_EC2_METADATA_DISABLED")) return NOT_HERE;
    int code = imds_get(c, hf__slice(NULL, 0), "api/token", ret, reterr);
    if (code == 0 && !is_word(*ret))
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "the instance's metadata server gave no token");
    return code;
}

static int from_imds(struct hf_provider_context *c, struct hf_credentials **ret,
                     struct hf_error *reterr)
{
    static const char base[] = "meta-data/iam/security-credentials/";
    struct hf_slice token, role, body;
    int code = imds_token(c, &token, reterr);
    if (code == 0) code = imds_get(c, token, base, &role, reterr);
    if (code != 0) return code;
    while (role.len && role.ptr[role.len - 1] <= ' ') role.len--;
    if (!is_word(role))
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "the EC2 instance has no role attached to it");
    const char *path = hf__arena_printf(c->arena, "%s%.*s", base, HF_FMT(role)).ptr;
    code = path ? imds_get(c, token, path, &body, reterr) : hf__error_no_memory(reterr);
    return code == 0 ? hf__credentials_from_json("imds", body, false, ret, reterr) : code;
}

int hf__imds_region(struct hf_provider_context *c, const char **ret, struct hf_error *reterr)
{
    struct hf_slice token, region;
    int code = imds_token(c, &token, reterr);
    if (code == 0) code = imds_get(c, token, "meta-data/placement/region", &region, reterr);
    if (code == 0 && !is_word(region)) code = NOT_HERE;
    if (code == 0) *ret = hf__arena_str(c->arena, region);
    return code == 0
               ? 0
               : hf__error_set(
                     reterr, HF_ERR_CREDENTIALS,
                     "no AWS region is set; set AWS_REGION, or add region=… to the store URL");
}

/* ---- profile ---- */

static int from_profile_named(struct hf_provider_context *c, const char *name, int depth,
                              struct hf_credentials **ret, struct hf_error *reterr);

static int from_process(const char *command, struct hf_provider_context *c,
                        struct hf_credentials **ret, struct hf_error *reterr)
{
    struct hf_slice output;
    char **argv = hf__split_command(c->arena, command);
    if (!argv)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "credential_process cannot be split into words: %s", command);
    int code = hf__subprocess_run(c->arena, argv, PROCESS_TIMEOUT_MS, c->stop,
                                  HF_CREDENTIALS_MAX_SIZE, &output, reterr);
    if (code == 0)
        code = hf__credentials_from_json("credential_process", output, true, ret, reterr);
    if (code != 0) hf__error_prefix(reterr, "credential_process");
    return code;
}

/* The access token that `aws sso login` left behind. */
static int sso_token(struct hf_provider_context *c, const char *name, struct hf_slice *ret,
                     struct hf_error *reterr)
{
    struct sha1_ctx sha1;
    uint8_t digest[SHA1_DIGEST_SIZE];
    char hex[2 * SHA1_DIGEST_SIZE + 1];
    struct hf_json_reader r;
    struct hf_slice json, key, token = {0}, expires = {0};
    int64_t expires_ms = 0;
    const char *home = hf__env_get(c->environment, "HOME");
    sha1_init(&sha1);
    sha1_update(&sha1, strlen(name), (const uint8_t *)name);
    sha1_digest(&sha1, sizeof digest, digest);
    hf__hex_encode(digest, sizeof digest, hex);
    const char *path =
        hf__arena_printf(c->arena, "%s/.aws/sso/cache/%s.json", home ? home : "", hex).ptr;
    if (!path) return hf__error_no_memory(reterr);
    if (hf__read_file(c->arena, path, HF_CREDENTIALS_MAX_SIZE, &json, NULL, reterr) != 0)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "no SSO token for \"%s\" (%s); run: aws sso login", name, path);
    hf__json_reader_init(&r, json, HF_CREDENTIALS_MAX_SIZE, c->arena);
    hf__json_object(&r);
    while (hf__json_key(&r, &key)) {
        if (hf__slice_is(key, "accessToken")) hf__json_string(&r, &token);
        else if (hf__slice_is(key, "expiresAt")) hf__json_string(&r, &expires);
        else hf__json_skip(&r);
    }
    if (hf__json_finish(&r) != 0 || !is_word(token) || !hf__parse_rfc3339(expires, &expires_ms))
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "the SSO token in %s cannot be read; run: aws sso login", path);
    if (expires_ms <= hf__clock_wall_us(c->clock) / 1000)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "the SSO token for \"%s\" has expired; run: aws sso login", name);
    *ret = token;
    return 0;
}

static int from_sso(struct hf_provider_context *c, const char *profile, struct hf_credentials **ret,
                    struct hf_error *reterr)
{
    const struct hf_profiles *p = &c->profiles;
    const char *session = hf__profile_get(p, profile, "sso_session");
    const char *start_url = hf__profile_get(p, profile, "sso_start_url");
    const char *region = session ? hf__sso_session_get(p, session, "sso_region")
                                 : hf__profile_get(p, profile, "sso_region");
    const char *account = hf__profile_get(p, profile, "sso_account_id");
    const char *role = hf__profile_get(p, profile, "sso_role_name");
    struct hf_slice token = {0}, body;
    struct hf_buf url;
    if (!session && !start_url) return NOT_HERE;
    if (!region || !account || !role)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "profile %s: SSO needs sso_region, sso_account_id and sso_role_name",
                             profile);
    int code = sso_token(c, session ? session : start_url, &token, reterr);
    if (code != 0) return code;
    const char *base =
        hf__endpoint_is_set("sso", NULL, c->environment, p)
            ? hf__endpoint_find(c->arena, "sso", region, NULL, c->environment, p)
            : hf__arena_printf(c->arena, "https://portal.sso.%s.amazonaws.com", region).ptr;
    hf__buf_init(&url, 4096);
    hf__buf_printf(&url, "%s/federation/credentials?role_name=", base ? base : "");
    hf__percent_encode(hf__slice_str(role), false, &url);
    hf__buf_str(&url, "&account_id=");
    hf__percent_encode(hf__slice_str(account), false, &url);
    struct hf_http_request request = hf__fetch_request("GET", hf__buf_cstr(&url));
    request.headers[request.header_count++] =
        hf__arena_printf(c->arena, "x-amz-sso_bearer_token: %.*s", HF_FMT(token)).ptr;
    code = url.failed || c->arena->failed ? hf__error_no_memory(reterr)
                                          : hf__fetch(c, &request, "the SSO portal", &body, reterr);
    hf__buf_free(&url);
    return code == 0 ? hf__credentials_from_sso(body, ret, reterr) : code;
}

static int from_credential_source(struct hf_provider_context *c, const char *source,
                                  struct hf_credentials **ret, struct hf_error *reterr)
{
    static const struct {
        const char *name;
        provider_fn provide;
    } sources[] = {{"Environment", from_environment},
                   {"Ec2InstanceMetadata", from_imds},
                   {"EcsContainer", from_container}};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (strcmp(sources[i].name, source) != 0) continue;
        int code = sources[i].provide(c, ret, reterr);
        if (code != NOT_HERE) return code;
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "credential_source %s has no credentials",
                             source);
    }
    return hf__error_set(reterr, HF_ERR_CREDENTIALS, "\"%s\" is not a credential_source", source);
}

static int from_role(struct hf_provider_context *c, const char *profile, int depth,
                     struct hf_credentials **ret, struct hf_error *reterr)
{
    const struct hf_profiles *p = &c->profiles;
    struct hf_role role = {.arn = hf__profile_get(p, profile, "role_arn"),
                           .session_name = hf__profile_get(p, profile, "role_session_name"),
                           .external_id = hf__profile_get(p, profile, "external_id"),
                           .duration_s = hf__profile_get(p, profile, "duration_seconds")};
    const char *token_file = hf__profile_get(p, profile, "web_identity_token_file");
    const char *source_profile = hf__profile_get(p, profile, "source_profile");
    const char *source = hf__profile_get(p, profile, "credential_source");
    struct hf_credentials *base = NULL;
    if (!role.arn) return NOT_HERE;
    if (token_file) return hf__sts_web_identity(c, &role, token_file, ret, reterr);
    if (!source_profile == !source)
        return hf__error_set(
            reterr, HF_ERR_CREDENTIALS,
            "profile %s has a role_arn: it needs one of source_profile, credential_source "
            "and web_identity_token_file",
            profile);
    int code = source_profile ? from_profile_named(c, source_profile, depth + 1, &base, reterr)
                              : from_credential_source(c, source, &base, reterr);
    if (code == 0) code = hf__sts_assume_role(c, &role, base, ret, reterr);
    hf__credentials_unref(base);
    return code;
}

static int from_profile_keys(struct hf_provider_context *c, const char *profile,
                             struct hf_credentials **ret, struct hf_error *reterr)
{
    const struct hf_profiles *p = &c->profiles;
    const char *id = hf__profile_get(p, profile, "aws_access_key_id");
    const char *secret = hf__profile_get(p, profile, "aws_secret_access_key");
    if (!id && !secret) return NOT_HERE;
    if (!id || !secret)
        return hf__error_set(
            reterr, HF_ERR_CREDENTIALS,
            "profile %s has only one of aws_access_key_id and aws_secret_access_key", profile);
    return static_keys("profile", id, secret, hf__profile_get(p, profile, "aws_session_token"), ret,
                       reterr);
}

static int from_profile_named(struct hf_provider_context *c, const char *name, int depth,
                              struct hf_credentials **ret, struct hf_error *reterr)
{
    if (depth > DEEPEST_CHAIN)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "profile %s: source_profile refers to itself in a cycle", name);
    /* A profile may name itself as source: then it means its own keys. */
    bool is_source = depth > 0;
    int code = is_source ? from_profile_keys(c, name, ret, reterr) : NOT_HERE;
    if (code == NOT_HERE) code = from_role(c, name, depth, ret, reterr);
    if (code == NOT_HERE) code = from_sso(c, name, ret, reterr);
    if (code == NOT_HERE) code = from_profile_keys(c, name, ret, reterr);
    const char *process = hf__profile_get(&c->profiles, name, "credential_process");
    if (code == NOT_HERE && process) code = from_process(process, c, ret, reterr);
    if (code == NOT_HERE && is_source)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "source_profile %s has no credentials",
                             name);
    return code;
}

static int from_profile(struct hf_provider_context *c, struct hf_credentials **ret,
                        struct hf_error *reterr)
{
    const struct hf_profiles *p = &c->profiles;
    if (p->is_named && !hf__profile_exists(p, p->name))
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "profile %s is neither in %s nor in %s",
                             p->name, p->config_path ? p->config_path : "~/.aws/config",
                             p->credentials_path ? p->credentials_path : "~/.aws/credentials");
    return from_profile_named(c, p->name, 0, ret, reterr);
}

/* ---- the chain ---- */

int hf__providers_resolve(struct hf_provider_context *c, struct hf_credentials **ret,
                          struct hf_error *reterr)
{
    static const provider_fn chain[] = {from_options, from_environment, from_web_identity,
                                        from_profile, from_container,   from_imds};
    struct hf_error error = {0};
    /* A profile named in the URL is used whatever the environment has. */
    bool only_profile = c->profiles.is_explicit;
    for (size_t i = 0; i < sizeof chain / sizeof chain[0]; i++) {
        if (only_profile && (chain[i] == from_environment || chain[i] == from_web_identity))
            continue;
        int code = chain[i](c, ret, &error);
        if (code == NOT_HERE) continue;
        bool guess = chain[i] == from_imds; /* nobody asked for it by name */
        if (code != 0 && !guess) return hf__error_set(reterr, code, "%s", error.message);
        if (code == 0) return 0;
    }
    return hf__error_set(
        reterr, HF_ERR_CREDENTIALS,
        "no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
        "AWS_PROFILE, or run where a role is attached%s%s",
        error.code ? "; " : "", error.code ? error.message : "");
}
