/*
 * holdfast: distributed locks on DynamoDB, or on one file.
 *
 * This header is the whole public interface; what is not here is not API.
 * It is C99 and C++ clean.
 *
 * Today it holds what every part of the library shares: error codes, the error
 * record, and the log callback. The lock interface builds on it.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
#define HF_VERSION_STRING "0.1.0"

/*
 * Every error, once: X(code, number, name, meaning).
 *
 * Functions return 0 or one of these. Numbers are negative and never change
 * their meaning. HF_ERR_OUTCOME_UNKNOWN is special: the write may or may not
 * have happened. Every other error on a write means that it did not happen.
 */
#define HF_ERRORS(X)                                                                               \
    X(HF_ERR_INVALID, -1, "invalid", "an argument does not make sense")                            \
    X(HF_ERR_NO_MEMORY, -2, "no-memory", "out of memory")                                          \
    X(HF_ERR_CONDITION, -3, "condition", "the condition of a write did not hold")                  \
    X(HF_ERR_VALIDATION, -4, "validation", "the store refused the request as malformed")           \
    X(HF_ERR_NO_TABLE, -5, "no-table", "the table does not exist")                                 \
    X(HF_ERR_TABLE_IN_USE, -6, "table-in-use", "the table exists already or is being changed")     \
    X(HF_ERR_THROTTLED, -7, "throttled", "the store asks for fewer requests")                      \
    X(HF_ERR_DENIED, -8, "denied", "the credentials do not permit this")                           \
    X(HF_ERR_CREDENTIALS, -9, "credentials", "no usable credentials were found")                   \
    X(HF_ERR_UNREACHABLE, -10, "unreachable", "the store could not be reached")                    \
    X(HF_ERR_OUTCOME_UNKNOWN, -11, "outcome-unknown", "a write was sent and its fate is unknown")  \
    X(HF_ERR_CANCELLED, -12, "cancelled", "cancelled before it was done")                          \
    X(HF_ERR_BAD_ANSWER, -13, "bad-answer", "the store's answer makes no sense")                   \
    X(HF_ERR_STORE, -14, "store", "the store failed on its own side")                              \
    X(HF_ERR_DAMAGED, -15, "damaged", "the file is damaged or belongs to another program")         \
    X(HF_ERR_FULL, -16, "full", "no space is left for the file")                                   \
    X(HF_ERR_READ_ONLY, -17, "read-only", "the file or its directory cannot be written")           \
    X(HF_ERR_BUSY, -18, "busy", "another process kept the file locked for too long")               \
    X(HF_ERR_IO, -19, "io", "reading or writing failed")                                           \
    X(HF_ERR_SYNTAX, -20, "syntax", "a text could not be parsed")                                  \
    X(HF_ERR_LIMIT, -21, "limit", "a size or count limit was exceeded")                            \
    X(HF_ERR_HELD, -22, "held", "somebody else holds the lock")                                    \
    X(HF_ERR_TIMED_OUT, -23, "timed-out", "the lock was not free in time")                         \
    X(HF_ERR_LOST, -24, "lost", "the lock is no longer held")                                      \
    X(HF_ERR_CLOSED, -25, "closed", "the client is closed or being closed")                        \
    X(HF_ERR_FORKED, -26, "forked", "the client belongs to the parent process")                    \
    X(HF_ERR_IN_CALLBACK, -27, "in-callback", "a call that waits was made inside a callback")      \
    X(HF_ERR_UNSUPPORTED, -28, "unsupported", "the table format cannot do this")                   \
    X(HF_ERR_ABSENT, -29, "absent", "there is no such lock")                                       \
    X(HF_ERR_OTHER_LIMIT, -30, "other-limit", "the lock is shared under another limit")

enum hf_error_code {
    HF_OK = 0,
#define HF_ERROR_ENUM(code, number, name, meaning) code = number,
    HF_ERRORS(HF_ERROR_ENUM)
#undef HF_ERROR_ENUM
};

/* The short name of a code ("throttled"), for logs and scripts; "ok" for 0, "unknown" otherwise. */
const char *hf_error_name(int code);

/* One sentence on what a code means. */
const char *hf_error_meaning(int code);

/*
 * An error with a message a person can act on: what was being done, to what,
 * and what the store answered. Owned by the caller; functions that take one
 * accept NULL and write it only when they fail.
 */
struct hf_error {
    int code;
    char message[508];
};

/*
 * Why a lock ended, once: X(constant, number, name, meaning). Every lock ends
 * with exactly one of them.
 */
#define HF_REASONS(X)                                                                              \
    X(HF_REASON_NONE, 0, "none", "the lock has not ended")                                         \
    X(HF_REASON_RELEASED, 1, "released", "released as asked")                                      \
    X(HF_REASON_UNCONFIRMED, 2, "unconfirmed", "released, but the store did not confirm it")       \
    X(HF_REASON_CLOSED, 3, "closed", "released because the client was closed")                     \
    X(HF_REASON_ABANDONED, 4, "abandoned", "the last reference went while it was held")            \
    X(HF_REASON_EXPIRED, 5, "expired", "the lease ended before it was renewed")                    \
    X(HF_REASON_UNREACHABLE, 6, "unreachable", "the lease ended while the store did not answer")   \
    X(HF_REASON_TAKEN, 7, "taken", "somebody else holds it now")                                   \
    X(HF_REASON_DELETED, 8, "deleted", "its record was deleted or changed by hand")                \
    X(HF_REASON_FORCED, 9, "forced", "an operator released it by force")                           \
    X(HF_REASON_SESSION_ENDED, 10, "session-ended", "its session was ended or deleted by others")

enum hf_reason {
#define HF_REASON_ENUM(code, number, name, meaning) code = number,
    HF_REASONS(HF_REASON_ENUM)
#undef HF_REASON_ENUM
        HF_REASON_COUNT
};

/* The short name of a reason ("taken"), and a sentence on it. */
const char *hf_reason_name(enum hf_reason reason);
const char *hf_reason_meaning(enum hf_reason reason);

enum hf_log_level { HF_LOG_DEBUG = 0, HF_LOG_INFO = 1, HF_LOG_WARN = 2, HF_LOG_ERROR = 3 };

/*
 * Receives one line, without a newline. It is called on threads of the library,
 * possibly on several at once, and must not call back into it. The library
 * itself prints nothing.
 */
typedef void (*hf_log_fn)(void *user, enum hf_log_level level, const char *line);

#ifdef __cplusplus
}
#endif
#endif
