#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "service/http/exchange.h"

void hf__answer_begin(struct hf_exchange *exchange, int status, struct hf_json_writer *ret)
{
    exchange->status = status;
    hf__buf_clear(&exchange->answer);
    hf__json_writer_init(ret, &exchange->answer);
    hf__json_open(ret, '{');
}

void hf__answer_end(struct hf_exchange *exchange, struct hf_json_writer *json)
{
    hf__json_close(json, '}');
    hf__buf_char(&exchange->answer, '\n');
    hf__exchange_done(exchange);
}

void hf__put_text(struct hf_json_writer *json, const char *name, const char *text)
{
    hf__json_put_name(json, name);
    if (text) hf__json_put_string(json, hf__slice_str(text));
    else hf__json_put_null(json);
}

void hf__put_number(struct hf_json_writer *json, const char *name, int64_t number)
{
    hf__json_put_name(json, name);
    hf__json_put_int64(json, number);
}

void hf__put_bool(struct hf_json_writer *json, const char *name, bool value)
{
    hf__json_put_name(json, name);
    hf__json_put_bool(json, value);
}

void hf__answer_error_begin(struct hf_exchange *exchange, int status, const char *name,
                            const char *message, struct hf_json_writer *ret)
{
    exchange->error = name;
    snprintf(exchange->detail, sizeof exchange->detail, "%.*s", HF_LOG_ERROR_MAX - 1, message);
    hf__answer_begin(exchange, status, ret);
    hf__put_text(ret, "error", name);
    hf__put_text(ret, "message", hf__utf8_valid(hf__slice_str(message)) ? message : name);
}

void hf__answer_error(struct hf_exchange *exchange, int status, const char *name,
                      const char *format, ...)
{
    char message[508];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    struct hf_json_writer json;
    hf__answer_error_begin(exchange, status, name, message, &json);
    hf__answer_end(exchange, &json);
}

/* The status tells what the caller can do: correct the request (4xx), or retry (5xx). */
static const struct {
    int code;
    int status;
    int retry_after_s;
} statuses[] = {
    {HF_ERR_INVALID, 400, 0},     {HF_ERR_SYNTAX, 400, 0},      {HF_ERR_LIMIT, 400, 0},
    {HF_ERR_UNSUPPORTED, 400, 0}, {HF_ERR_OTHER_LIMIT, 409, 0}, {HF_ERR_HELD, 423, 0},
    {HF_ERR_TIMED_OUT, 423, 0},   {HF_ERR_LOST, 409, 0},        {HF_ERR_ABSENT, 404, 0},
    {HF_ERR_THROTTLED, 503, 1},   {HF_ERR_UNREACHABLE, 503, 1}, {HF_ERR_BUSY, 503, 1},
    {HF_ERR_CLOSED, 503, 1},      {HF_ERR_CANCELLED, 503, 1},   {HF_ERR_OUTCOME_UNKNOWN, 504, 0},
    {HF_ERR_NO_TABLE, 503, 1},    {HF_ERR_NO_MEMORY, 503, 1},   {HF_ERR_FULL, 507, 0},
};

void hf__answer_failure(struct hf_exchange *exchange, int code, const struct hf_error *error)
{
    int status = 500;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i].code != code) continue;
        status = statuses[i].status;
        exchange->retry_after_s = statuses[i].retry_after_s;
    }
    const char *hint = code == HF_ERR_NO_TABLE ? "; create it with: holdfast table create" : "";
    hf__answer_error(exchange, status, hf_error_name(code), "%s%s", error->message, hint);
}

bool hf__percent_decode(struct hf_arena *arena, struct hf_slice text, bool plus,
                        struct hf_slice *ret)
{
    char *out = hf__arena_alloc(arena, text.len + 1);
    if (!out) return false;
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%') {
            if (i + 2 >= text.len) return false;
            int high = hf__hex_value(text.ptr[i + 1]), low = hf__hex_value(text.ptr[i + 2]);
            if (high < 0 || low < 0) return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0') return false;
        out[len++] = c;
    }
    out[len] = '\0';
    *ret = hf__slice(out, len);
    return hf__utf8_valid(*ret);
}
