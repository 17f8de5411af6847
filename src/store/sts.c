#include "store/sts.h"

#include <string.h>
#include <strings.h>

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

/* One form on its way. */
struct form {
    const char *url;
    struct hf_http_url parsed;
    struct hf_slice body;
    const struct hf_credentials *source; /* to sign with; NULL: nobody's */
    int64_t signed_unix_s;
    int64_t date_unix_s; /* what STS says; 0: nothing */
};

/* Adds the headers of a signed form to a request. */
static int sign(struct hf_provider_context *context, const struct form *form,
                struct hf_http_request *request, struct hf_error *reterr)
{
    char date[HF_AMZ_DATE_SIZE];
    const struct hf_credentials *source = form->source;
    struct hf_sigv4_scope scope = {.region = hf__slice_str(sts_region(context)),
                                   .service = HF_LIT("sts"),
                                   .unix_s = form->signed_unix_s};
    struct hf_sigv4_key cache = {0};
    struct hf_buf value;
    hf__amz_date(scope.unix_s, date);
    struct hf_header headers[4] = {
        {HF_LIT("content-type"), hf__slice_str(form_type)},
        {HF_LIT("host"), form->parsed.authority},
        {HF_LIT("x-amz-date"), hf__slice_str(date)},
        {HF_LIT("x-amz-security-token"), hf__slice_str(source->token)},
    };
    struct hf_sigv4_request signing = {.method = HF_LIT("POST"),
                                       .path = form->parsed.path,
                                       .headers = headers,
                                       .header_count = source->token ? 4 : 3,
                                       .body = form->body};
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

static void note_date(struct hf_http_request *request, struct hf_slice name, struct hf_slice value)
{
    struct form *form = request->user;
    if (name.len == 4 && strncasecmp(name.ptr, "date", 4) == 0)
        hf__parse_http_date(value, &form->date_unix_s);
}

static int post(struct hf_provider_context *context, struct form *form, struct hf_slice *ret,
                struct hf_error *reterr)
{
    struct hf_arena *arena = context->arena;
    struct hf_http_request request = hf__fetch_request("POST", form->url);
    request.body = form->body;
    request.on_header = note_date;
    request.user = form;
    request.headers[request.header_count++] =
        hf__arena_printf(arena, "Content-Type: %s", form_type).ptr;
    request.headers[request.header_count++] =
        hf__arena_printf(arena, "Host: %.*s", HF_FMT(form->parsed.authority)).ptr;
    if (arena->failed) return hf__error_no_memory(reterr);
    int code = form->source ? sign(context, form, &request, reterr) : 0;
    return code == 0 ? hf__fetch(context, &request, "STS", ret, reterr) : code;
}

/* A signature is refused if the clocks are a quarter of an hour apart, or five minutes. */
static bool is_far(int64_t seconds)
{
    enum { FAR_S = 4 * 60 };
    return seconds <= -FAR_S || seconds >= FAR_S;
}

/* Posts a form to STS, signed if there are credentials to sign with; once more by the clock of STS
 * if ours is so far off that this may be why it was refused. */
static int call(struct hf_provider_context *context, struct hf_slice body,
                const struct hf_credentials *source, struct hf_slice *ret, struct hf_error *reterr)
{
    struct form form = {.body = body, .source = source};
    form.signed_unix_s = hf__clock_wall_us(context->clock) / 1000000;
    form.url = hf__endpoint_find(context->arena, "sts", sts_region(context), NULL,
                                 context->environment, &context->profiles);
    if (!form.url) return hf__error_no_memory(reterr);
    int code = hf__http_url_parse(form.url, &form.parsed, reterr);
    if (code == 0) code = post(context, &form, ret, reterr);
    if (code == 0 || !source || !form.date_unix_s) return code;
    if (!is_far(form.date_unix_s - form.signed_unix_s)) return code;
    form.signed_unix_s = form.date_unix_s;
    return post(context, &form, ret, reterr);
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
