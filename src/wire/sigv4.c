#include "wire/sigv4.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

enum { MAX_SIGNED_HEADERS = 64, MAX_QUERY_PARTS = 64, MAX_SKEW_S = 15 * 60 };

static void sha256(struct hf_slice data, unsigned char ret[HF_SHA256_SIZE])
{
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    sha256_update(&ctx, data.len, (const uint8_t *)data.ptr);
    sha256_digest(&ctx, HF_SHA256_SIZE, ret);
}

static void sha256_hex(struct hf_slice data, char ret[2 * HF_SHA256_SIZE + 1])
{
    unsigned char hash[HF_SHA256_SIZE];
    sha256(data, hash);
    hf__hex_encode(hash, sizeof hash, ret);
}

static void hmac(struct hf_slice key, struct hf_slice data, unsigned char ret[HF_SHA256_SIZE])
{
    struct hmac_sha256_ctx ctx;
    hmac_sha256_set_key(&ctx, key.len, (const uint8_t *)key.ptr);
    hmac_sha256_update(&ctx, data.len, (const uint8_t *)data.ptr);
    hmac_sha256_digest(&ctx, HF_SHA256_SIZE, ret);
}

/* The last `digits` decimal digits; returns where the next character goes. */
static char *put_digits(char *to, int64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--, value /= 10) to[i] = (char)('0' + value % 10);
    return to + digits;
}

void hf__amz_date(int64_t unix_s, char ret[HF_AMZ_DATE_SIZE])
{
    int64_t days = unix_s >= 0 ? unix_s / 86400 : (unix_s - 86399) / 86400;
    int64_t second = unix_s - days * 86400, year;
    int month, day;
    hf__date_from_days(days, &year, &month, &day);
    char *at = put_digits(ret, year, 4);
    at = put_digits(put_digits(at, month, 2), day, 2);
    *at++ = 'T';
    at = put_digits(at, second / 3600, 2);
    at = put_digits(put_digits(at, second / 60 % 60, 2), second % 60, 2);
    *at++ = 'Z';
    *at = '\0';
}

/* ---- canonical request ---- */

/* The path as sent is encoded once more, as all services but S3 want it. */
static void add_path(struct hf_slice path, struct hf_buf *ret)
{
    hf__percent_encode(path.len ? path : HF_LIT("/"), true, ret);
}

static struct hf_slice name_of(struct hf_slice part)
{
    const char *equals = memchr(part.ptr, '=', part.len);
    return equals ? hf__slice(part.ptr, (size_t)(equals - part.ptr)) : part;
}

/* By name, then by value. */
static int compare_parts(const void *a, const void *b)
{
    const struct hf_slice *x = a, *y = b;
    int order = hf__slice_cmp(name_of(*x), name_of(*y));
    return order ? order : hf__slice_cmp(*x, *y);
}

/* Sorted "name=value" parts. No request that is sent here has more than fit. */
static void add_query(struct hf_slice query, struct hf_buf *ret)
{
    struct hf_slice parts[MAX_QUERY_PARTS];
    size_t count = 0;
    const char *at = query.ptr, *end = hf__slice_end(query);
    while (at < end && count < MAX_QUERY_PARTS) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        if (!stop) stop = end;
        if (stop > at) parts[count++] = hf__slice(at, (size_t)(stop - at));
        at = stop + 1;
    }
    if (at < end) ret->failed = true;
    qsort(parts, count, sizeof parts[0], compare_parts);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) hf__buf_char(ret, '&');
        hf__buf_slice(ret, parts[i]);
        if (!memchr(parts[i].ptr, '=', parts[i].len)) hf__buf_char(ret, '=');
    }
}

/* Without white space at the ends, runs of blanks as one. */
static void add_trimmed(struct hf_slice value, struct hf_buf *ret)
{
    bool pending = false, any = false;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == ' ' || c == '\t') {
            pending = any;
            continue;
        }
        if (pending) hf__buf_char(ret, ' ');
        hf__buf_char(ret, c);
        pending = false;
        any = true;
    }
}

