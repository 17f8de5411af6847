#include "service/http/tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

enum { CHAIN_MOST = 16, FILE_MOST = 1 << 20, NAME_MOST = 256 };

/* A certificate with its key. Handshakes may still use it, so it is kept until the end. */
struct pair {
    struct pair *older;
    gnutls_pcert_st chain[CHAIN_MOST];
    unsigned length;
    gnutls_privkey_t key;
};

struct hf_tls {
    char *certificate_file;
    char *key_file;
    char *client_ca; /* its text */
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priorities;
    pthread_mutex_t mutex;
    struct pair *current;
};

static int read_file(const char *path, gnutls_datum_t *ret, struct hf_error *reterr)
{
    FILE *file = fopen(path, "re");
    char *text = hf__malloc(FILE_MOST + 1);
    size_t len = file && text ? fread(text, 1, FILE_MOST + 1, file) : 0;
    const char *why = !file             ? strerror(errno)
                      : !text           ? "out of memory"
                      : ferror(file)    ? strerror(errno)
                      : len > FILE_MOST ? "it is too large"
                      : len == 0        ? "it is empty"
                                        : NULL;
    if (file) fclose(file);
    if (why) {
        hf__free(text);
        return hf__error_set(reterr, HF_ERR_INVALID, "cannot read %s: %s", path, why);
    }
    text[len] = '\0';
    *ret = (gnutls_datum_t){(unsigned char *)text, (unsigned)len};
    return 0;
}

static void pair_free(struct pair *pair)
{
    if (!pair) return;
    for (unsigned i = 0; i < pair->length; i++) gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key) gnutls_privkey_deinit(pair->key);
    hf__free(pair);
}

/* Signs and verifies: a certificate with the key of another would fail every handshake. */
static bool belong_together(struct pair *pair)
{
    gnutls_pubkey_t public = pair->chain[0].pubkey;
    gnutls_datum_t text = {(unsigned char *)(uintptr_t) "holdfast", 8}, signature = {0};
    gnutls_digest_algorithm_t hash = GNUTLS_DIG_SHA256;
    gnutls_pk_algorithm_t kind =
        (gnutls_pk_algorithm_t)gnutls_pubkey_get_pk_algorithm(public, NULL);
    if (kind == GNUTLS_PK_EDDSA_ED25519) hash = GNUTLS_DIG_SHA512;
    gnutls_sign_algorithm_t sign = gnutls_pk_to_sign(kind, hash);
    bool good = gnutls_privkey_sign_data2(pair->key, sign, 0, &text, &signature) == 0 &&
                gnutls_pubkey_verify_data2(public, sign, 0, &text, &signature) >= 0;
    gnutls_free(signature.data);
    return good;
}

