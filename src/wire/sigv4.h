/*
 * AWS Signature Version 4: signing for our requests, verification for those
 * sent to the DynamoDB endpoint. The stages are separate so that tests can
 * compare each with vectors made by botocore.
 */
#ifndef HF_WIRE_SIGV4_H
#define HF_WIRE_SIGV4_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

enum { HF_SHA256_SIZE = 32, HF_AMZ_DATE_SIZE = 17 };

struct hf_header {
    struct hf_slice name; /* lower case */
    struct hf_slice value;
};

/* What is signed. */
struct hf_sigv4_request {
    struct hf_slice method;
    struct hf_slice path;  /* as sent, "/" at least */
    struct hf_slice query; /* as sent, without "?" */
    const struct hf_header
        *headers; /* all to be signed, sorted by name; host and x-amz-date among them */
    size_t header_count;
    struct hf_slice body;
};

/* Where and when a signature counts. */
struct hf_sigv4_scope {
    struct hf_slice region;
    struct hf_slice service;
    int64_t unix_s;
};

/* A derived key, good for one day: deriving takes four HMACs, so keep it. Zeroed is empty. */
struct hf_sigv4_key {
    char scope[160]; /* date/region/service, of which it was made */
    unsigned char secret_hash[HF_SHA256_SIZE];
    unsigned char key[HF_SHA256_SIZE];
};

/* "20261115T102030Z" */
void hf__amz_date(int64_t unix_s, char ret[HF_AMZ_DATE_SIZE]);

void hf__sigv4_canonical_request(const struct hf_sigv4_request *request, struct hf_buf *ret);
void hf__sigv4_string_to_sign(const struct hf_sigv4_scope *scope, struct hf_slice canonical,
                              struct hf_buf *ret);
void hf__sigv4_derive_key(struct hf_slice secret, const struct hf_sigv4_scope *scope,
                          unsigned char ret[HF_SHA256_SIZE]);
/* The signature in hex. */
void hf__sigv4_signature(const unsigned char key[HF_SHA256_SIZE], struct hf_slice string_to_sign,
                         char ret[2 * HF_SHA256_SIZE + 1]);

/* All stages: appends the Authorization header's value. `cache` is brought up to date. */
void hf__sigv4_authorization(const struct hf_sigv4_request *request,
                             const struct hf_sigv4_scope *scope, struct hf_slice access_key_id,
                             struct hf_slice secret, struct hf_sigv4_key *cache,
                             struct hf_buf *ret);

/* The secret of an access key id; false if there is none. */
typedef bool (*hf_sigv4_secret_fn)(void *user, struct hf_slice access_key_id,
                                   struct hf_slice *ret_secret);

/* What a received request is checked against. */
struct hf_sigv4_check {
    struct hf_slice service;
    int64_t now_unix_s;
    hf_sigv4_secret_fn secret_of;
    void *user;
};

/* Why a request is refused; hf__sigv4_exceptions has DynamoDB's names for it. */
enum hf_sigv4_fault {
    HF_SIGV4_MISSING,    /* it is not signed */
    HF_SIGV4_INCOMPLETE, /* its signature lacks a part */
    HF_SIGV4_UNKNOWN,    /* there is no such key */
    HF_SIGV4_INVALID,    /* the signature is not this request's, or not of now */
};
enum { HF_SIGV4_FAULTS = HF_SIGV4_INVALID + 1 };
extern const char *const hf__sigv4_exceptions[HF_SIGV4_FAULTS];

struct hf_sigv4_verdict {
    struct hf_slice access_key_id; /* that signed it; within the header */
    enum hf_sigv4_fault fault;     /* of a request that was denied */
};

/*
 * Checks a received request. Its `headers` are all that came, names in lower
 * case, in any order; the signed ones are picked here. The signature must cover
 * host and every x-amz- header, be for the service, and be no older or newer than
 * 15 minutes; no header that counts may come twice. HF_ERR_DENIED with a reason otherwise.
 */
int hf__sigv4_verify(const struct hf_sigv4_request *request, const struct hf_sigv4_check *check,
                     struct hf_sigv4_verdict *ret, struct hf_error *reterr);

#endif
