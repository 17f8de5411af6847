#include "store/hearing.h"

#include <string.h>

enum {
    POLL_US = 1000000,        /* between two hints while the stream is broken (E2) */
    RETRY_MOST_US = 30000000, /* between two attempts to open it */
    SILENCE_S = 45,           /* it says something every 15 seconds */
};

static void set_timer(struct hf_hearing *hearing, int64_t in_us)
{
    hf__loop_timer_set(hearing->loop, &hearing->timer, hf__loop_now_us(hearing->loop) + in_us);
}

/* Renewals, queues and grants free no lock. */
static bool is_worth_telling(const char *line)
{
    static const char *const idle[] = {"event: renewed", "event: queue", "event: granted"};
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        if (strcmp(line, idle[i]) == 0) return false;
    return true;
}

/* True: those who listen are told. */
static bool take_line(struct hf_hearing *hearing)
{
    const char *line = hearing->line;
    if (strncmp(line, "event: ", 7) == 0) {
        hearing->is_worth = is_worth_telling(line);
        return hearing->is_worth;
    }
    if (hearing->heard && hearing->is_worth && strncmp(line, "data: ", 6) == 0)
        hearing->heard(hearing, hf__slice_str(line + 6));
    return false;
}

static void came(struct hf_http_request *request, struct hf_slice bytes)
{
    struct hf_hearing *hearing = request->user;
    bool tells = !hearing->streams;
    hearing->streams = true;
    hearing->failures = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        char byte = bytes.ptr[i];
        if (byte != '\n') {
            if (byte != '\r' && hearing->line_len < sizeof hearing->line - 1)
                hearing->line[hearing->line_len++] = byte;
            continue;
        }
        hearing->line[hearing->line_len] = '\0';
        hearing->line_len = 0;
        tells |= take_line(hearing);
    }
    if (tells) hf__bell_tell(&hearing->bell, 0);
}

static void broke(struct hf_http_request *request)
{
    struct hf_hearing *hearing = request->user;
    hf__http_request_free(request);
    hearing->is_open = false;
    if (hearing->failures < 10) hearing->failures++;
    hf__bell_tell(&hearing->bell, 0);
    set_timer(hearing, POLL_US);
}

static void open_stream(struct hf_hearing *hearing)
{
    struct hf_error error;
    hf__arena_reset(&hearing->arena);
    hearing->request = (struct hf_http_request){
        .method = "GET",
        .url = hearing->access->events,
        .connect_timeout_ms = 3000,
        .silence_s = SILENCE_S,
        .on_body = came,
        .done = broke,
        .user = hearing,
    };
    hearing->line_len = 0;
    hearing->streams = false;
    if (hf__access_prepare(hearing->access, &hearing->arena, &hearing->request, &error) != 0) {
        set_timer(hearing, POLL_US); /* other requests say why */
        return;
    }
    hearing->is_open = true;
    hf__http_start(hearing->http, &hearing->request);
}

/* It is broken: a hint each time, and now and then another attempt. */
static void on_timer(struct hf_timer *timer)
{
    struct hf_hearing *hearing = HF_CONTAINER(timer, struct hf_hearing, timer);
    static const int64_t longest = RETRY_MOST_US / POLL_US;
    if (hearing->is_open) return;
    hf__bell_tell(&hearing->bell, 0);
    int64_t skip = hearing->failures < 5 ? 1 << hearing->failures : longest;
    bool again = hf__loop_now_us(hearing->loop) / POLL_US % skip == 0;
    if (again) open_stream(hearing);
    else set_timer(hearing, POLL_US);
}

void hf__hearing_begin(struct hf_hearing *hearing)
{
    if (hearing->has_timer && !hearing->is_open) open_stream(hearing);
}

static void on_begin(struct hf_task *task)
{
    hf__hearing_begin(HF_CONTAINER(task, struct hf_hearing, begin));
}

bool hf__hearing_init(struct hf_hearing *hearing, struct hf_loop *loop, struct hf_http *http,
                      const struct hf_access *access)
{
    *hearing = (struct hf_hearing){.loop = loop, .http = http, .access = access};
    hf__bell_init(&hearing->bell);
    hf__list_init(&hearing->begin.node);
    hearing->begin.run = on_begin;
    hearing->has_timer = hf__loop_timer_init(loop, &hearing->timer, on_timer);
    return hearing->has_timer;
}

void hf__hearing_end(struct hf_hearing *hearing)
{
    if (hearing->is_open) {
        hf__http_cancel(hearing->http, &hearing->request);
        hf__http_request_free(&hearing->request);
    }
    if (hearing->has_timer) hf__loop_timer_done(hearing->loop, &hearing->timer);
    hearing->is_open = hearing->has_timer = false;
}

void hf__hearing_free(struct hf_hearing *hearing)
{
    hf__arena_free(&hearing->arena);
    hf__bell_free(&hearing->bell);
}

bool hf__hearing_listen(struct hf_hearing *hearing, struct hf_hint *hint)
{
    hf__bell_listen(&hearing->bell, NULL, -1, hint);
    pthread_mutex_lock(&hearing->bell.mutex);
    bool first = !hearing->posted;
    hearing->posted = true;
    pthread_mutex_unlock(&hearing->bell.mutex);
    if (first) hf__loop_post(hearing->loop, &hearing->begin);
    return true;
}

void hf__hearing_unlisten(struct hf_hearing *hearing, struct hf_hint *hint)
{
    hf__bell_unlisten(&hearing->bell, hint);
}
