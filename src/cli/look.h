/* A lock as people and programs read it. */
#ifndef HF_CLI_LOOK_H
#define HF_CLI_LOOK_H

#include "cli/cli.h"

/* The store's time, as far as it is known; otherwise ours. */
int64_t store_now_ms(struct hf_client *client);

/* One object with all that is known about a lock. */
void put_lock(struct hf_json_writer *json, const struct hf_lock_info *info);

#endif
