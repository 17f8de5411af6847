#include "store/credentials.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_reader.h"
#include "base/text.h"

/* Credentials go into HTTP headers: printable ASCII without blanks, and not absurdly long. */
static bool is_printable(struct hf_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~') return false;
    return text.len <= 16 * 1024;
}

static char *copy(struct hf_slice text)
{
    char *to = hf__malloc(text.len + 1);
    if (!to) return NULL;
    if (text.len) memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
    return to;
}

int hf__credentials_new(const char *provider, struct hf_slice access_key_id, struct hf_slice secret,
                        struct hf_slice token, int64_t expires_unix_ms, struct hf_credentials **ret,
                        struct hf_error *reterr)
{
    if (access_key_id.len == 0 || secret.len == 0)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "credentials from %s lack an access key id or a secret access key",
                             provider);
    if (!is_printable(access_key_id) || !is_printable(secret) || !is_printable(token))
        return hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "credentials from %s contain characters that cannot be sent",
                             provider);
    struct hf_credentials *c = hf__calloc(1, sizeof *c);
    if (!c) return hf__error_no_memory(reterr);
    c->references = 1;
    c->provider = provider;
    c->expires_unix_ms = expires_unix_ms;
    c->access_key_id = copy(access_key_id);
    c->secret = copy(secret);
    if (token.len) c->token = copy(token);
    if (!c->access_key_id || !c->secret || (token.len && !c->token)) {
        hf__credentials_unref(c);
        return hf__error_no_memory(reterr);
    }
    *ret = c;
    return 0;
}

struct hf_credentials *hf__credentials_ref(struct hf_credentials *credentials)
{
    __atomic_add_fetch(&credentials->references, 1, __ATOMIC_RELAXED);
    return credentials;
}

static void wipe(char *secret)
{
    if (secret) explicit_bzero(secret, strlen(secret));
    hf__free(secret);
}