static void add_signed_names(const struct hf_sigv4_request *request, struct hf_buf *ret)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (i > 0) hf__buf_char(ret, ';');
        hf__buf_slice(ret, request->headers[i].name);
    }
}

void hf__sigv4_canonical_request(const struct hf_sigv4_request *request, struct hf_buf *ret)
{
    hf__buf_slice(ret, request->method);
    hf__buf_char(ret, '\n');
    add_path(request->path, ret);
    hf__buf_char(ret, '\n');
    add_query(request->query, ret);
    hf__buf_char(ret, '\n');
    for (size_t i = 0; i < request->header_count; i++) {
        hf__buf_slice(ret, request->headers[i].name);
        hf__buf_char(ret, ':');
        add_trimmed(request->headers[i].value, ret);
        hf__buf_char(ret, '\n');
    }
    hf__buf_char(ret, '\n');
    add_signed_names(request, ret);
    hf__buf_char(ret, '\n');
    char hash[2 * HF_SHA256_SIZE + 1];
    sha256_hex(request->body, hash);
    hf__buf_str(ret, hash);
}

/* ---- string to sign, key, signature ---- */

static void add_scope(const struct hf_sigv4_scope *scope, struct hf_buf *ret)
{
    char date[HF_AMZ_DATE_SIZE];
    hf__amz_date(scope->unix_s, date);
    hf__buf_printf(ret, "%.8s/%.*s/%.*s/aws4_request", date, HF_FMT(scope->region),
                   HF_FMT(scope->service));
}

void hf__sigv4_string_to_sign(const struct hf_sigv4_scope *scope, struct hf_slice canonical,
                              struct hf_buf *ret)
{
    char date[HF_AMZ_DATE_SIZE], hash[2 * HF_SHA256_SIZE + 1];
    sha256_hex(canonical, hash); /* first: it may stand in the same buffer */
    hf__amz_date(scope->unix_s, date);
    hf__buf_printf(ret, "AWS4-HMAC-SHA256\n%s\n", date);
    add_scope(scope, ret);
    hf__buf_printf(ret, "\n%s", hash);
}

/* "AWS4" and the secret, as HMAC takes a key: hashed first if it is longer than a block. */
static size_t first_key(struct hf_slice secret, unsigned char ret[SHA256_BLOCK_SIZE])
{
    static const char prefix[4] = {'A', 'W', 'S', '4'};
    if (secret.len <= SHA256_BLOCK_SIZE - sizeof prefix) {
        memcpy(ret, prefix, sizeof prefix);
        if (secret.len) memcpy(ret + sizeof prefix, secret.ptr, secret.len);
        return sizeof prefix + secret.len;
    }
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    sha256_update(&ctx, sizeof prefix, (const uint8_t *)prefix);
    sha256_update(&ctx, secret.len, (const uint8_t *)secret.ptr);
    sha256_digest(&ctx, HF_SHA256_SIZE, ret);
    return HF_SHA256_SIZE;
}

void hf__sigv4_derive_key(struct hf_slice secret, const struct hf_sigv4_scope *scope,
                          unsigned char ret[HF_SHA256_SIZE])
{
    static const struct hf_slice closing = {"aws4_request", 12};
    char date[HF_AMZ_DATE_SIZE];
    hf__amz_date(scope->unix_s, date);
    struct hf_slice key = hf__slice((const char *)ret, HF_SHA256_SIZE);
    unsigned char first[SHA256_BLOCK_SIZE];
    size_t len = first_key(secret, first);
    hmac(hf__slice((const char *)first, len), hf__slice(date, 8), ret);
    explicit_bzero(first, sizeof first);
    hmac(key, scope->region, ret);
    hmac(key, scope->service, ret);
    hmac(key, closing, ret);
}

