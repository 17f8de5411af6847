/*
 * Other services on the same table, which this one calls its peers. Each listens to the events of the
 * others, so that a waiter here hears at once of a release there. These are hints: without them, or
 * while a peer cannot be reached, waiters poll the table as usual.
 *
 * Peers are named by --peer, or find each other in the table: every service that is told its own URL
 * (--advertise) keeps it in one item, with an expiry, and reads the others there.
 */
#ifndef HF_SERVICE_API_PEER_H
#define HF_SERVICE_API_PEER_H

#include "service/serve.h"

struct hf_peers;

/* *ret is NULL if the options ask for none. */
int hf__peers_start(struct hf_service *service, const struct hf_serve_options *options,
                    struct hf_peers **ret, struct hf_error *reterr);
/* Leaves the table. NULL is ignored. */
void hf__peers_stop(struct hf_peers *peers);

#endif