void hf__credentials_unref(struct hf_credentials *credentials)
{
    if (!credentials || __atomic_sub_fetch(&credentials->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    hf__free(credentials->access_key_id);
    wipe(credentials->secret);
    wipe(credentials->token);
    hf__free(credentials);
}

/* ---- JSON ---- */

struct fields {
    struct hf_slice access_key_id, secret, token, expiration;
    int64_t version;
    int64_t expires_unix_ms;
};

static void read_field(struct hf_json_reader *r, struct hf_slice key, struct fields *f)
{
    const struct {
        const char *name;
        struct hf_slice *to;
    } texts[] = {
        {"AccessKeyId", &f->access_key_id},
        {"accessKeyId", &f->access_key_id},
        {"SecretAccessKey", &f->secret},
        {"secretAccessKey", &f->secret},
        {"Token", &f->token},
        {"SessionToken", &f->token},
        {"sessionToken", &f->token},
        {"Expiration", &f->expiration},
    };
    bool is_null = hf__json_peek(r) == HF_JSON_NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && !is_null; i++)
        if (hf__slice_is(key, texts[i].name)) {
            hf__json_string(r, texts[i].to);
            return;
        }
    if (!is_null && hf__slice_is(key, "Version")) hf__json_int64(r, &f->version);
    else if (!is_null && hf__slice_is(key, "expiration")) hf__json_int64(r, &f->expires_unix_ms);
    else hf__json_skip(r);
}

static int unreadable(const char *provider, const struct hf_json_reader *r, struct hf_error *reterr)
{
    return hf__error_set(reterr, HF_ERR_CREDENTIALS, "the answer of %s cannot be read: %s",
                         provider, r->error.message);
}

int hf__credentials_from_json(const char *provider, struct hf_slice json, bool needs_version,
                              struct hf_credentials **ret, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_json_reader r;
    struct hf_slice key;
    struct fields f = {0};
    hf__json_reader_init(&r, json, HF_CREDENTIALS_MAX_SIZE, &arena);
    hf__json_object(&r);
    while (hf__json_key(&r, &key)) read_field(&r, key, &f);
    int code = 0;
    if (hf__json_finish(&r) != 0) code = unreadable(provider, &r, reterr);
    else if (needs_version && f.version != 1)
        code = hf__error_set(reterr, HF_ERR_CREDENTIALS, "%s must answer with \"Version\": 1",
                             provider);
    else if (f.expiration.len && !hf__parse_rfc3339(f.expiration, &f.expires_unix_ms))
        code = hf__error_set(reterr, HF_ERR_CREDENTIALS,
                             "%s returned an invalid expiration time: %.*s", provider,
                             HF_FMT(f.expiration));
    else
        code = hf__credentials_new(provider, f.access_key_id, f.secret, f.token, f.expires_unix_ms,
                                   ret, reterr);
    hf__arena_free(&arena);
    return code;
}

int hf__credentials_from_sso(struct hf_slice json, struct hf_credentials **ret,
                             struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_json_reader r;
    struct hf_slice key;
    struct fields f = {0};
    hf__json_reader_init(&r, json, HF_CREDENTIALS_MAX_SIZE, &arena);
    hf__json_object(&r);
    while (hf__json_key(&r, &key)) {
        if (!hf__slice_is(key, "roleCredentials")) {
            hf__json_skip(&r);
            continue;
        }
        hf__json_object(&r);
        while (hf__json_key(&r, &key)) read_field(&r, key, &f);
    }
    int code = hf__json_finish(&r) != 0
                   ? unreadable("the SSO portal", &r, reterr)
                   : hf__credentials_new("sso", f.access_key_id, f.secret, f.token,
                                         f.expires_unix_ms, ret, reterr);
    hf__arena_free(&arena);
    return code;
}

/* ---- XML ---- */

static size_t take_entity(struct hf_slice rest, char *ret)
{
    static const struct {
        const char *text;
        char c;
    } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++) {
        if (!hf__slice_starts(rest, hf__slice_str(entities[i].text))) continue;
        *ret = entities[i].c;
        return strlen(entities[i].text);
    }
    *ret = rest.ptr[0];
    return 1;
}

bool hf__xml_text(struct hf_arena *arena, struct hf_slice xml, const char *name,
                  struct hf_slice *ret)
{
    char open[64], close[64];
    size_t open_len = (size_t)snprintf(open, sizeof open, "<%s>", name);
    size_t close_len = (size_t)snprintf(close, sizeof close, "</%s>", name);
    const char *from = xml.len ? memmem(xml.ptr, xml.len, open, open_len) : NULL;
    if (!from) return false;
    from += open_len;
    size_t left = (size_t)(xml.ptr + xml.len - from);
    const char *to = memmem(from, left, close, close_len);
    char *text = to ? hf__arena_alloc(arena, (size_t)(to - from) + 1) : NULL;
    if (!text) return false;
    size_t len = 0;
    while (from < to) from += take_entity(hf__slice(from, (size_t)(to - from)), &text[len++]);
    *ret = hf__slice(text, len);
    return true;
}

int hf__credentials_from_sts(const char *provider, struct hf_slice xml, struct hf_credentials **ret,
                             struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_slice id, secret, token, expiration;
    int64_t expires_unix_ms = 0;
    bool complete = hf__xml_text(&arena, xml, "AccessKeyId", &id) &&
                    hf__xml_text(&arena, xml, "SecretAccessKey", &secret) &&
                    hf__xml_text(&arena, xml, "SessionToken", &token) &&
                    hf__xml_text(&arena, xml, "Expiration", &expiration) &&
                    hf__parse_rfc3339(expiration, &expires_unix_ms);
    int code =
        complete ? hf__credentials_new(provider, id, secret, token, expires_unix_ms, ret, reterr)
                 : hf__error_set(reterr, HF_ERR_CREDENTIALS, "the answer of STS lacks credentials");
    hf__arena_free(&arena);
    return code;
}
