/* Signatures against vectors made by botocore (sigv4/make_vectors.py), stage by stage. */
#include <stdlib.h>

#include "base/json_reader.h"
#include "harness/test.h"
#include "wire/sigv4.h"

struct vector {
    struct hf_slice name, method, path, query, body, region, service, access_key_id, secret;
    struct hf_slice canonical_request, string_to_sign, authorization;
    struct hf_header headers[16];
    size_t header_count;
    int64_t unix_s;
};

static char *read_file(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    static char text[1 << 16];
    *ret_len = fread(text, 1, sizeof text, file);
    fclose(file);
    return text;
}

static void read_vector(struct hf_json_reader *r, struct vector *v)
{
    const struct {
        const char *name;
        struct hf_slice *to;
    } texts[] = {
        {"name", &v->name},
        {"method", &v->method},
        {"path", &v->path},
        {"query", &v->query},
        {"body", &v->body},
        {"region", &v->region},
        {"service", &v->service},
        {"access_key_id", &v->access_key_id},
        {"secret", &v->secret},
        {"canonical_request", &v->canonical_request},
        {"string_to_sign", &v->string_to_sign},
        {"authorization", &v->authorization},
    };
    struct hf_slice key;
    *v = (struct vector){0};
    hf__json_object(r);
    while (hf__json_key(r, &key)) {
        if (hf__slice_is(key, "unix_s")) hf__json_int64(r, &v->unix_s);
        if (hf__slice_is(key, "headers")) {
            hf__json_object(r);
            while (hf__json_key(r, &v->headers[v->header_count].name))
                hf__json_string(r, &v->headers[v->header_count++].value);
        }
        for (size_t i = 0; i < COUNT_OF(texts); i++)
            if (hf__slice_is(key, texts[i].name)) hf__json_string(r, texts[i].to);
    }
}

/* Calls `check` with every vector; returns how many there are. */
static int each_vector(void (*check)(const struct vector *v))
{
    struct hf_arena arena = {0};
    struct hf_json_reader r;
    struct hf_slice key;
    size_t len;
    int count = 0;
    char *text = read_file(HF_SOURCE_DIR "/tests/wire/sigv4/vectors.json", &len);
    hf__json_reader_init(&r, hf__slice(text, len), 1 << 16, &arena);
    hf__json_object(&r);
    while (hf__json_key(&r, &key)) {
        if (!hf__slice_is(key, "cases")) {
            hf__json_skip(&r);
            continue;
        }
        hf__json_array(&r);
        while (hf__json_element(&r)) {
            struct vector v;
            read_vector(&r, &v);
            hf_test_note("%.*s", HF_FMT(v.name));
            check(&v);
            count++;
        }
    }
    CHECK_INT(hf__json_finish(&r), 0);
    hf__arena_free(&arena);
    return count;
}

static struct hf_sigv4_request request_of(const struct vector *v)
{
    return (struct hf_sigv4_request){.method = v->method,
                                     .path = v->path,
                                     .query = v->query,
                                     .headers = v->headers,
                                     .header_count = v->header_count,
                                     .body = v->body};
}

static void check_stages(const struct vector *v)
{
    struct hf_sigv4_request request = request_of(v);
    struct hf_sigv4_scope scope = {v->region, v->service, v->unix_s};
    struct hf_sigv4_key cache = {0};
    struct hf_buf canonical, text, header;
    hf__buf_init(&canonical, 1 << 16);
    hf__buf_init(&text, 1 << 16);
    hf__buf_init(&header, 1 << 16);
    hf__sigv4_canonical_request(&request, &canonical);
    CHECK_SLICE(hf__buf_view(&canonical), v->canonical_request);
    hf__sigv4_string_to_sign(&scope, hf__buf_view(&canonical), &text);
    CHECK_SLICE(hf__buf_view(&text), v->string_to_sign);
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        hf__buf_clear(&header);
        hf__sigv4_authorization(&request, &scope, v->access_key_id, v->secret, &cache, &header);
        CHECK_SLICE(hf__buf_view(&header), v->authorization);
    }
    hf__buf_free(&canonical);
    hf__buf_free(&text);
    hf__buf_free(&header);
}

TEST(every_stage_agrees_with_botocore)
{
    CHECK(each_vector(check_stages) >= 10);
}

