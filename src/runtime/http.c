#include "runtime/http.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"

enum {
    IDLE_HANDLES = 256,
    IDLE_CONNECTION_S = 45, /* servers close idle connections after a minute or so */
};

/*
 * A socket of libcurl's on our loop. There are as many as libcurl can open, so that none is
 * missing. What is watched is a descriptor of our own: libcurl closes its own first and says so
 * afterwards if the connection was not made yet (7.88 to 8.1), and then nothing could be unwatched.
 */
struct watched {
    struct hf_list node; /* among the free ones */
    struct hf_watch watch;
    curl_socket_t socket;
    struct hf_http *http;
};

struct hf_http {
    struct hf_loop *loop;
    CURLM *multi; /* NULL after a failure that could not be mended */
    int connections;
    struct watched *watched;
    struct hf_list free_watched;
    struct hf_timer timer;
    struct hf_timer failures; /* completes requests that could not be started */
    struct hf_list active;
    struct hf_list failed;
    CURL *idle[IDLE_HANDLES];
    size_t idle_count;
};

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void require_curl(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
}

/* ---- one request ---- */

/*
 * libcurl asks this before it sends a request on a connection. The second time
 * would be a silent repetition: refused, see the head of http.h.
 */
static int before_send(void *user, char *primary_ip, char *local_ip, int primary_port,
                       int local_port)
{
    struct hf_http_request *request = user;
    (void)primary_ip;
    (void)local_ip;
    (void)primary_port;
    (void)local_port;
    bool again = request->has_started;
    request->has_started = true;
    return again ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static size_t take_answer(char *data, size_t size, size_t count, void *user)
{
    struct hf_http_request *request = user;
    long status = 0;
    if (request->on_body) {
        curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status == 200) request->on_body(request, hf__slice(data, size * count));
        return size * count;
    }
    hf__buf_add(&request->answer, data, size * count);
    return request->answer.failed ? 0 : size * count;
}

static size_t take_header(char *line, size_t size, size_t count, void *user)
{
    struct hf_http_request *request = user;
    size_t len = size * count;
    const char *colon = memchr(line, ':', len);
    if (request->on_header && colon) {
        const char *value = colon + 1, *end = line + len;
        while (value < end && (*value == ' ' || *value == '\t')) value++;
        while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ')) end--;
        request->on_header(request, hf__slice(line, (size_t)(colon - line)),
                           hf__slice(value, (size_t)(end - value)));
    }
    return len;
}

static bool add_headers(struct hf_http_request *request)
{
    struct curl_slist *list = NULL;
    const char *fixed[] = {"Expect:", "Accept:"};
    for (size_t i = 0; i < request->header_count + 2; i++) {
        const char *line = i < 2 ? fixed[i] : request->headers[i - 2];
        struct curl_slist *longer = curl_slist_append(list, line);
        if (!longer) {
            curl_slist_free_all(list);
            return false;
        }
        list = longer;
    }
    request->header_list = list;
    return true;
}

/* Settings that are the same for every request; a handle keeps them while it is pooled. */
static void prepare_handle(CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /*
     * A name that does not resolve must not delay the loop: the resolver's thread is left behind.
     */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "holdfast/" HF_VERSION_STRING);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)IDLE_CONNECTION_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_send);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
}

/* Settings of one request; whatever one request sets, every request sets. */
static bool configure(CURL *easy, struct hf_http_request *request)
{
    bool has_body = request->body.len > 0 || strcmp(request->method, "POST") == 0;
    if (!add_headers(request)) return false;
    request->easy = easy;
    request->has_started = false;
    hf__buf_init(&request->answer, request->limit);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
    curl_easy_setopt(easy, CURLOPT_URL, request->url);
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L); /* forgets an earlier POST */
    if (has_body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.len ? request->body.ptr : "");
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->header_list);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, request->no_proxy ? "*" : NULL);
    if (request->ca_file) curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file);
    curl_easy_setopt(easy, CURLOPT_SSLCERT, request->cert_file);
    curl_easy_setopt(easy, CURLOPT_SSLKEY,
                     request->key_file ? request->key_file : request->cert_file);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, request->silence_s ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)request->silence_s);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)request->connect_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, request);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
    return true;
}

static void fail_request(struct hf_http_request *request, enum hf_http_outcome outcome,
                         const char *why)
{
    request->outcome = outcome;
    hf__error_set(&request->error,
                  outcome == HF_HTTP_LOST ? HF_ERR_OUTCOME_UNKNOWN : HF_ERR_UNREACHABLE, "%s", why);
}