void hf__sigv4_signature(const unsigned char key[HF_SHA256_SIZE], struct hf_slice string_to_sign,
                         char ret[2 * HF_SHA256_SIZE + 1])
{
    unsigned char signature[HF_SHA256_SIZE];
    hmac(hf__slice((const char *)key, HF_SHA256_SIZE), string_to_sign, signature);
    hf__hex_encode(signature, sizeof signature, ret);
}

/* The derived key for a scope, from the cache if it was made of the same secret and scope. */
static const unsigned char *cached_key(struct hf_slice secret, const struct hf_sigv4_scope *scope,
                                       struct hf_sigv4_key *cache)
{
    char name[sizeof cache->scope], date[HF_AMZ_DATE_SIZE];
    unsigned char hash[HF_SHA256_SIZE];
    hf__amz_date(scope->unix_s, date);
    int len = snprintf(name, sizeof name, "%.8s/%.*s/%.*s", date, HF_FMT(scope->region),
                       HF_FMT(scope->service));
    sha256(secret, hash);
    bool fresh = len < (int)sizeof name && memcmp(cache->secret_hash, hash, sizeof hash) == 0 &&
                 strcmp(cache->scope, name) == 0;
    if (!fresh) {
        memcpy(cache->scope, name, sizeof name);
        memcpy(cache->secret_hash, hash, sizeof hash);
        hf__sigv4_derive_key(secret, scope, cache->key);
    }
    return cache->key;
}

static void sign(const struct hf_sigv4_request *request, const struct hf_sigv4_scope *scope,
                 const unsigned char *key, struct hf_buf *scratch, char ret[2 * HF_SHA256_SIZE + 1])
{
    hf__sigv4_canonical_request(request, scratch);
    size_t canonical = scratch->len;
    hf__sigv4_string_to_sign(scope, hf__slice(scratch->data, canonical), scratch);
    hf__sigv4_signature(key, hf__slice(scratch->data + canonical, scratch->len - canonical), ret);
}

void hf__sigv4_authorization(const struct hf_sigv4_request *request,
                             const struct hf_sigv4_scope *scope, struct hf_slice access_key_id,
                             struct hf_slice secret, struct hf_sigv4_key *cache, struct hf_buf *ret)
{
    char signature[2 * HF_SHA256_SIZE + 1];
    struct hf_buf scratch;
    hf__buf_init(&scratch, 64 * 1024);
    const unsigned char *key = cached_key(secret, scope, cache);
    sign(request, scope, key, &scratch, signature);
    hf__buf_printf(ret, "AWS4-HMAC-SHA256 Credential=%.*s/", HF_FMT(access_key_id));
    add_scope(scope, ret);
    hf__buf_str(ret, ", SignedHeaders=");
    add_signed_names(request, ret);
    hf__buf_printf(ret, ", Signature=%s", signature);
    ret->failed |= scratch.failed;
    hf__buf_free(&scratch);
}

/* ---- verification ---- */

const char *const hf__sigv4_exceptions[HF_SIGV4_FAULTS] = {
    [HF_SIGV4_MISSING] = "MissingAuthenticationTokenException",
    [HF_SIGV4_INCOMPLETE] = "IncompleteSignatureException",
    [HF_SIGV4_UNKNOWN] = "UnrecognizedClientException",
    [HF_SIGV4_INVALID] = "InvalidSignatureException",
};

struct claim {
    struct hf_slice access_key_id, date, region, service, closing;
    struct hf_slice signed_names;
    struct hf_slice signature;
};

static int deny(struct hf_error *reterr, const char *why)
{
    return hf__error_set(reterr, HF_ERR_DENIED, "%s", why);
}

/* Cuts off the text before a character; the rest stays in *text. */
static struct hf_slice cut(struct hf_slice *text, char at)
{
    const char *found = text->len ? memchr(text->ptr, at, text->len) : NULL;
    size_t len = found ? (size_t)(found - text->ptr) : text->len;
    struct hf_slice part = hf__slice(text->ptr, len);
    size_t used = found ? len + 1 : len;
    *text = hf__slice_skip(*text, used);
    return part;
}

