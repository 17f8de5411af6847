/* Public keys, and verifying signatures with them by gnutls. */
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>

#include "base/alloc.h"
#include "base/json_reader.h"
#include "service/http/jwt.h"

enum { KEYS_MOST = 64, JWKS_MOST = 256 * 1024, RSA_LEAST_BITS = 2048, P256_BYTES = 32 };

struct key {
    gnutls_pubkey_t public;
    enum hf_jwt_algorithm algorithm;
    char *id; /* NULL: none */
};

struct hf_jwks {
    int references; /* atomic */
    bool starved;   /* a key was dropped for want of memory */
    size_t count;
    struct key keys[KEYS_MOST];
};

static gnutls_datum_t datum(struct hf_slice slice)
{
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)slice.ptr, (unsigned)slice.len};
}

/* ---- reading ---- */

/* The fields of a key; in the arena. */
struct words {
    struct hf_slice kty, crv, kid, use, alg, n, e, x, y;
};

static bool import_rsa(struct hf_arena *arena, const struct words *words, gnutls_pubkey_t key)
{
    struct hf_slice n, e;
    unsigned bits = 0;
    if (!hf__base64url_decode(arena, words->n, &n) || !hf__base64url_decode(arena, words->e, &e))
        return false;
    gnutls_datum_t modulus = datum(n), exponent = datum(e);
    return n.len && e.len && gnutls_pubkey_import_rsa_raw(key, &modulus, &exponent) == 0 &&
           gnutls_pubkey_get_pk_algorithm(key, &bits) == GNUTLS_PK_RSA && bits >= RSA_LEAST_BITS;
}

static bool import_curve(struct hf_arena *arena, const struct words *words,
                         gnutls_ecc_curve_t curve, gnutls_pubkey_t key)
{
    struct hf_slice x, y = {0};
    bool has_y = curve == GNUTLS_ECC_CURVE_SECP256R1;
    if (!hf__base64url_decode(arena, words->x, &x) || x.len != P256_BYTES) return false;
    if (has_y && (!hf__base64url_decode(arena, words->y, &y) || y.len != P256_BYTES)) return false;
    gnutls_datum_t first = datum(x), second = datum(y);
    return gnutls_pubkey_import_ecc_raw(key, curve, &first, has_y ? &second : NULL) == 0;
}

/* False: it is of a kind that is not supported. */
static bool import(struct hf_arena *arena, const struct words *words, struct key *ret,
                   bool *ret_starved)
{
    *ret = (struct key){0};
    if (words->use.len && !hf__slice_is(words->use, "sig")) return false;
    if (gnutls_pubkey_init(&ret->public) != 0) return false;
    bool good = false;
    if (hf__slice_is(words->kty, "RSA")) {
        ret->algorithm = HF_JWT_RS256;
        good = (!words->alg.len || hf__slice_is(words->alg, "RS256")) &&
               import_rsa(arena, words, ret->public);
    } else if (hf__slice_is(words->kty, "EC") && hf__slice_is(words->crv, "P-256")) {
        ret->algorithm = HF_JWT_ES256;
        good = import_curve(arena, words, GNUTLS_ECC_CURVE_SECP256R1, ret->public);
    } else if (hf__slice_is(words->kty, "OKP") && hf__slice_is(words->crv, "Ed25519")) {
        ret->algorithm = HF_JWT_EDDSA;
        good = import_curve(arena, words, GNUTLS_ECC_CURVE_ED25519, ret->public);
    }
    if (good && words->kid.len) {
        ret->id = hf__malloc(words->kid.len + 1);
        good = ret->id;
        *ret_starved |= !good;
        if (good) {
            memcpy(ret->id, words->kid.ptr, words->kid.len);
            ret->id[words->kid.len] = '\0';
        }
    }
    if (!good) gnutls_pubkey_deinit(ret->public);
    return good;
}

static void take_key(struct hf_json_reader *json, struct hf_arena *arena, struct hf_jwks *keys)
{
    struct words words = {0};
    const struct {
        const char *name;
        struct hf_slice *at;
    } fields[] = {{"kty", &words.kty}, {"crv", &words.crv}, {"kid", &words.kid},
                  {"use", &words.use}, {"alg", &words.alg}, {"n", &words.n},
                  {"e", &words.e},     {"x", &words.x},     {"y", &words.y}};
    struct hf_slice name;
    hf__json_object(json);
    while (hf__json_key(json, &name)) {
        struct hf_slice *at = NULL;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            if (hf__slice_is(name, fields[i].name)) at = fields[i].at;
        }
        if (at && hf__json_peek(json) == HF_JSON_STRING) hf__json_string(json, at);
        else hf__json_skip(json);
    }
    if (json->failed || arena->failed || keys->count == KEYS_MOST) return;
    if (import(arena, &words, &keys->keys[keys->count], &keys->starved)) keys->count++;
}

