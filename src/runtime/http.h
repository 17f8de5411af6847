/*
 * HTTP client on an event loop: many requests in flight over a pool of
 * connections that are kept alive.
 *
 * A request is never sent twice behind the caller's back. libcurl would do so when a kept
 * connection turns out to be closed; here that fails, as HF_HTTP_LOST, and the caller decides
 * whether to send again.
 */
#ifndef HF_RUNTIME_HTTP_H
#define HF_RUNTIME_HTTP_H

#include "base/buf.h"
#include "base/error.h"
#include "base/list.h"
#include "base/slice.h"
#include "runtime/loop.h"

enum hf_http_outcome {
    HF_HTTP_ANSWERED, /* a whole answer came; see `status` */
    HF_HTTP_NOT_SENT, /* nothing of it left this machine */
    HF_HTTP_LOST,     /* it was sent at least in part, and no whole answer came */
};

enum { HF_HTTP_MAX_HEADERS = 12 };

struct hf_http;
struct hf_http_request;

typedef void (*hf_http_fn)(struct hf_http_request *request);

/* Zero it, set what is needed, keep it until `done`. */
struct hf_http_request {
    const char *method; /* "POST", … */
    const char *url;
    const char *headers[HF_HTTP_MAX_HEADERS]; /* "Name: value" */
    size_t header_count;
    struct hf_slice body;
    int connect_timeout_ms;
    int timeout_ms;        /* 0: none */
    size_t limit;          /* of the answer's body */
    const char *ca_file;   /* to trust instead of the system's; NULL: the system's */
    const char *cert_file; /* of the client; NULL: none */
    const char *key_file;  /* NULL: in the same file */
    int silence_s;         /* lost if nothing arrives for this long; 0: only by timeout_ms */
    /* An answer that is taken as it comes, and not kept: of status 200 only. NULL: it is kept. */
    void (*on_body)(struct hf_http_request *request, struct hf_slice bytes);
    const bool *stop; /* hf__http_fetch only: atomic, gives up when it becomes true; NULL: never */
    bool no_proxy;    /* for addresses that are this machine's own */
    void (*on_header)(struct hf_http_request *request, struct hf_slice name, struct hf_slice value);
    hf_http_fn done; /* on the loop's thread */
    void *user;

    enum hf_http_outcome outcome;
    int status;
    struct hf_buf answer;  /* the caller frees it with hf__http_request_free */
    struct hf_error error; /* unless ANSWERED */
    int64_t sent_boot_us;
    int64_t received_boot_us;

    /* Private. */
    struct hf_list node;
    void *easy;
    void *header_list;
    bool has_started; /* some of it may have left */
};

/* On the loop's thread, or before it was started. */
int hf__http_open(struct hf_loop *loop, int connections, struct hf_http **ret,
                  struct hf_error *reterr);

/* On the loop's thread, or when the loop has stopped. Outstanding requests are dropped without
 * `done`. */
void hf__http_close(struct hf_http *http);

/* On the loop's thread. `done` may not be called from within. */
void hf__http_start(struct hf_http *http, struct hf_http_request *request);

/* On the loop's thread. The request is dropped without `done`; its outcome says what is known. */
void hf__http_cancel(struct hf_http *http, struct hf_http_request *request);

/* Without a loop: performs the request on this thread and returns when it is over. */
void hf__http_fetch(struct hf_http_request *request, const struct hf_clock *clock);

void hf__http_request_free(struct hf_http_request *request);

#endif
