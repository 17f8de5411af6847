/* Shared by v2's routes: names, bodies, and how a lock is shown. */
#ifndef HF_SERVICE_API_LOCK_H
#define HF_SERVICE_API_LOCK_H

#include "service/api/v2.h"
#include "service/service.h"

/* Reads the body; false if it was refused, which has been answered. */
bool hf__v2_read(struct hf_exchange *exchange, uint32_t allowed, struct hf_v2_body *ret);
/* Reads a long body on another thread; then, or if it is short, continues with hf__v2_read. */
void hf__v2_read_first(struct hf_exchange *exchange, uint32_t allowed,
                       void (*then)(struct hf_exchange *exchange));
/* The lock's name in the path, valid for the format, to which the caller has this right (0: no
 * right needed); NULL if it was refused. */
const char *hf__v2_name(struct hf_exchange *exchange, enum hf_right right);

/* Whether the caller may ask for this lease; false if it was refused. */
bool hf__v2_lease_is_good(struct hf_exchange *exchange, int64_t lease_ms);

/*
 * How long a caller may rely on the lock: less than the service does, by a hundredth of the lease,
 * since the caller's clock may run slower.
 */
int64_t hf__left_for_caller(int64_t left_ms, int64_t lease_ms);

#endif
