/*
 * A scripted HTTP server on loopback: stands in for AWS where no real server
 * can run, and misbehaves on demand. With TLS it has a certificate for
 * "localhost" that it signed itself.
 */
#ifndef HF_TEST_STUB_H
#define HF_TEST_STUB_H

#include "harness/test.h"

enum hf_stub_action {
    HF_STUB_ANSWER,
    HF_STUB_ANSWER_AND_CLOSE,
    HF_STUB_CUT, /* close the connection without an answer */
};

struct hf_stub_request {
    const char *method;
    const char *target;  /* path and query, or a whole URL when asked as a proxy */
    const char *headers; /* lines "name: value\n", names in lower case */
    struct hf_slice body;
    int number;     /* of this request, from 1 */
    int connection; /* from 1 */
};

struct hf_stub_answer {
    enum hf_stub_action action;
    int delay_ms;
    int status;         /* 200 unless set */
    char headers[1024]; /* lines "Name: value\r\n" */
    char body[8192];
};

/* Called for one request at a time, on a thread of the server. */
typedef void (*hf_stub_fn)(void *user, const struct hf_stub_request *request,
                           struct hf_stub_answer *answer);

struct hf_stub;

struct hf_stub *hf_stub_start(hf_stub_fn fn, void *user, bool tls);
void hf_stub_stop(struct hf_stub *stub);

/* "http://127.0.0.1:PORT", or "https://localhost:PORT" with TLS. */
const char *hf_stub_url(const struct hf_stub *stub);
int hf_stub_requests(struct hf_stub *stub);

/* The file with the certificate that clients must trust. */
const char *hf_stub_certificate(const struct hf_stub *stub);

/* The value of a header, "" if it is not there; valid until the next call. */
const char *hf_stub_header(const struct hf_stub_request *request, const char *name);

#endif