static int load(const struct hf_tls *tls, struct pair **ret, struct hf_error *reterr)
{
    gnutls_datum_t certificate = {0}, key = {0};
    struct pair *pair = hf__calloc(1, sizeof *pair);
    if (!pair) return hf__error_no_memory(reterr);
    int code = read_file(tls->certificate_file, &certificate, reterr);
    if (code == 0) code = read_file(tls->key_file, &key, reterr);
    int wrong = 0;
    if (code == 0) {
        unsigned length = CHAIN_MOST;
        wrong = gnutls_pcert_list_import_x509_raw(pair->chain, &length, &certificate,
                                                  GNUTLS_X509_FMT_PEM, 0);
        if (wrong == 0) pair->length = length;
        if (wrong != 0)
            code = hf__error_set(reterr, HF_ERR_INVALID, "%s is not a PEM certificate: %s",
                                 tls->certificate_file, gnutls_strerror(wrong));
    }
    if (code == 0) {
        wrong = gnutls_privkey_init(&pair->key);
        if (wrong == 0)
            wrong = gnutls_privkey_import_x509_raw(pair->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
        if (wrong != 0)
            code = hf__error_set(reterr, HF_ERR_INVALID, "%s is not a PEM private key: %s",
                                 tls->key_file, gnutls_strerror(wrong));
    }
    if (code == 0 && !belong_together(pair))
        code = hf__error_set(reterr, HF_ERR_INVALID,
                             "the certificate in %s and the key in %s do not match",
                             tls->certificate_file, tls->key_file);
    hf__free(certificate.data);
    if (key.data) gnutls_memset(key.data, 0, key.size);
    hf__free(key.data);
    if (code == 0) *ret = pair;
    else pair_free(pair);
    return code;
}

static int retrieve(gnutls_session_t session, const gnutls_datum_t *names, int name_count,
                    const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                    gnutls_pcert_st **ret_chain, unsigned *ret_length, gnutls_privkey_t *ret_key)
{
    struct hf_tls *tls = gnutls_session_get_ptr(session);
    (void)names, (void)name_count, (void)algorithms, (void)algorithm_count;
    pthread_mutex_lock(&tls->mutex);
    struct pair *pair = tls->current;
    pthread_mutex_unlock(&tls->mutex);
    *ret_chain = pair->chain;
    *ret_length = pair->length;
    *ret_key = pair->key;
    return 0;
}

/* Sets up what all sessions share. */
static int prepare(struct hf_tls *tls, struct hf_error *reterr)
{
    static const char versions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE";
    if (gnutls_certificate_allocate_credentials(&tls->credentials) != 0 ||
        gnutls_priority_init(&tls->priorities, versions, NULL) != 0)
        return hf__error_no_memory(reterr);
    gnutls_certificate_set_retrieve_function2(tls->credentials, retrieve);
    if (!tls->client_ca) return 0;
    gnutls_datum_t text = {(unsigned char *)tls->client_ca, (unsigned)strlen(tls->client_ca)};
    int count = gnutls_certificate_set_x509_trust_mem(tls->credentials, &text, GNUTLS_X509_FMT_PEM);
    if (count > 0) return 0;
    return hf__error_set(reterr, HF_ERR_INVALID, "the client CA is not a PEM certificate%s%s",
                         count < 0 ? ": " : "", count < 0 ? gnutls_strerror(count) : "");
}

int hf__tls_start(const char *certificate, const char *key, const char *client_ca,
                  struct hf_tls **ret, struct hf_error *reterr)
{
    struct hf_tls *tls = hf__calloc(1, sizeof *tls);
    if (!tls) return hf__error_no_memory(reterr);
    pthread_mutex_init(&tls->mutex, NULL);
    tls->certificate_file = hf__strdup(certificate);
    tls->key_file = hf__strdup(key);
    gnutls_datum_t text = {0};
    int code = tls->certificate_file && tls->key_file ? 0 : hf__error_no_memory(reterr);
    if (code == 0 && client_ca) code = read_file(client_ca, &text, reterr);
    tls->client_ca = (char *)text.data;
    if (code == 0) code = load(tls, &tls->current, reterr);
    if (code == 0) code = prepare(tls, reterr);
    if (code != 0) {
        hf__tls_stop(tls);
        return code;
    }
    *ret = tls;
    return 0;
}

int hf__tls_reload(struct hf_tls *tls, struct hf_error *reterr)
{
    struct pair *pair;
    int code = load(tls, &pair, reterr);
    if (code != 0) return code;
    pthread_mutex_lock(&tls->mutex);
    pair->older = tls->current;
    tls->current = pair;
    pthread_mutex_unlock(&tls->mutex);
    return 0;
}

void hf__tls_stop(struct hf_tls *tls)
{
    if (!tls) return;
    while (tls->current) {
        struct pair *older = tls->current->older;
        pair_free(tls->current);
        tls->current = older;
    }
    if (tls->credentials) gnutls_certificate_free_credentials(tls->credentials);
    if (tls->priorities) gnutls_priority_deinit(tls->priorities);
    pthread_mutex_destroy(&tls->mutex);
    hf__free(tls->certificate_file);
    hf__free(tls->key_file);
    hf__free(tls->client_ca);
    hf__free(tls);
}

/* ---- sessions ---- */

void *hf__tls_open(struct hf_tls *tls, int fd)
{
    gnutls_session_t session;
    if (gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) != 0) return NULL;
    gnutls_session_set_ptr(session, tls);
    gnutls_transport_set_int(session, fd);
    gnutls_handshake_set_timeout(session, 0); /* the server has its own */
    if (gnutls_priority_set(session, tls->priorities) != 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials) != 0) {
        gnutls_deinit(session);
        return NULL;
    }
    if (tls->client_ca) gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
    return session;
}

