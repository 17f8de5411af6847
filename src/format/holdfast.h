/* Shared by the files of the native format, and private to them. */
#ifndef HF_FORMAT_HOLDFAST_H
#define HF_FORMAT_HOLDFAST_H

#include "format/keyed.h"

#define HF_SESSION_PREFIX "holdfast:session:"

extern const struct hf_session_format hf__holdfast_sessions;
extern const struct hf_share_format hf__holdfast_shares;

/* "session/grant" */
struct hf_slice hf__holdfast_member(struct hf_arena *arena, const struct hf_claim *claim);
bool hf__holdfast_member_parse(struct hf_slice text, struct hf_holder *ret);

const struct hf_condition *hf__holdfast_contains(struct hf_arena *arena, const char *set,
                                                 struct hf_slice member);
struct hf_value hf__holdfast_set_of(struct hf_arena *arena, struct hf_slice member);

/* A shared acquire and its release. */
void hf__holdfast_join(const struct hf_layout *layout, struct hf_arena *arena,
                       const struct hf_claim *claim, struct hf_op *ret);
void hf__holdfast_leave(const struct hf_layout *layout, struct hf_arena *arena,
                        const struct hf_claim *claim, struct hf_op *ret);

void hf__holdfast_write_member(struct hf_arena *arena, const struct hf_claim *claim,
                               struct hf_update *update);

/* The attributes that every grant writes for people, and their data. */
void hf__holdfast_write_common(struct hf_arena *arena, const struct hf_claim *claim,
                               struct hf_update *update);

/* The write that made the record's version; zeroes: the record does not say. */
void hf__holdfast_by(struct hf_item item, struct hf_id *ret);
/* The version is this one, and was made by this write; it is as it was seen. */
const struct hf_condition *hf__holdfast_made(struct hf_arena *arena, int64_t version,
                                             const struct hf_id *by);
const struct hf_condition *hf__holdfast_as_seen(struct hf_arena *arena, struct hf_item seen);

/* version, lease and expires, as a lock with its own lease and a session have them. */
bool hf__holdfast_liveness(struct hf_arena *arena, struct hf_item item, struct hf_slice id,
                           struct hf_liveness *ret, int64_t *ret_version);

#endif
