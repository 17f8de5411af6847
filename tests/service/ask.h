/*
 * The service in this process, on a socket of its own, and requests to it. Asking allocates nothing: what fails while
 * a request is under way is the service's.
 */
#ifndef HF_TEST_ASK_H
#define HF_TEST_ASK_H

#include "harness/test.h"
#include "service/serve.h"
#include "service/service.h"

enum { ASK_ENOUGH_MS = 10000, ASK_HANGS = -1, ASK_BODY = 512 * 1024, ASK_REQUEST = 8192 };

struct request {
    const char *method;
    char path[512];
    const char *token;  /* a bearer token; NULL: none */
    char headers[1536]; /* more of them, each with its \r\n */
    char body[2048];
};

struct reply {
    int status; /* 0: the connection was closed without a whole answer; ASK_HANGS: nothing came */
    char head[4096];
    char body[ASK_BODY]; /* with a terminator */
    size_t size;
};

/* A listening socket at a new path, for a service that is about to start. */
int ask_listen(void);
/* To the latest of them; the caller's. -1: it is closed. */
int ask_connect(void);
void ask_send(int fd, const struct request *request);
/* The whole answer, or the end of the connection; waits ASK_ENOUGH_MS for more at most. */
void ask_read(int fd, struct reply *ret);
/* All of it, on a connection of its own. */
void ask(const struct request *request, struct reply *ret);
/* Whether there is something to read within this time. */
bool ask_is_readable(int fd, int ms);

void ask_nap(int ms);
int64_t ask_now_ms(void);

#endif