static struct hf_slice trim(struct hf_slice text)
{
    while (text.len && *text.ptr == ' ') text = hf__slice(text.ptr + 1, text.len - 1);
    while (text.len && text.ptr[text.len - 1] == ' ') text.len--;
    return text;
}

static bool parse_claim(struct hf_slice header, struct claim *ret)
{
    static const struct hf_slice algorithm = {"AWS4-HMAC-SHA256 ", 17};
    *ret = (struct claim){0};
    if (!hf__slice_starts(header, algorithm)) return false;
    struct hf_slice rest = hf__slice(header.ptr + algorithm.len, header.len - algorithm.len);
    while (rest.len > 0) {
        struct hf_slice value = trim(cut(&rest, ','));
        struct hf_slice name = cut(&value, '=');
        if (hf__slice_is(name, "Credential")) {
            ret->access_key_id = cut(&value, '/');
            ret->date = cut(&value, '/');
            ret->region = cut(&value, '/');
            ret->service = cut(&value, '/');
            ret->closing = value;
        } else if (hf__slice_is(name, "SignedHeaders")) {
            ret->signed_names = value;
        } else if (hf__slice_is(name, "Signature")) {
            ret->signature = value;
        } else {
            return false;
        }
    }
    return ret->access_key_id.len > 0 && ret->region.len > 0 && ret->signed_names.len > 0 &&
           ret->signature.len == 2 * HF_SHA256_SIZE && hf__slice_is(ret->closing, "aws4_request");
}

static const struct hf_header *find_header(const struct hf_sigv4_request *request,
                                           struct hf_slice name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (hf__slice_eq(request->headers[i].name, name)) return &request->headers[i];
    return NULL;
}

/* "20261115T102030Z" as unix seconds. */
static bool parse_amz_date(struct hf_slice text, int64_t *ret)
{
    if (text.len != HF_AMZ_DATE_SIZE - 1) return false;
    char spelled[21];
    const char *t = text.ptr;
    snprintf(spelled, sizeof spelled, "%.4s-%.2s-%.5s:%.2s:%.3s", t, t + 4, t + 6, t + 11, t + 13);
    int64_t ms;
    if (!hf__parse_rfc3339(hf__slice_str(spelled), &ms)) return false;
    *ret = ms / 1000;
    return true;
}

/* The signed headers in the order they were signed. */
static size_t pick_signed(const struct hf_sigv4_request *request, struct hf_slice names,
                          struct hf_header *ret)
{
    size_t count = 0;
    while (names.len > 0) {
        const struct hf_header *header = find_header(request, cut(&names, ';'));
        if (!header || count == MAX_SIGNED_HEADERS) return 0;
        ret[count++] = *header;
    }
    return count;
}

/* Whether a list of names, separated by semicolons, has this one. */
static bool is_listed(struct hf_slice names, struct hf_slice name)
{
    while (names.len > 0)
        if (hf__slice_eq(cut(&names, ';'), name)) return true;
    return false;
}

/*
 * Unsigned headers must not matter, and signed ones must have only one meaning: every x-amz- header
 * is signed, and no header that counts comes twice.
 */
static int check_headers(const struct hf_sigv4_request *request, struct hf_slice signed_names,
                         struct hf_error *reterr)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const struct hf_header *header = &request->headers[i];
        bool is_signed = is_listed(signed_names, header->name);
        bool counts = is_signed || hf__slice_is(header->name, "authorization");
        if (!is_signed && hf__slice_starts(header->name, HF_LIT("x-amz-")))
            return hf__error_set(reterr, HF_ERR_DENIED, "The header %.*s must be signed",
                                 HF_FMT(header->name));
        if (counts && find_header(request, header->name) != header)
            return hf__error_set(reterr, HF_ERR_DENIED, "The header %.*s occurs twice",
                                 HF_FMT(header->name));
    }
    return 0;
}

