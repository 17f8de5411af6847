/* What a client reports about itself: its store, its format, the store's time. */
#include <string.h>

#include "base/alloc.h"
#include "client/client.h"

const char *hf_version(void)
{
    return HF_VERSION_STRING;
}

const char *hf_client_owner(const struct hf_client *client)
{
    return hf__core_options(client->core)->owner.ptr; /* hf__arena_copy terminates */
}

int hf_store_time(struct hf_client *client, int64_t *ret_lo_unix_us, int64_t *ret_hi_unix_us,
                  struct hf_error *reterr)
{
    int code = hf__client_enter(client, reterr);
    if (code != 0) return code;
    struct hf_interval now = hf__core_store_time(client->core, hf__client_now_us(client));
    pthread_mutex_unlock(&client->mutex);
    if (!now.known)
        return hf__error_set(reterr, HF_ERR_ABSENT, "the store has not reported its time yet");
    *ret_lo_unix_us = now.lo_unix_us;
    *ret_hi_unix_us = now.hi_unix_us;
    return 0;
}

int hf_store_describe(struct hf_client *client, struct hf_store_info **ret, struct hf_error *reterr)
{
    int code = hf__client_hold(client, reterr);
    if (code != 0) return code;
    struct hf_store_info *info = hf__calloc(1, sizeof *info);
    if (!info) {
        hf__client_let_go(client);
        return hf__error_no_memory(reterr);
    }
    struct hf_slice table = hf__core_options(client->core)->layout.table;
    memcpy(info->table, table.ptr, table.len < sizeof info->table ? table.len : 0);
    code = hf__store_describe(client->store, info, reterr);
    hf__client_let_go(client);
    if (code == 0) *ret = info;
    else hf__free(info);
    return code;
}

void hf_store_info_free(struct hf_store_info *info)
{
    hf__free(info);
}

int hf_format_describe(size_t index, struct hf_format_info *ret)
{
    if (index >= HF_FORMATS) return HF_ERR_ABSENT;
    const struct hf_format *format = hf__format_at(index);
    *ret = (struct hf_format_info){
        .name = format->name,
        .key_name = format->default_key,
        .leases = format->can & HF_CAN_RENEW,
        .tokens = format->can & HF_CAN_TOKEN,
        .data = format->can & HF_CAN_DATA,
        .shared = format->can & HF_CAN_SHARE,
        .semaphores = format->can & HF_CAN_SESSION,
        .sessions = format->can & HF_CAN_SESSION,
        .by_observation = format->can & HF_CAN_OBSERVE,
        .by_clock = format->can & HF_CAN_EXPIRE,
        .sort_keys = format->can & HF_CAN_SORT,
        .key_types = format->can & HF_CAN_KEY_TYPES,
    };
    return 0;
}