static void conclude(struct hf_http_request *request, CURLcode result)
{
    long status = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (result == CURLE_OK) {
        request->outcome = HF_HTTP_ANSWERED;
        request->status = (int)status;
    } else if (result == CURLE_WRITE_ERROR && request->answer.failed) {
        bool long_one = request->answer.len > request->limit / 2;
        fail_request(request, HF_HTTP_LOST, long_one ? "the answer is too long" : "out of memory");
    } else {
        fail_request(request, request->has_started ? HF_HTTP_LOST : HF_HTTP_NOT_SENT,
                     result == CURLE_ABORTED_BY_CALLBACK ? "the connection was closed by the server"
                                                         : curl_easy_strerror(result));
    }
}

static void release(struct hf_http_request *request)
{
    curl_slist_free_all(request->header_list);
    request->header_list = NULL;
    request->easy = NULL;
}

void hf__http_request_free(struct hf_http_request *request)
{
    hf__buf_free(&request->answer);
}

/* ---- libcurl on our loop ---- */

static CURL *take_handle(struct hf_http *http)
{
    if (http->idle_count > 0) return http->idle[--http->idle_count];
    CURL *easy = curl_easy_init();
    if (easy) prepare_handle(easy);
    return easy;
}

static void give_handle(struct hf_http *http, CURL *easy)
{
    if (http->idle_count < IDLE_HANDLES) http->idle[http->idle_count++] = easy;
    else curl_easy_cleanup(easy);
}

static void detach(struct hf_http *http, struct hf_http_request *request)
{
    CURL *easy = request->easy;
    hf__list_remove(&request->node);
    if (!easy) return;
    curl_multi_remove_handle(http->multi, easy);
    release(request);
    give_handle(http, easy);
}

static void finish_done(struct hf_http *http)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
        struct hf_http_request *request = NULL;
        if (message->msg != CURLMSG_DONE) continue;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request);
        request->received_boot_us = hf__loop_now_us(http->loop);
        conclude(request, result);
        detach(http, request);
        request->done(request);
    }
}

static void fail_everything(struct hf_http *http);

static void act(struct hf_http *http, curl_socket_t socket, int what)
{
    int running;
    CURLMcode result = curl_multi_socket_action(http->multi, socket, what, &running);
    finish_done(http);
    if (result != CURLM_OK) fail_everything(http);
}

static void on_ready(struct hf_watch *watch, uint32_t events)
{
    struct watched *watched = HF_CONTAINER(watch, struct watched, watch);
    int what = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
               (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    act(watched->http, watched->socket, what);
}

static void on_timer(struct hf_timer *timer)
{
    act(HF_CONTAINER(timer, struct hf_http, timer), CURL_SOCKET_TIMEOUT, 0);
}

static void on_failures(struct hf_timer *timer)
{
    struct hf_http *http = HF_CONTAINER(timer, struct hf_http, failures);
    for (struct hf_list *node; (node = hf__list_pop(&http->failed)) != NULL;) {
        struct hf_http_request *request = HF_CONTAINER(node, struct hf_http_request, node);
        request->done(request);
    }
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *user, void *socket_user)
{
    struct hf_http *http = user;
    struct watched *watched = socket_user;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (!watched) return 0;
        hf__loop_unwatch(http->loop, &watched->watch);
        close(watched->watch.fd);
        curl_multi_assign(http->multi, socket, NULL);
        hf__list_append(&http->free_watched, &watched->node);
        return 0;
    }
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    bool is_new = watched == NULL;
    if (is_new) {
        int fd = fcntl(socket, F_DUPFD_CLOEXEC, 0);
        struct hf_list *node = fd >= 0 ? hf__list_pop(&http->free_watched) : NULL;
        if (!node) {
            if (fd >= 0) close(fd);
            return -1;
        }
        watched = HF_CONTAINER(node, struct watched, node);
        watched->watch = (struct hf_watch){.fd = fd, .ready = on_ready};
        watched->socket = socket;
        curl_multi_assign(http->multi, socket, watched);
    }
    return hf__loop_watch(http->loop, &watched->watch, events, is_new) ? 0 : -1;
}

static int on_timeout(CURLM *multi, long ms, void *user)
{
    struct hf_http *http = user;
    (void)multi;
    if (ms < 0) hf__loop_timer_clear(http->loop, &http->timer);
    else hf__loop_timer_set(http->loop, &http->timer, hf__loop_now_us(http->loop) + ms * 1000);
    return 0;
}

static CURLM *new_multi(struct hf_http *http)
{
    CURLM *multi = curl_multi_init();
    if (!multi) return NULL;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, http);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)http->connections);
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)http->connections);
    return multi;
}

/*
 * The handle of libcurl failed, as it does when a socket cannot be watched: all requests under way
 * are lost, and further ones start on a new handle.
 */
