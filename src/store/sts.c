#include "store/sts.h"

#include <string.h>

#include "base/text.h"
#include "store/endpoint.h"
#include "store/fetch.h"
#include "wire/sigv4.h"

static const char form_type[] = "application/x-www-form-urlencoded; charset=utf-8";

static void add_parameter(struct hf_buf *body, const char *name, struct hf_slice value)
{
    hf__buf_printf(body, "%s%s=", body->len ? "&" : "", name);
    hf__percent_encode(value, false, body);
}

static void add_role(struct hf_provider_context *context, const struct hf_role *role,
                     const char *action, struct hf_buf *body)
{
    const char *session = role->session_name;
    if (!session)
        session = hf__arena_printf(context->arena, "holdfast-%lld",
                                   (long long)(hf__clock_wall_us(context->clock) / 1000000))
                      .ptr;
    add_parameter(body, "Action", hf__slice_str(action));
    add_parameter(body, "Version", HF_LIT("2011-06-15"));
    add_parameter(body, "RoleArn", hf__slice_str(role->arn));
    add_parameter(body, "RoleSessionName", hf__slice_str(session));
    if (role->external_id) add_parameter(body, "ExternalId", hf__slice_str(role->external_id));
    if (role->duration_s) add_parameter(body, "DurationSeconds", hf__slice_str(role->duration_s));
}

static const char *sts_region(const struct hf_provider_context *context)
{
    return context->region ? context->region : "us-east-1";
}

/* Adds the headers of a signed form to a request. */
static int sign(struct hf_provider_context *context, const struct hf_credentials *source,
                struct hf_slice body, const struct hf_http_url *url,
                struct hf_http_request *request, struct hf_error *reterr)
{
    char date[HF_AMZ_DATE_SIZE];
    struct hf_sigv4_scope scope = {.region = hf__slice_str(sts_region(context)),
                                   .service = HF_LIT("sts"),
                                   .unix_s = hf__clock_wall_us(context->clock) / 1000000};
    struct hf_sigv4_key cache = {0};
    struct hf_buf value;
    hf__amz_date(scope.unix_s, date);
    struct hf_header headers[4] = {
        {HF_LIT("content-type"), hf__slice_str(form_type)},
        {HF_LIT("host"), url->authority},
        {HF_LIT("x-amz-date"), hf__slice_str(date)},
        {HF_LIT("x-amz-security-token"), hf__slice_str(source->token)},
    };
    struct hf_sigv4_request signing = {.method = HF_LIT("POST"),
                                       .path = url->path,
                                       .headers = headers,
                                       .header_count = source->token ? 4 : 3,
                                       .body = body};
    hf__buf_init(&value, 64 * 1024);
    hf__sigv4_authorization(&signing, &scope, hf__slice_str(source->access_key_id),
                            hf__slice_str(source->secret), &cache, &value);
    struct hf_arena *arena = context->arena;
    request->headers[request->header_count++] = hf__arena_printf(arena, "X-Amz-Date: %s", date).ptr;
    if (source->token)
        request->headers[request->header_count++] =
            hf__arena_printf(arena, "X-Amz-Security-Token: %s", source->token).ptr;
    request->headers[request->header_count++] =
        hf__arena_printf(arena, "Authorization: %.*s", HF_FMT(hf__buf_view(&value))).ptr;
    bool failed = value.failed || arena->failed;
    hf__buf_free(&value);
    explicit_bzero(&cache, sizeof cache);
    return failed ? hf__error_no_memory(reterr) : 0;
}

/* Posts a form to STS, signed if there are credentials to sign with. */
static int call(struct hf_provider_context *context, struct hf_slice body,
                const struct hf_credentials *source, struct hf_slice *ret, struct hf_error *reterr)
{
    struct hf_http_url parsed;
    struct hf_arena *arena = context->arena;
    const char *url = hf__endpoint_find(arena, "sts", sts_region(context), NULL,
                                        context->environment, &context->profiles);
    if (!url) return hf__error_no_memory(reterr);
    int code = hf__http_url_parse(url, &parsed, reterr);
    if (code != 0) return code;
    struct hf_http_request request = hf__fetch_request("POST", url);
    request.body = body;
    request.headers[request.header_count++] =
        hf__arena_printf(arena, "Content-Type: %s", form_type).ptr;
    request.headers[request.header_count++] =
        hf__arena_printf(arena, "Host: %.*s", HF_FMT(parsed.authority)).ptr;
    if (arena->failed) return hf__error_no_memory(reterr);
    if (source) code = sign(context, source, body, &parsed, &request, reterr);
    return code == 0 ? hf__fetch(context, &request, "STS", ret, reterr) : code;
}

int hf__sts_assume_role(struct hf_provider_context *context, const struct hf_role *role,
                        const struct hf_credentials *source, struct hf_credentials **ret,
                        struct hf_error *reterr)
{
    struct hf_buf body;
    struct hf_slice answer;
    hf__buf_init(&body, HF_CREDENTIALS_MAX_SIZE);
    add_role(context, role, "AssumeRole", &body);
    int code = body.failed ? hf__error_no_memory(reterr)
                           : call(context, hf__buf_view(&body), source, &answer, reterr);
    if (code == 0) code = hf__credentials_from_sts("assume-role", answer, ret, reterr);
    hf__buf_free(&body);
    return code;
}

int hf__sts_web_identity(struct hf_provider_context *context, const struct hf_role *role,
                         const char *token_file, struct hf_credentials **ret,
                         struct hf_error *reterr)
{
    struct hf_buf body;
    struct hf_slice token, answer;
    int code =
        hf__read_file(context->arena, token_file, HF_CREDENTIALS_MAX_SIZE, &token, NULL, reterr);
    if (code != 0)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "web identity: cannot read %s",
                             token_file);
    while (token.len && token.ptr[token.len - 1] <= ' ') token.len--;
    hf__buf_init(&body, 4 * HF_CREDENTIALS_MAX_SIZE);
    add_role(context, role, "AssumeRoleWithWebIdentity", &body);
    add_parameter(&body, "WebIdentityToken", token);
    code = body.failed ? hf__error_no_memory(reterr)
                       : call(context, hf__buf_view(&body), NULL, &answer, reterr);
    if (code == 0) code = hf__credentials_from_sts("web-identity", answer, ret, reterr);
    hf__buf_free(&body);
    return code;
}