int hf__jwks_parse(struct hf_slice text, struct hf_jwks **ret, struct hf_error *reterr)
{
    struct hf_jwks *keys = hf__calloc(1, sizeof *keys);
    struct hf_arena arena = {0};
    struct hf_json_reader json;
    struct hf_slice name;
    if (!keys) return hf__error_no_memory(reterr);
    keys->references = 1;
    hf__json_reader_init(&json, text, JWKS_MOST, &arena);
    hf__json_object(&json);
    while (hf__json_key(&json, &name)) {
        if (!hf__slice_is(name, "keys")) {
            hf__json_skip(&json);
            continue;
        }
        hf__json_array(&json);
        while (hf__json_element(&json)) take_key(&json, &arena, keys);
    }
    int code = hf__json_finish(&json);
    if (arena.failed || keys->starved) code = hf__error_no_memory(reterr);
    else if (code != 0)
        code = hf__error_set(reterr, HF_ERR_INVALID, "invalid key set: %s", json.error.message);
    hf__arena_free(&arena);
    if (code == 0) *ret = keys;
    else hf__jwks_unref(keys);
    return code;
}

struct hf_jwks *hf__jwks_ref(struct hf_jwks *keys)
{
    if (keys) __atomic_add_fetch(&keys->references, 1, __ATOMIC_RELAXED);
    return keys;
}

void hf__jwks_unref(struct hf_jwks *keys)
{
    if (!keys || __atomic_sub_fetch(&keys->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (size_t i = 0; i < keys->count; i++) {
        gnutls_pubkey_deinit(keys->keys[i].public);
        hf__free(keys->keys[i].id);
    }
    hf__free(keys);
}

size_t hf__jwks_count(const struct hf_jwks *keys)
{
    return keys ? keys->count : 0;
}

/* ---- verifying ---- */

static bool verifies(const struct key *key, const struct hf_jwt *jwt)
{
    static const gnutls_sign_algorithm_t signs[] = {
        [HF_JWT_RS256] = GNUTLS_SIGN_RSA_SHA256,
        [HF_JWT_ES256] = GNUTLS_SIGN_ECDSA_SHA256,
        [HF_JWT_EDDSA] = GNUTLS_SIGN_EDDSA_ED25519,
    };
    gnutls_datum_t text = datum(jwt->signed_part), signature = datum(jwt->signature);
    gnutls_datum_t pair = {0};
    if (jwt->algorithm == HF_JWT_ES256) { /* bare r and s, which gnutls wants encoded */
        if (jwt->signature.len != P256_BYTES + P256_BYTES) return false;
        gnutls_datum_t r = datum(hf__slice(jwt->signature.ptr, P256_BYTES));
        gnutls_datum_t s = datum(hf__slice_skip(jwt->signature, P256_BYTES));
        if (gnutls_encode_rs_value(&pair, &r, &s) != 0) return false;
        signature = pair;
    }
    int code = gnutls_pubkey_verify_data2(key->public, signs[jwt->algorithm], 0, &text, &signature);
    gnutls_free(pair.data);
    return code >= 0;
}

int hf__jwks_verify(const struct hf_jwks *keys, const struct hf_jwt *jwt, struct hf_error *reterr)
{
    enum { TRIES = 8 }; /* each is costly, and a proper token names its key */
    int tries = 0;
    for (size_t i = 0; i < hf__jwks_count(keys) && tries < TRIES; i++) {
        const struct key *key = &keys->keys[i];
        if (key->algorithm != jwt->algorithm) continue;
        if (jwt->key_id.len && (!key->id || !hf__slice_is(jwt->key_id, key->id))) continue;
        tries++;
        if (verifies(key, jwt)) return 0;
    }
    if (tries == 0)
        return hf__error_set(reterr, HF_ERR_ABSENT, "the token is signed by an unknown key");
    return hf__error_set(reterr, HF_ERR_DENIED, "the token's signature is invalid");
}