TEST(the_cached_key_follows_date_region_and_secret)
{
    struct hf_header headers[] = {{HF_LIT("host"), HF_LIT("h")},
                                  {HF_LIT("x-amz-date"), HF_LIT("d")}};
    struct hf_sigv4_request request = {
        .method = HF_LIT("POST"), .path = HF_LIT("/"), .headers = headers, .header_count = 2};
    struct hf_sigv4_scope scopes[] = {{HF_LIT("r1"), HF_LIT("dynamodb"), 1794738030},
                                      {HF_LIT("r2"), HF_LIT("dynamodb"), 1794738030},
                                      {HF_LIT("r1"), HF_LIT("dynamodb"), 1794738030 + 86400}};
    static const char *const secrets[] = {"one", "two"};
    struct hf_sigv4_key shared = {0};
    for (int round = 0; round < 12; round++) {
        struct hf_sigv4_scope *scope = &scopes[round % 3];
        struct hf_slice secret = hf__slice_str(secrets[round % 2]);
        struct hf_sigv4_key fresh = {0};
        struct hf_buf a, b;
        hf__buf_init(&a, 4096);
        hf__buf_init(&b, 4096);
        hf__sigv4_authorization(&request, scope, HF_LIT("AKID"), secret, &shared, &a);
        hf__sigv4_authorization(&request, scope, HF_LIT("AKID"), secret, &fresh, &b);
        CHECK_SLICE(hf__buf_view(&a), hf__buf_view(&b));
        hf__buf_free(&a);
        hf__buf_free(&b);
    }
}

/* ---- verification ---- */

static bool secret_of(void *user, struct hf_slice id, struct hf_slice *ret)
{
    const struct vector *v = user;
    *ret = v->secret;
    return hf__slice_eq(id, v->access_key_id);
}

/* Verifies a vector as a server would receive it, with one header more and others in another order.
 */
static int verify(const struct vector *v, struct hf_slice authorization, struct hf_slice body,
                  int64_t now, struct hf_error *reterr)
{
    struct hf_header headers[20];
    struct hf_sigv4_request request = request_of(v);
    size_t count = 0;
    headers[count++] = (struct hf_header){HF_LIT("accept"), HF_LIT("x")};
    for (size_t i = v->header_count; i-- > 0;) headers[count++] = v->headers[i];
    if (authorization.ptr)
        headers[count++] = (struct hf_header){HF_LIT("authorization"), authorization};
    request.headers = headers;
    request.header_count = count;
    request.body = body;
    const struct hf_sigv4_check check = {v->service, now, secret_of, (void *)v};
    struct hf_sigv4_verdict verdict;
    int code = hf__sigv4_verify(&request, &check, &verdict, reterr);
    if (code == 0) CHECK(hf__slice_eq(verdict.access_key_id, v->access_key_id));
    return code;
}