static void fail_everything(struct hf_http *http)
{
    struct hf_list failed;
    hf__list_init(&failed);
    while (!hf__list_empty(&http->active)) {
        struct hf_http_request *request =
            HF_CONTAINER(http->active.next, struct hf_http_request, node);
        hf__http_cancel(http, request);
        hf__list_append(&failed, &request->node);
    }
    curl_multi_cleanup(http->multi);
    http->multi = new_multi(http);
    for (struct hf_list *node; (node = hf__list_pop(&failed)) != NULL;) {
        struct hf_http_request *request = HF_CONTAINER(node, struct hf_http_request, node);
        request->done(request);
    }
}

/* Each connection may try two addresses at once, and each handle may have a resolver. */
static bool make_watched(struct hf_http *http)
{
    size_t count = (size_t)http->connections * 4;
    http->watched = hf__calloc(count, sizeof *http->watched);
    for (size_t i = 0; http->watched && i < count; i++) {
        http->watched[i].http = http;
        hf__list_append(&http->free_watched, &http->watched[i].node);
    }
    return http->watched != NULL;
}

int hf__http_open(struct hf_loop *loop, int connections, struct hf_http **ret,
                  struct hf_error *reterr)
{
    require_curl();
    struct hf_http *http = hf__calloc(1, sizeof *http);
    if (!http) return hf__error_no_memory(reterr);
    http->loop = loop;
    http->connections = connections;
    hf__list_init(&http->active);
    hf__list_init(&http->failed);
    hf__list_init(&http->free_watched);
    bool has_timer = hf__loop_timer_init(loop, &http->timer, on_timer);
    bool has_failures = hf__loop_timer_init(loop, &http->failures, on_failures);
    http->multi = new_multi(http);
    if (!has_timer || !has_failures || !http->multi || !make_watched(http)) {
        if (has_timer) hf__loop_timer_done(loop, &http->timer);
        if (has_failures) hf__loop_timer_done(loop, &http->failures);
        curl_multi_cleanup(http->multi);
        hf__free(http);
        return hf__error_no_memory(reterr);
    }
    *ret = http;
    return 0;
}

void hf__http_close(struct hf_http *http)
{
    while (!hf__list_empty(&http->active))
        detach(http, HF_CONTAINER(http->active.next, struct hf_http_request, node));
    for (size_t i = 0; i < http->idle_count; i++) curl_easy_cleanup(http->idle[i]);
    curl_multi_cleanup(http->multi);
    hf__loop_timer_done(http->loop, &http->timer);
    hf__loop_timer_done(http->loop, &http->failures);
    hf__free(http->watched);
    hf__free(http);
}

/* A request that cannot even start is completed from the loop, not from within the call. */
static void fail_soon(struct hf_http *http, struct hf_http_request *request)
{
    fail_request(request, HF_HTTP_NOT_SENT, "out of memory");
    request->received_boot_us = request->sent_boot_us;
    hf__list_append(&http->failed, &request->node);
    hf__loop_timer_set(http->loop, &http->failures, hf__loop_now_us(http->loop));
}

void hf__http_start(struct hf_http *http, struct hf_http_request *request)
{
    CURL *easy = take_handle(http);
    request->easy = NULL;
    request->header_list = NULL;
    hf__list_init(&request->node);
    request->sent_boot_us = hf__loop_now_us(http->loop);
    if (!http->multi) http->multi = new_multi(http);
    if (easy && http->multi && configure(easy, request)) {
        hf__list_append(&http->active, &request->node);
        if (curl_multi_add_handle(http->multi, easy) == CURLM_OK) return;
        hf__list_remove(&request->node);
    }
    release(request);
    if (easy) give_handle(http, easy);
    fail_soon(http, request);
}

void hf__http_cancel(struct hf_http *http, struct hf_http_request *request)
{
    bool left = request->easy && request->has_started;
    detach(http, request);
    request->received_boot_us = hf__loop_now_us(http->loop);
    fail_request(request, left ? HF_HTTP_LOST : HF_HTTP_NOT_SENT, "cancelled");
}

/* ---- without a loop ---- */

static int should_stop(void *user, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    const struct hf_http_request *request = user;
    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    return request->stop && __atomic_load_n(request->stop, __ATOMIC_RELAXED);
}

void hf__http_fetch(struct hf_http_request *request, const struct hf_clock *clock)
{
    require_curl();
    CURL *easy = curl_easy_init();
    if (easy) {
        prepare_handle(easy);
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, should_stop);
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, request);
    }
    request->sent_boot_us = hf__clock_boot_us(clock);
    if (easy && configure(easy, request)) conclude(request, curl_easy_perform(easy));
    else fail_request(request, HF_HTTP_NOT_SENT, "out of memory");
    request->received_boot_us = hf__clock_boot_us(clock);
    if (easy) {
        release(request);
        curl_easy_cleanup(easy);
    }
}
