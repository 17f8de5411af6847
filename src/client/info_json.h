/* A lock as JSON: one set of names, for the command and for the service. */
#ifndef HF_CLIENT_INFO_JSON_H
#define HF_CLIENT_INFO_JSON_H

#include "base/json_writer.h"
#include "holdfast.h"

/* Members of an object. Missing values are left out or, with `nulls`, some are null. */
void hf__info_put(struct hf_json_writer *json, const struct hf_lock_info *info, bool nulls);
/* "data", or "data_base64" if it is not text; NULL: no member. */
void hf__data_put(struct hf_json_writer *json, const void *data, size_t size);

#endif
