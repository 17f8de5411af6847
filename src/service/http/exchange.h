/*
 * One HTTP request and its answer, as the routes see it.
 *
 * A route is called once, when the whole request has been received, on the service's loop, which
 * must not wait. It answers, or starts work that answers later, from any thread; once, by
 * hf__exchange_done. The memory of an exchange is in its arena, which two threads must not use at
 * the same time.
 *
 * Invariants
 * X1  hf__exchange_done is called exactly once for every exchange that a route was given.
 * X2  `gone` is called at most once, before or while the exchange is answered, and only if it was
 *     set before the route returned.
 * X3  `finished` is called exactly once, after the answer has been sent, or could not be.
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

/* The caller. */
struct hf_caller {
    const char *owner; /* in the arena; never empty */
    bool admin;
    const char *certificate;  /* its name, if it authenticated with one; in the arena */
    const char *access_key;   /* likewise */
    uint64_t claims;          /* bits of the claims that `rules` tests */
    struct hf_rules *rules;   /* the file's, as they were when the call began */
    struct hf_rules *granted; /* … and those in its token */
    int64_t until_s;          /* wall clock: when its token expires; 0: never */
};

enum { HF_PATH_PARTS = 6, HF_LOG_ERROR_MAX = 200 };

struct hf_exchange {
    struct hf_service *service;
    struct hf_arena arena;
    enum hf_method method;
    struct hf_slice path;                 /* as sent, without the query */
    struct hf_slice parts[HF_PATH_PARTS]; /* decoded */
    size_t part_count;                    /* more than HF_PATH_PARTS: no route has it */
    struct hf_buf body;
    size_t body_most;
    struct hf_caller caller;
    const struct hf_route *route; /* NULL: none */

    /* The answer. */
    int status;
    struct hf_buf answer;
    const char *content_type;      /* NULL: application/json */
    const char *allow;             /* of 405 */
    int retry_after_s;             /* 0: not sent */
    bool challenge;                /* 401: send WWW-Authenticate */
    bool is_static;                /* the browser may cache it, and must revalidate it */
    struct hf_interval store_time; /* sent to the caller, if it is known */
    struct hf_slice fixed;         /* the answer, if it is not in `answer`; constant */
    bool tells_owner;              /* send the caller's id */
    bool is_owed;                  /* a change was made: the answer needs no room */
    bool has_checksum;             /* it is known already: … */
    uint32_t checksum;             /* … of `answer` */
    struct hf_stream *stream;      /* the answer has no end: event.c */

    /* For the log. */
    const char *error; /* a short name; NULL: none */
    char detail[HF_LOG_ERROR_MAX];
    const char *lock;       /* in the arena */
    const char *operation;  /* of the DynamoDB API; constant */
    const char *request_id; /* likewise, as the caller is told; in the arena. NULL: another API */
    const char *instance;   /* of the caller, if it gives one; in the arena */
    const char *secret;     /* a grant or a session, logged as a hash; in the arena. NULL: none */
    int64_t token;

    /* For routes that answer later. */
    void (*gone)(struct hf_exchange *exchange); /* the caller has hung up */
    void (*finished)(struct hf_exchange *exchange, bool received);
    void *user;
    void *read;  /* its body, if it was read on another thread; in the arena */
    void *shown; /* for an answer that is written on another thread */
    bool is_repeated;
    bool has_adopted; /* a session, for this call: it is known here, or has ended */

    void (*again)(struct hf_exchange *exchange); /* hf__exchange_again */
    void (*aside)(struct hf_exchange *exchange); /* hf__exchange_aside */

    /* The server's. */
    struct hf_connection *connection; /* outlives it */
    const struct hf_head *head;       /* in the arena; NULL: refused before it was read */
    const char *remote;               /* the connection's */
    struct hf_task resume;
    struct hf_task scribe;
    struct hf_list spent; /* the server's list of that name */
    int state;            /* atomic */
    bool for_operators;   /* it was received on the operators' port */
    bool is_head_only;
    bool begun;
    bool was_told_gone;
    int64_t kept;    /* bytes of its body that were counted */
    int64_t sending; /* bytes of its answer that were counted */
    int64_t began_us;
};

/* ---- http/connection.c and http/exchange.c ---- */

/* The answer is complete, and the exchange belongs to the server again. */
void hf__exchange_done(struct hf_exchange *exchange);
/* Instead of an answer: the loop calls `go` like a route. */
void hf__exchange_again(struct hf_exchange *exchange, void (*go)(struct hf_exchange *exchange));
/*
 * Likewise, but on a thread beside the loop, for work on large bodies or answers. `go` answers, or
 * returns to the loop by hf__exchange_again.
 */
void hf__exchange_aside(struct hf_exchange *exchange, void (*go)(struct hf_exchange *exchange));
/*
 * Call on the loop before an answer is written aside: reserves room for it among all answers being
 * sent, replacing an earlier reservation. False: there is no room; hf__answer_overloaded says so.
 * The second takes the size of the record to be shown.
 */
bool hf__exchange_reserve(struct hf_exchange *exchange, int64_t size);
bool hf__exchange_reserve_long(struct hf_exchange *exchange, size_t size);
/* Whether there is any now. Before something that must be answered. */
bool hf__exchange_has_room(const struct hf_exchange *exchange);
void hf__answer_overloaded(struct hf_exchange *exchange);
/*
 * Call on the loop before a body is read aside: what is made of it takes several times its room.
 * False: there is none now.
 */
bool hf__exchange_reserve_reading(struct hf_exchange *exchange);
/* A header or a query value, in the arena, decoded; NULL if it was not sent. */
const char *hf__exchange_header(struct hf_exchange *exchange, const char *name);
const char *hf__exchange_query(struct hf_exchange *exchange, const char *name);

/* ---- answer.c ---- */

/* Begin and end a JSON object; write its members in between. */
void hf__answer_begin(struct hf_exchange *exchange, int status, struct hf_json_writer *ret);
void hf__answer_end(struct hf_exchange *exchange, struct hf_json_writer *json);

/* {"error": name, "message": …; add members, then call hf__answer_end. */
void hf__answer_error_begin(struct hf_exchange *exchange, int status, const char *name,
                            const char *message, struct hf_json_writer *ret);
/* The same without further members. */
void hf__answer_error(struct hf_exchange *exchange, int status, const char *name,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The status, the name and the message for one of our codes. */
void hf__answer_failure(struct hf_exchange *exchange, int code, const struct hf_error *error);

void hf__put_text(struct hf_json_writer *json, const char *name, const char *text);
void hf__put_number(struct hf_json_writer *json, const char *name, int64_t number);
void hf__put_bool(struct hf_json_writer *json, const char *name, bool value);

/* Decodes %XX (and + as a space, if told); false if it is invalid or is not UTF-8. */
bool hf__percent_decode(struct hf_arena *arena, struct hf_slice text, bool plus,
                        struct hf_slice *ret);

#endif