static void check_verification(const struct vector *v)
{
    struct hf_error error = {0};
    if (verify(v, v->authorization, v->body, v->unix_s + 60, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    CHECK_INT(verify(v, v->authorization, HF_LIT("changed"), v->unix_s, &error), HF_ERR_DENIED);
    CHECK_INT(verify(v, v->authorization, v->body, v->unix_s + 16 * 60, &error), HF_ERR_DENIED);
    CHECK_STR(error.message, "Signature expired");
    CHECK_INT(verify(v, v->authorization, v->body, v->unix_s - 16 * 60, &error), HF_ERR_DENIED);
    CHECK_STR(error.message, "Signature not yet current");
    CHECK_INT(verify(v, hf__slice(NULL, 0), v->body, v->unix_s, &error), HF_ERR_DENIED);
    char forged[1024];
    memcpy(forged, v->authorization.ptr, v->authorization.len);
    char *last = &forged[v->authorization.len - 1];
    *last = *last == '0' ? '1' : '0';
    CHECK_INT(verify(v, hf__slice(forged, v->authorization.len), v->body, v->unix_s, &error),
              HF_ERR_DENIED);
}

TEST(good_signatures_pass_and_forged_ones_do_not)
{
    CHECK(each_vector(check_verification) >= 10);
}

/* Signs a request, then adds a header that the signature does not cover, or one of its own again.
 */
TEST(headers_that_matter_are_signed_and_come_once)
{
    static const struct {
        const char *name;
        int code;
    } added[] = {{"user-agent", 0},
                 {"x-amz-target", HF_ERR_DENIED},
                 {"x-amz-other", HF_ERR_DENIED},
                 {"host", HF_ERR_DENIED}};
    for (size_t i = 0; i < COUNT_OF(added); i++) {
        struct vector v = {.service = HF_LIT("dynamodb"),
                           .access_key_id = HF_LIT("A"),
                           .secret = HF_LIT("s"),
                           .method = HF_LIT("POST"),
                           .path = HF_LIT("/")};
        v.headers[v.header_count++] = (struct hf_header){HF_LIT("host"), HF_LIT("h")};
        v.headers[v.header_count++] =
            (struct hf_header){HF_LIT("x-amz-date"), HF_LIT("20261115T102030Z")};
        struct hf_sigv4_request request = request_of(&v);
        struct hf_sigv4_scope scope = {HF_LIT("r"), v.service, 1794738030};
        struct hf_sigv4_key cache = {0};
        struct hf_buf header;
        struct hf_error error;
        hf__buf_init(&header, 4096);
        hf__sigv4_authorization(&request, &scope, v.access_key_id, v.secret, &cache, &header);
        v.headers[v.header_count++] = (struct hf_header){hf__slice_str(added[i].name), HF_LIT("x")};
        hf_test_note("%s", added[i].name);
        CHECK_INT(verify(&v, hf__buf_view(&header), HF_LIT(""), 1794738030, &error), added[i].code);
        hf__buf_free(&header);
    }
}

static void derive_a_key(void)
{
    struct hf_sigv4_scope scope = {HF_LIT("r"), HF_LIT("s"), 0};
    unsigned char key[HF_SHA256_SIZE], other[HF_SHA256_SIZE];
    char secret[5000];
    memset(secret, 'x', sizeof secret);
    hf__sigv4_derive_key(hf__slice(secret, sizeof secret), &scope, key);
    secret[4999] = 'y';
    hf__sigv4_derive_key(hf__slice(secret, sizeof secret), &scope, other);
    CHECK(memcmp(key, other, sizeof key) != 0);
}

TEST(a_key_is_derived_from_the_whole_secret_and_without_memory)
{
    CHECK_INT(hf_test_torture(derive_a_key), 0);
}

TEST(incomplete_authorization_is_refused)
{
    static const char *const bad[] = {
        "",
        "Basic dXNlcjpwYXNz",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 ",
        "AWS4-HMAC-SHA256 Credential=A/20261115/r/dynamodb/aws4_request, SignedHeaders=host",
        "AWS4-HMAC-SHA256 Credential=A/20261115/r/dynamodb, SignedHeaders=host, Signature=00",
        "AWS4-HMAC-SHA256 Credential=, SignedHeaders=, Signature=",
        ("AWS4-HMAC-SHA256 Credential=A/20261115/r/dynamodb/aws4_request, SignedHeaders=x-nothing, "
         "Signature=0000000000000000000000000000000000000000000000000000000000000000"),
    };
    struct vector v = {
        .service = HF_LIT("dynamodb"), .access_key_id = HF_LIT("A"), .secret = HF_LIT("s")};
    v.headers[v.header_count++] = (struct hf_header){HF_LIT("host"), HF_LIT("h")};
    v.headers[v.header_count++] =
        (struct hf_header){HF_LIT("x-amz-date"), HF_LIT("20261115T102030Z")};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct hf_error error = {0};
        hf_test_note("%s", bad[i]);
        CHECK_INT(verify(&v, hf__slice_str(bad[i]), HF_LIT(""), 1794738030, &error), HF_ERR_DENIED);
        CHECK(error.message[0] != '\0');
    }
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(every_stage_agrees_with_botocore),
        RUN(the_cached_key_follows_date_region_and_secret),
        RUN(good_signatures_pass_and_forged_ones_do_not),
        RUN(headers_that_matter_are_signed_and_come_once),
        RUN(a_key_is_derived_from_the_whole_secret_and_without_memory),
        RUN(incomplete_authorization_is_refused),
    };
    return RUN_TESTS(tests);
}
