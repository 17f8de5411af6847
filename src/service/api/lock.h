/* What v2's routes share: names, bodies, and how a lock is shown. */
#ifndef HF_SERVICE_API_LOCK_H
#define HF_SERVICE_API_LOCK_H

#include "service/api/v2.h"
#include "service/service.h"

/* The body; false if it was refused, which is answered. */
bool hf__v2_read(struct hf_exchange *exchange, uint32_t allowed, struct hf_v2_body *ret);
/* Has a long body read beside the loop; then, or if it is short, goes on to call hf__v2_read. */
void hf__v2_read_first(struct hf_exchange *exchange, uint32_t allowed,
                       void (*then)(struct hf_exchange *exchange));
/* The lock's name in the path, which the format must like, and to which the caller may do this (0:
 * there is nothing to ask); NULL if it was refused. */
const char *hf__v2_name(struct hf_exchange *exchange, enum hf_right right);

/* Not longer than the caller may ask for; false if it was refused. */
bool hf__v2_lease_is_good(struct hf_exchange *exchange, int64_t lease_ms);

/*
 * How long a caller may count on it: less than we do, by a hundredth of the lease, since its clock
 * may run slower than ours.
 */
int64_t hf__left_for_caller(int64_t left_ms, int64_t lease_ms);

#endif
