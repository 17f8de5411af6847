/* A lock as JSON: one set of names, for the command and for the service. */
#ifndef HF_CLIENT_INFO_JSON_H
#define HF_CLIENT_INFO_JSON_H

#include "base/json_writer.h"
#include "holdfast.h"

/* Members of an object. What there is not is left out; some of it is null, for those who ask so. */
void hf__info_put(struct hf_json_writer *json, const struct hf_lock_info *info, bool nulls);
/* "data", or "data_base64" if it is not text; NULL: nothing. */
void hf__data_put(struct hf_json_writer *json, const void *data, size_t size);

#endif