static int verify_claim(const struct hf_sigv4_request *request, const struct claim *claim,
                        const struct hf_sigv4_scope *scope, struct hf_slice secret,
                        struct hf_error *reterr)
{
    struct hf_header picked[MAX_SIGNED_HEADERS];
    int code = check_headers(request, claim->signed_names, reterr);
    if (code != 0) return code;
    struct hf_sigv4_request covered = *request;
    covered.headers = picked;
    covered.header_count = pick_signed(request, claim->signed_names, picked);
    if (!find_header(&covered, HF_LIT("host")) || !find_header(&covered, HF_LIT("x-amz-date")))
        return deny(reterr, "The signature must cover the headers host and x-amz-date");
    unsigned char key[HF_SHA256_SIZE];
    char expected[2 * HF_SHA256_SIZE + 1];
    struct hf_buf scratch;
    hf__buf_init(&scratch, 256 * 1024);
    hf__sigv4_derive_key(secret, scope, key);
    sign(&covered, scope, key, &scratch, expected);
    bool failed = scratch.failed;
    hf__buf_free(&scratch);
    if (failed) return hf__error_no_memory(reterr);
    if (memeql_sec(expected, claim->signature.ptr, claim->signature.len)) return 0;
    return deny(reterr, "The request signature we calculated does not match the signature you "
                        "provided. Check your AWS Secret Access Key and signing method.");
}

/* The claim of a request, and when it was signed. */
static int read_claim(const struct hf_sigv4_request *request, struct claim *ret,
                      int64_t *ret_unix_s, enum hf_sigv4_fault *ret_fault, struct hf_error *reterr)
{
    const struct hf_header *authorization = find_header(request, HF_LIT("authorization"));
    const struct hf_header *date = find_header(request, HF_LIT("x-amz-date"));
    *ret_fault = HF_SIGV4_MISSING;
    if (!authorization) return deny(reterr, "Request is missing Authentication Token");
    *ret_fault = HF_SIGV4_INCOMPLETE;
    if (!parse_claim(authorization->value, ret))
        return deny(reterr,
                    "The Authorization header is not a complete AWS4-HMAC-SHA256 signature");
    if (!date || !parse_amz_date(date->value, ret_unix_s))
        return deny(reterr, "The x-amz-date header is missing or not of the form 20261115T102030Z");
    *ret_fault = HF_SIGV4_INVALID;
    if (ret->date.len != 8 || memcmp(ret->date.ptr, date->value.ptr, 8) != 0)
        return deny(reterr, "Date in Credential scope does not match the x-amz-date header");
    return 0;
}

int hf__sigv4_verify(const struct hf_sigv4_request *request, const struct hf_sigv4_check *check,
                     struct hf_sigv4_verdict *ret, struct hf_error *reterr)
{
    struct claim claim;
    struct hf_slice secret;
    int64_t unix_s = 0;
    *ret = (struct hf_sigv4_verdict){0};
    int code = read_claim(request, &claim, &unix_s, &ret->fault, reterr);
    if (code != 0) return code;
    if (!hf__slice_eq(claim.service, check->service))
        return deny(reterr, "Credential should be scoped to correct service");
    if (unix_s < check->now_unix_s - MAX_SKEW_S) return deny(reterr, "Signature expired");
    if (unix_s > check->now_unix_s + MAX_SKEW_S) return deny(reterr, "Signature not yet current");
    if (!check->secret_of(check->user, claim.access_key_id, &secret)) {
        ret->fault = HF_SIGV4_UNKNOWN;
        return deny(reterr, "The security token included in the request is invalid.");
    }
    struct hf_sigv4_scope scope = {
        .region = claim.region, .service = check->service, .unix_s = unix_s};
    ret->access_key_id = claim.access_key_id;
    return verify_claim(request, &claim, &scope, secret, reterr);
}