void hf__tls_bye(void *session)
{
    gnutls_bye(session, GNUTLS_SHUT_WR);
}

void hf__tls_close(void *session)
{
    gnutls_deinit(session);
}

/*
 * gnutls returns without a result after a message of its own (a new key, a warning), although there
 * may be more to read, of which epoll does not tell again. So it is called until the socket itself
 * has nothing more, but at most ASKED_MOST times, which is more than an honest caller needs.
 */
enum { ASKED_MOST = 64 };

int hf__tls_shake(void *session)
{
    int result = GNUTLS_E_AGAIN;
    for (int i = 0; i < ASKED_MOST; i++) {
        result = gnutls_handshake(session);
        if (result == GNUTLS_E_SUCCESS) return 1;
        if (result == GNUTLS_E_AGAIN || gnutls_error_is_fatal(result)) break;
    }
    return result == GNUTLS_E_AGAIN ? 0 : -1;
}

static ssize_t with_errno(ssize_t result)
{
    if (result >= 0) return result;
    errno = result == GNUTLS_E_AGAIN ? EAGAIN : EIO;
    return -1;
}

/* Whether the socket has more, whatever gnutls has consumed. */
static bool has_more(gnutls_session_t session)
{
    struct pollfd ready = {.fd = gnutls_transport_get_int(session), .events = POLLIN};
    return poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN);
}

ssize_t hf__tls_receive(void *session, void *room, size_t size)
{
    ssize_t result = GNUTLS_E_AGAIN;
    for (int i = 0; i < ASKED_MOST; i++) {
        result = gnutls_record_recv(session, room, size);
        if (result >= 0 || gnutls_error_is_fatal((int)result)) break;
        if (result == GNUTLS_E_AGAIN && !has_more(session)) break;
        if (result != GNUTLS_E_AGAIN) result = GNUTLS_E_INTERNAL_ERROR; /* unless it succeeds yet */
    }
    return with_errno(result);
}

ssize_t hf__tls_send(void *session, const void *data, size_t size)
{
    ssize_t result = GNUTLS_E_AGAIN;
    for (int i = 0; i < ASKED_MOST; i++) {
        result = gnutls_record_send(session, data, size);
        if (result != GNUTLS_E_INTERRUPTED) break;
    }
    return with_errno(result);
}

int hf__tls_caller(void *session, struct hf_arena *arena, const char **ret, struct hf_error *reterr)
{
    unsigned count = 0, status = 0;
    *ret = NULL;
    const gnutls_datum_t *shown = session ? gnutls_certificate_get_peers(session, &count) : NULL;
    if (!shown || count == 0) return 0;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) != 0 || status != 0)
        return hf__error_set(reterr, HF_ERR_DENIED,
                             status & GNUTLS_CERT_PURPOSE_MISMATCH
                                 ? "the certificate is not meant for clients"
                                 : "the client certificate is not trusted");
    gnutls_x509_crt_t certificate;
    char name[NAME_MOST + 1];
    size_t size = NAME_MOST;
    if (gnutls_x509_crt_init(&certificate) != 0) return hf__error_no_memory(reterr);
    bool good = gnutls_x509_crt_import(certificate, &shown[0], GNUTLS_X509_FMT_DER) == 0 &&
                gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name,
                                              &size) == 0;
    gnutls_x509_crt_deinit(certificate);
    struct hf_slice text = hf__slice(name, good ? size : 0);
    if (!good || text.len == 0 || !hf__utf8_valid(text) || memchr(name, '\0', size))
        return hf__error_set(reterr, HF_ERR_DENIED, "the client certificate has no common name");
    *ret = hf__arena_str(arena, text);
    return *ret ? 0 : hf__error_no_memory(reterr);
}
