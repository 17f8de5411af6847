#include "client/info_json.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "base/text.h"

static void put_text_or_null(struct hf_json_writer *json, const char *name, const char *text,
                             bool nulls)
{
    if (!text && !nulls) return;
    hf__json_put_name(json, name);
    if (text) hf__json_put_string(json, hf__slice_str(text));
    else hf__json_put_null(json);
}

static void put_text(struct hf_json_writer *json, const char *name, const char *text)
{
    put_text_or_null(json, name, text, false);
}

static void put_number(struct hf_json_writer *json, const char *name, int64_t number)
{
    hf__json_put_name(json, name);
    hf__json_put_int64(json, number);
}

static void put_known(struct hf_json_writer *json, const char *name, int64_t number)
{
    if (number != 0) put_number(json, name, number);
}

void hf__data_put(struct hf_json_writer *json, const void *data, size_t size)
{
    struct hf_slice bytes = hf__slice(data, size);
    if (!data) return;
    if (hf__utf8_valid(bytes)) {
        hf__json_put_name(json, "data");
        hf__json_put_string(json, bytes);
        return;
    }
    char *base64 = hf__malloc(HF_BASE64_SIZE(size));
    hf__json_put_name(json, "data_base64");
    if (base64)
        hf__json_put_string(json, hf__slice(base64, hf__base64_encode(bytes.ptr, size, base64)));
    else json->buf->failed = true;
    hf__free(base64);
}

/* The rest of a lease, as far as the store's clock is known. */
static void put_left(struct hf_json_writer *json, int64_t expires_unix_ms, int64_t now_unix_ms)
{
    if (expires_unix_ms == 0 || now_unix_ms == 0) return;
    put_number(json, "left_ms", expires_unix_ms > now_unix_ms ? expires_unix_ms - now_unix_ms : 0);
}

static void put_parties(struct hf_json_writer *json, const char *name,
                        const struct hf_lock_party *parties, size_t count, int64_t now_unix_ms)
{
    if (count == 0) return;
    hf__json_put_name(json, name);
    hf__json_open(json, '[');
    for (size_t i = 0; i < count; i++) {
        hf__json_open(json, '{');
        put_text(json, "owner", parties[i].owner);
        put_text(json, "instance", parties[i].instance);
        put_text(json, "session", parties[i].session);
        put_known(json, "since_unix_ms", parties[i].since_unix_ms);
        put_known(json, "lease_ms", parties[i].lease_ms);
        put_known(json, "expires_unix_ms", parties[i].expires_unix_ms);
        put_left(json, parties[i].expires_unix_ms, now_unix_ms);
        hf__json_close(json, '}');
    }
    hf__json_close(json, ']');
}

static void put_attributes(struct hf_json_writer *json, const struct hf_lock_info *info)
{
    if (info->attribute_count == 0) return;
    hf__json_put_name(json, "attributes");
    hf__json_open(json, '{');
    for (size_t i = 0; i < info->attribute_count; i++) {
        hf__json_put_key(json, hf__slice_str(info->attributes[i].name));
        hf__json_put_string(json, hf__slice_str(info->attributes[i].text));
    }
    hf__json_close(json, '}');
}

void hf__info_put(struct hf_json_writer *json, const struct hf_lock_info *info, bool nulls)
{
    bool taken = info->state != HF_LOCK_FREE; /* it has a holder, even if expired */
    put_text(json, "name", info->name);
    put_text(json, "sort_key", info->sort_key);
    put_text(json, "state", hf_lock_state_name(info->state));
    hf__json_put_name(json, "held");
    hf__json_put_bool(json, info->held);
    if (taken) put_text(json, "mode", info->shared ? "shared" : "exclusive");
    put_text_or_null(json, "owner", taken ? info->owner : NULL, nulls);
    put_text_or_null(json, "last_owner", info->owner, nulls);
    if (taken) put_text(json, "instance", info->instance);
    put_number(json, "token", info->token);
    put_number(json, "holders", info->holders);
    put_known(json, "limit", info->limit);
    if (info->waiters >= 0) put_number(json, "waiters", info->waiters);
    if (taken) put_known(json, "since_unix_ms", info->since_unix_ms);
    put_known(json, "lease_ms", info->lease_ms);
    put_known(json, "expires_unix_ms", info->expires_unix_ms);
    put_left(json, info->expires_unix_ms, info->now_unix_ms);
    put_parties(json, "held_by", info->held_by, info->held_by_count, info->now_unix_ms);
    put_parties(json, "waiting", info->waiting, info->waiting_count, info->now_unix_ms);
    put_text(json, "damage", info->damage);
    if (!info->data && nulls) put_text_or_null(json, "data", NULL, true);
    hf__data_put(json, info->data, info->data_size);
    put_attributes(json, info);
    put_text_or_null(json, "forced_by", info->forced_by, nulls);
    put_text_or_null(json, "forced_reason", info->forced_reason, nulls);
}
