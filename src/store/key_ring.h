/*
 * Keeps AWS credentials at hand: resolves them on a thread of its own, since
 * that may ask files, programs and servers, and refreshes them before they end.
 *
 * They are refreshed from 15 minutes before their end on. Callers wait for a
 * refresh only when the old ones have ended or were rejected. If the source is
 * down, the old ones stay in use.
 */
#ifndef HF_STORE_KEY_RING_H
#define HF_STORE_KEY_RING_H

#include "base/log.h"
#include "store/credentials.h"
#include "store/endpoint.h"

struct hf_key_ring;

struct hf_key_ring_options {
    hf_environment environment;
    const struct hf_clock *clock;
    struct hf_log log;
    const char *profile; /* these may be NULL; the strings are copied */
    const char *region;
    const char *endpoint;
    const char *access_key_id;
    const char *secret;
    const char *token;
    void (*changed)(void *user); /* something to ask for again; on the key_ring's thread */
    void *user;
};

enum hf_keeper_state { HF_KEEPER_READY, HF_KEEPER_WAIT, HF_KEEPER_FAILED };

/*
 * Everything that a request needs. The texts stay until the key_ring stops; unref the credentials.
 */
struct hf_identity {
    struct hf_credentials *credentials;
    const char *region;
    const char *endpoint;
};

int hf__key_ring_start(const struct hf_key_ring_options *options, struct hf_key_ring **ret,
                       struct hf_error *reterr);

/* Ends its thread: `changed` is not called any more. Then free it when nobody asks it any more. */
void hf__key_ring_stop(struct hf_key_ring *key_ring);
void hf__key_ring_free(struct hf_key_ring *key_ring);

/* WAIT: `changed` will be called. FAILED: with the reason; asking again later tries again. */
enum hf_keeper_state hf__key_ring_get(struct hf_key_ring *key_ring, struct hf_identity *ret,
                                      struct hf_error *reterr);

/* The server says that these have expired: get new ones now. */
void hf__key_ring_refresh(struct hf_key_ring *key_ring, const struct hf_credentials *expired);

#endif
