/*
 * Access keys of the DynamoDB API's callers: the ids and secrets with which they sign. From a file
 * of lines "ACCESS_KEY_ID SECRET_ACCESS_KEY", and one from the environment. Immutable, counted.
 */
#ifndef HF_SERVICE_HTTP_ACCESS_KEY_H
#define HF_SERVICE_HTTP_ACCESS_KEY_H

#include "base/error.h"
#include "base/slice.h"

enum { HF_ACCESS_KEYS_MOST = 1000 };

struct hf_access_keys;

/* Either may be missing: `path` NULL, or `id` NULL; both: there are no keys, and *ret is NULL. */
int hf__access_keys_load(const char *path, const char *id, const char *secret,
                         struct hf_access_keys **ret, struct hf_error *reterr);
struct hf_access_keys *hf__access_keys_ref(struct hf_access_keys *keys);
void hf__access_keys_unref(struct hf_access_keys *keys);

/* The secret of an id; valid for as long as the keys are. False: the id is unknown. */
bool hf__access_keys_find(const struct hf_access_keys *keys, struct hf_slice id,
                          struct hf_slice *ret_secret);

#endif
