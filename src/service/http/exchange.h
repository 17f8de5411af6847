/*
 * One HTTP request and its answer, as the routes see it.
 *
 * A route is called once, when the whole request is there, on the service's loop, which must not
 * wait. It answers, or starts something that answers later, from any thread; once, by
 * hf__exchange_done. What belongs to an exchange lives in its arena, which is not to be used by two
 * threads at once.
 *
 * Invariants
 * X1  hf__exchange_done is called exactly once for every exchange that a route was given.
 * X2  `gone` is called at most once, before or while the exchange is answered, and only if it was
 *     set before the route returned.
 * X3  `finished` is called exactly once, after the answer has left, or could not.
 */
#ifndef HF_SERVICE_HTTP_EXCHANGE_H
#define HF_SERVICE_HTTP_EXCHANGE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "base/list.h"
#include "base/store_time.h"
#include "runtime/loop.h"
#include "service/http/head.h"

struct hf_service;
struct hf_exchange;
struct hf_route;
struct hf_connection;

enum hf_method {
    HF_METHOD_GET,
    HF_METHOD_POST,
    HF_METHOD_DELETE,
    HF_METHOD_OPTIONS,
    HF_METHOD_OTHER
};

struct hf_rules;

/* Who asks. */
struct hf_caller {
    const char *owner; /* in the arena; never empty */
    bool admin;
    const char *certificate;  /* its name, if that is how it came in; in the arena */
    const char *access_key;   /* likewise */
    uint64_t claims;          /* of those that `rules` asks for */
    struct hf_rules *rules;   /* the file's, as they were when it came in */
    struct hf_rules *granted; /* … and its token's own */
    int64_t until_s;          /* wall clock: when its token ends; 0: never */
};

enum { HF_PATH_PARTS = 6, HF_LOG_ERROR_MAX = 200 };

struct hf_exchange {
    struct hf_service *service;
    struct hf_arena arena;
    enum hf_method method;
    struct hf_slice path;                 /* as it was sent, without the query */
    struct hf_slice parts[HF_PATH_PARTS]; /* decoded */
    size_t part_count;                    /* more than HF_PATH_PARTS: it is nobody's */
    struct hf_buf body;
    struct hf_caller caller;
    const struct hf_route *route; /* NULL: none */

    /* The answer. */
    int status;
    struct hf_buf answer;
    const char *content_type;      /* NULL: application/json */
    const char *allow;             /* of 405 */
    int retry_after_s;             /* 0: not said */
    bool challenge;                /* 401: how to do better */
    bool is_static;                /* may be kept by the browser for a while */
    struct hf_interval store_time; /* that is told, if it is known */
    struct hf_slice fixed;         /* the answer, if it is not in `answer` and lasts for ever */
    bool tells_owner;              /* who the caller is, as an id */
    struct hf_stream *stream;      /* the answer does not end: event.c */

    /* For the log. */
    const char *error; /* a short name; NULL: none */
    char detail[HF_LOG_ERROR_MAX];
    const char *lock;      /* in the arena */
    const char *operation; /* of the DynamoDB API; lasts for ever */
    const char *instance;  /* of the caller, if it says so; in the arena */
    const char
        *secret; /* a grant or a session, of which the log has a hash; in the arena. NULL: none */
    int64_t token;

    /* For routes that answer later. */
    void (*gone)(struct hf_exchange *exchange); /* the caller has hung up */
    void (*finished)(struct hf_exchange *exchange, bool received);
    void *user;
    void *read;  /* its body, if that was read aside; in the arena */
    void *shown; /* by an answer that is written aside */
    bool is_repeated;

    void (*again)(struct hf_exchange *exchange); /* hf__exchange_again */
    void (*aside)(struct hf_exchange *exchange); /* hf__exchange_aside */

    /* The server's. */
    struct hf_connection *connection; /* outlives it */
    const struct hf_head *head;       /* in the arena; NULL: it was refused before it was read */
    const char *remote;               /* the connection's */
    struct hf_task resume;
    struct hf_task scribe;
    struct hf_list spent; /* the server's list of that name */
    int state;            /* atomic */
    bool for_operators;   /* it came in at their port */
    bool is_head_only;
    bool begun;
    bool was_told_gone;
    int64_t kept;    /* of its body, counted */
    int64_t sending; /* of its answer, counted */
    int64_t began_us;
};

/* ---- http/connection.c and http/exchange.c ---- */

/* The answer is complete, and the exchange the server's again. */
void hf__exchange_done(struct hf_exchange *exchange);
/* Instead of an answer: has the loop call this, as if it were a route. */
void hf__exchange_again(struct hf_exchange *exchange, void (*go)(struct hf_exchange *exchange));
/*
 * Likewise, but on a thread beside the loop: for what takes long because it is long. It answers, or
 * returns to the loop by hf__exchange_again.
 */
void hf__exchange_aside(struct hf_exchange *exchange, void (*go)(struct hf_exchange *exchange));
/*
 * Before an answer is written aside, on the loop: room for it among all that are being sent; in place
 * of what was reserved before. False: there is none; hf__answer_overloaded says so. The second takes
 * the size of what is to be shown.
 */
bool hf__exchange_reserve(struct hf_exchange *exchange, int64_t size);
bool hf__exchange_reserve_long(struct hf_exchange *exchange, size_t size);
void hf__answer_overloaded(struct hf_exchange *exchange);
/* A header or a value of the query, in the arena, decoded; NULL if it was not sent. */
const char *hf__exchange_header(struct hf_exchange *exchange, const char *name);
const char *hf__exchange_query(struct hf_exchange *exchange, const char *name);

/* ---- answer.c ---- */

/* A JSON object is begun and ended; between the two, write members. */
void hf__answer_begin(struct hf_exchange *exchange, int status, struct hf_json_writer *ret);
void hf__answer_end(struct hf_exchange *exchange, struct hf_json_writer *json);

/* {"error": name, "message": …, to which more is added, until hf__answer_end. */
void hf__answer_error_begin(struct hf_exchange *exchange, int status, const char *name,
                            const char *message, struct hf_json_writer *ret);
/* The same without more. */
void hf__answer_error(struct hf_exchange *exchange, int status, const char *name,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The status that stands for one of our codes, its name and its message. */
void hf__answer_failure(struct hf_exchange *exchange, int code, const struct hf_error *error);

void hf__put_text(struct hf_json_writer *json, const char *name, const char *text);
void hf__put_number(struct hf_json_writer *json, const char *name, int64_t number);
void hf__put_bool(struct hf_json_writer *json, const char *name, bool value);

/* Decodes %XX (and + as a space, if told); false if it is invalid or is not UTF-8. */
bool hf__percent_decode(struct hf_arena *arena, struct hf_slice text, bool plus,
                        struct hf_slice *ret);

#endif
