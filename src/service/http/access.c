/* The log: one line of JSON per request. */
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "service/service.h"

static void put_time(struct hf_json_writer *json)
{
    char text[64];
    int64_t us = hf__clock_wall_us(&hf__clock_system), year;
    int month, day;
    hf__date_from_days(us / 86400000000, &year, &month, &day);
    int64_t in_day = us % 86400000000;
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (int)year, month, day,
             (int)(in_day / 3600000000), (int)(in_day / 60000000 % 60),
             (int)(in_day / 1000000 % 60), (int)(in_day / 1000 % 1000));
    hf__put_text(json, "time", text);
}

static void put_ms(struct hf_json_writer *json, int64_t us)
{
    char text[32];
    snprintf(text, sizeof text, "%lld.%03d", (long long)(us / 1000), (int)(us % 1000));
    hf__json_put_name(json, "ms");
    hf__json_put_raw(json, hf__slice_str(text));
}

/* Identifies a secret without revealing it. */
static void put_hash(struct hf_json_writer *json, const char *secret)
{
    struct sha256_ctx context;
    unsigned char digest[8];
    char text[2 * sizeof digest + 1];
    sha256_init(&context);
    sha256_update(&context, strlen(secret), (const uint8_t *)secret);
    sha256_digest(&context, sizeof digest, digest);
    hf__hex_encode(digest, sizeof digest, text);
    hf__put_text(json, "grant_hash", text);
}

/* Probes come every few seconds and are of interest only if they fail. */
static bool is_probe(const struct hf_exchange *exchange)
{
    return exchange->route && exchange->route->access == HF_ACCESS_OPERATOR;
}

/* Whether the request is to be logged. */
static bool is_logged(const struct hf_exchange *exchange)
{
    const struct hf_service *service = exchange->service;
    if (!service->access) return false;
    if (exchange->status >= 500) return true;
    if (service->access_failures_only) return false;
    return !is_probe(exchange) || exchange->status >= 400 || service->log.least <= HF_LOG_DEBUG;
}

/* One line per request. It has no secrets: a grant is logged as a hash. */
void hf__access_log(const struct hf_exchange *exchange, int64_t took_us, bool received)
{
    static const char *const methods[] = {[HF_METHOD_GET] = "GET",
                                          [HF_METHOD_POST] = "POST",
                                          [HF_METHOD_DELETE] = "DELETE",
                                          [HF_METHOD_OPTIONS] = "OPTIONS",
                                          [HF_METHOD_OTHER] = "OTHER"};
    struct hf_service *service = exchange->service;
    struct hf_json_writer json;
    struct hf_buf line;
    if (!is_logged(exchange)) return;
    hf__buf_init(&line, 16 * 1024);
    hf__json_writer_init(&json, &line);
    hf__json_open(&json, '{');
    put_time(&json);
    hf__put_text(&json, "level", exchange->status >= 500 ? "error" : "info");
    hf__put_text(&json, "event", "request");
    hf__put_text(&json, "method", methods[exchange->method]);
    hf__put_text(&json, "route", exchange->route ? exchange->route->name : "none");
    /* One that was refused before its path was split may name a session as well. */
    bool secret = exchange->part_count == 0
                      ? !hf__slice_is(exchange->path, "/")
                      : exchange->part_count > 1 && hf__slice_is(exchange->parts[1], "sessions");
    if (!secret && hf__utf8_valid(exchange->path) && exchange->path.len <= 2048)
        hf__put_text(&json, "path", exchange->path.ptr);
    hf__put_number(&json, "status", exchange->status);
    put_ms(&json, took_us);
    hf__put_text(&json, "remote", exchange->remote);
    if (*exchange->caller.owner) hf__put_text(&json, "owner", exchange->caller.owner);
    if (exchange->instance) hf__put_text(&json, "instance", exchange->instance);
    if (exchange->operation) hf__put_text(&json, "operation", exchange->operation);
    if (exchange->request_id) hf__put_text(&json, "request_id", exchange->request_id);
    if (exchange->lock) hf__put_text(&json, "lock", exchange->lock);
    if (exchange->token) hf__put_number(&json, "token", exchange->token);
    if (exchange->secret) put_hash(&json, exchange->secret);
    if (exchange->error) hf__put_text(&json, "error", exchange->error);
    if (*exchange->detail && hf__utf8_valid(hf__slice_str(exchange->detail)))
        hf__put_text(&json, "detail", exchange->detail);
    if (!received) hf__put_bool(&json, "received", false);
    hf__json_close(&json, '}');
    if (!line.failed) service->access(service->access_user, hf__buf_cstr(&line));
    hf__buf_free(&line);
}
