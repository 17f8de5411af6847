/* The DynamoDB engine against a server that misbehaves as real ones do. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crc32.h"
#include "base/text.h"
#include "harness/model.h"
#include "harness/stub.h"
#include "store/store.h"
#include "wire/sigv4.h"

#define CONDITION_FAILED                                                                            \
    "{\"__type\":\"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException\",\"message\":" \
    "\"The conditional request failed\",\"Item\":{\"owner\":{\"S\":\"somebody\"}}}"

static const char *const environment[] = {"AWS_ACCESS_KEY_ID",
                                          "AKIDTEST",
                                          "AWS_SECRET_ACCESS_KEY",
                                          "secret",
                                          "AWS_EC2_METADATA_DISABLED",
                                          "true",
                                          "AWS_SESSION_TOKEN",
                                          "token",
                                          NULL,
                                          NULL};

/* What the server says to the 1st, 2nd, … request; the last one stands for all that follow. */
struct script {
    struct hf_stub_answer answers[4];
    int count;
    struct hf_stub_request last; /* its texts are copies */
    char last_headers[4096];
    char first_date[32], last_date[32];
};

static void play(void *user, const struct hf_stub_request *request, struct hf_stub_answer *answer)
{
    struct script *script = user;
    int index = request->number - 1 < script->count ? request->number - 1 : script->count - 1;
    *answer = script->answers[index];
    if (!answer->status) answer->status = 200;
    if (!answer->body[0]) strcpy(answer->body, "{}");
    snprintf(script->last_headers, sizeof script->last_headers, "%s", request->headers);
    snprintf(script->last_date, sizeof script->last_date, "%s",
             hf_stub_header(request, "x-amz-date"));
    if (request->number == 1) strcpy(script->first_date, script->last_date);
}

static struct hf_stub *stub;
static struct hf_store *store;
static struct hf_arena arena;

static struct hf_store *open_at(const char *base, const struct hf_store_options *options)
{
    char url[256];
    struct hf_error error;
    struct hf_store *opened = NULL;
    snprintf(url, sizeof url, "dynamodb://locks?region=us-east-1&endpoint=%s", base);
    if (hf__store_open(url, options, &opened, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    return opened;
}

static void begin_with(struct script *script, int timeout_ms)
{
    struct hf_store_options options = {.environment = environment,
                                       .request_timeout_ms = timeout_ms,
                                       .connect_timeout_ms = timeout_ms};
    stub = hf_stub_start(play, script, false);
    store = open_at(hf_stub_url(stub), &options);
}

static void begin(struct script *script)
{
    begin_with(script, 5000);
}

static void end(void)
{
    hf__store_close(store);
    hf_stub_stop(stub);
    hf__arena_free(&arena);
}

static struct hf_op get(void)
{
    return (struct hf_op){.kind = HF_GET_ITEM,
                          .table = HF_LIT("locks"),
                          .key = hf_test_item(&arena, "{\"key\":{\"S\":\"k\"}}")};
}

static struct hf_op put(void)
{
    return (struct hf_op){.kind = HF_PUT_ITEM,
                          .table = HF_LIT("locks"),
                          .item = hf_test_item(&arena, "{\"key\":{\"S\":\"k\"}}"),
                          .condition = hf__cond_absent(&arena, "key"),
                          .old_on_failure = true};
}

static struct hf_op count_up(void)
{
    return (struct hf_op){.kind = HF_UPDATE_ITEM,
                          .table = HF_LIT("locks"),
                          .key = hf_test_item(&arena, "{\"key\":{\"S\":\"k\"}}"),
                          .update = hf_test_update(&arena, "ADD n :v", "{\":v\":{\"N\":\"1\"}}")};
}

static struct hf_answer run(struct hf_op op)
{
    struct hf_call call = {.op = op, .arena = &arena};
    hf__store_run(store, &call);
    return call.answer;
}

/* ---- several at once ---- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done;
} tally = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void count_done(struct hf_call *call)
{
    (void)call;
    pthread_mutex_lock(&tally.mutex);
    tally.done++;
    pthread_cond_signal(&tally.changed);
    pthread_mutex_unlock(&tally.mutex);
}

static void wait_done(int count)
{
    pthread_mutex_lock(&tally.mutex);
    while (tally.done < count) pthread_cond_wait(&tally.changed, &tally.mutex);
    pthread_mutex_unlock(&tally.mutex);
}

/* ---- trying again ---- */

TEST(a_read_is_tried_again_after_a_server_error)
{
    struct script script = {.count = 2};
    script.answers[0] =
        (struct hf_stub_answer){.status = 503, .body = "{\"__type\":\"x#ServiceUnavailable\"}"};
    strcpy(script.answers[1].body, "{\"Item\":{\"key\":{\"S\":\"k\"}}}");
    begin(&script);
    struct hf_answer answer = run(get());
    CHECK_INT(answer.code, 0);
    CHECK(answer.has_item && !answer.unavailable);
    CHECK_INT(answer.attempts, 2);
    CHECK(answer.first_sent_boot_us < answer.sent_boot_us);
    end();
}

TEST(attempts_end)
{
    struct script script = {.count = 1};
    script.answers[0] = (struct hf_stub_answer){.status = 503, .body = "busy"};
    begin(&script);
    struct hf_answer answer = run(get());
    CHECK_INT(answer.code, HF_ERR_STORE);
    CHECK_STR(answer.error.message,
              "no usable answer from the store: HTTP status 503: busy (GetItem, table locks)");
    CHECK_INT(answer.attempts, 4);
    CHECK(answer.unavailable);
    CHECK_INT(hf_stub_requests(stub), 4);
    struct hf_op once = get();
    once.attempts = 1;
    CHECK_INT(run(once).attempts, 1);
    end();
}

TEST(throttling_is_reported_as_such)
{
    struct script script = {.count = 1};
    script.answers[0] = (struct hf_stub_answer){
        .status = 400,
        .headers = "x-amzn-RequestId: REQ-42\r\n",
        .body =
            "{\"__type\":\"a#ProvisionedThroughputExceededException\",\"message\":\"slow down\"}"};
    begin(&script);
    struct hf_op op = put();
    op.attempts = 2;
    struct hf_answer answer = run(op);
    CHECK_INT(answer.code, HF_ERR_THROTTLED);
    CHECK_INT(answer.attempts, 2);
    CHECK_STR(answer.error.message, "slow down (PutItem, table locks, request id REQ-42)");
    CHECK_SLICE(answer.request_id, HF_LIT("REQ-42"));
    end();
}

TEST(refusals_are_not_tried_again)
{
    static const struct {
        const char *type;
        int code;
    } cases[] = {{"ValidationException", HF_ERR_VALIDATION},
                 {"ConditionalCheckFailedException", HF_ERR_CONDITION},
                 {"AccessDeniedException", HF_ERR_DENIED},
                 {"ResourceNotFoundException", HF_ERR_NO_TABLE},
                 {"UnrecognizedClientException", HF_ERR_DENIED},
                 {"ResourceInUseException", HF_ERR_TABLE_IN_USE}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct script script = {.count = 1};
        script.answers[0].status = 400;
        snprintf(script.answers[0].body, 200, "{\"__type\":\"a#%s\",\"message\":\"no\"}",
                 cases[i].type);
        begin(&script);
        hf_test_note("%s", cases[i].type);
        struct hf_answer answer = run(put());
        CHECK_INT(answer.code, cases[i].code);
        CHECK_INT(hf_stub_requests(stub), 1);
        end();
    }
}

TEST(the_bucket_stops_a_storm_of_retries)
{
    struct script script = {.count = 1};
    script.answers[0] = (struct hf_stub_answer){.status = 500, .body = "down"};
    begin(&script);
    int calls = 40;
    for (int i = 0; i < calls; i++) run(get());
    /* 500 tokens pay for 35 retries, whatever the number of calls. */
    CHECK_INT(hf_stub_requests(stub), calls + 500 / 14);
    end();
}

/* ---- what is not known ---- */

TEST(a_condition_that_fails_after_a_lost_answer_is_an_unknown_outcome)
{
    struct script script = {.count = 2};
    script.answers[0].action = HF_STUB_CUT;
    script.answers[1] = (struct hf_stub_answer){.status = 400, .body = CONDITION_FAILED};
    begin(&script);
    struct hf_answer answer = run(put());
    CHECK_INT(answer.code, HF_ERR_OUTCOME_UNKNOWN);
    CHECK_INT(answer.error.code, HF_ERR_OUTCOME_UNKNOWN);
    CHECK_INT(answer.attempts, 2);
    CHECK(answer.has_item);
    CHECK_SLICE(hf__item_get_str(answer.item, "owner")->bytes, HF_LIT("somebody"));
    end();
}

TEST(a_condition_that_fails_at_once_is_a_refusal)
{
    struct script script = {.count = 1};
    script.answers[0] = (struct hf_stub_answer){.status = 400, .body = CONDITION_FAILED};
    begin(&script);
    struct hf_answer answer = run(put());
    CHECK_INT(answer.code, HF_ERR_CONDITION);
    CHECK(answer.has_item);
    end();
}

TEST(counting_is_not_done_twice)
{
    static const struct hf_stub_answer mishaps[] = {
        {.action = HF_STUB_CUT},
        {.status = 500, .body = "{\"__type\":\"a#InternalServerError\"}"},
        {.status = 200, .headers = "x-amz-crc32: 1\r\n"},
        {.status = 200, .body = "not json"},
    };
    for (size_t i = 0; i < COUNT_OF(mishaps); i++) {
        struct script script = {.answers = {mishaps[i]}, .count = 2};
        begin(&script);
        hf_test_note("mishap %zu", i);
        struct hf_answer answer = run(count_up());
        CHECK_INT(answer.code, HF_ERR_OUTCOME_UNKNOWN);
        CHECK_INT(hf_stub_requests(stub), 1);
        end();
    }
}

TEST(nothing_is_sent_again_behind_our_back)
{
    /* The second request goes out on the kept connection, which the server then cuts. */
    struct script script = {.count = 3};
    script.answers[1].action = HF_STUB_CUT;
    begin(&script);
    CHECK_INT(run(get()).code, 0);
    struct hf_answer answer = run(count_up());
    CHECK_INT(answer.code, HF_ERR_OUTCOME_UNKNOWN);
    CHECK_INT(hf_stub_requests(stub), 2);
    end();
}

TEST(a_time_out_of_a_write_is_unknown_and_of_a_read_is_not)
{
    struct script script = {.count = 1};
    script.answers[0].delay_ms = 1500;
    begin(&script);
    struct hf_op write = put(), read = get();
    write.timeout_ms = read.timeout_ms = 100;
    write.attempts = read.attempts = 1;
    CHECK_INT(run(write).code, HF_ERR_OUTCOME_UNKNOWN);
    CHECK_INT(run(read).code, HF_ERR_UNREACHABLE);
    end();
}

TEST(a_damaged_answer_is_asked_for_again)
{
    struct script script = {.count = 2};
    static const char good[] = "{\"Item\":{\"key\":{\"S\":\"k\"}}}";
    script.answers[0] = (struct hf_stub_answer){.headers = "x-amz-crc32: 12345\r\n"};
    strcpy(script.answers[0].body, good);
    strcpy(script.answers[1].body, good);
    snprintf(script.answers[1].headers, 100, "x-amz-crc32: %u\r\n", hf__crc32(good, strlen(good)));
    begin(&script);
    struct hf_answer answer = run(get());
    CHECK_INT(answer.code, 0);
    CHECK_INT(answer.attempts, 2);
    end();
}

TEST(nonsense_is_no_answer)
{
    static const char *const nonsense[] = {"not json", "[]", "{\"Item\":{\"a\":{\"N\":\"x\"}}}",
                                           "{\"Item\":5}", "{\"Item\":{},\"Item\":{}}"};
    for (size_t i = 0; i < COUNT_OF(nonsense); i++) {
        struct script script = {.count = 1};
        strcpy(script.answers[0].body, nonsense[i]);
        begin(&script);
        hf_test_note("%s", nonsense[i]);
        CHECK_INT(run(get()).code, HF_ERR_BAD_ANSWER);
        struct hf_op write = put();
        write.attempts = 1;
        CHECK_INT(run(write).code, HF_ERR_OUTCOME_UNKNOWN);
        end();
    }
}

TEST(a_server_that_is_not_there_is_named)
{
    struct hf_store_options options = {.environment = environment};
    struct script script = {.count = 1};
    stub = hf_stub_start(play, &script, false);
    char url[64];
    snprintf(url, sizeof url, "%s", hf_stub_url(stub));
    hf_stub_stop(stub);
    store = open_at(url, &options);
    struct hf_answer answer = run(put());
    CHECK_INT(answer.code, HF_ERR_UNREACHABLE);
    CHECK_INT(answer.attempts, 4);
    CHECK(strstr(answer.error.message, url) != NULL);
    hf__store_close(store);
    hf__arena_free(&arena);
}

TEST(the_first_unknown_outcome_is_not_forgotten)
{
    /* Lost, then the server is refused with a plain validation error: still nobody knows. */
    struct script script = {.count = 2};
    script.answers[0].action = HF_STUB_CUT;
    script.answers[1] =
        (struct hf_stub_answer){.status = 400, .body = "{\"__type\":\"a#ValidationException\"}"};
    begin(&script);
    CHECK_INT(run(put()).code, HF_ERR_OUTCOME_UNKNOWN);
    end();
}

/* ---- signatures and clocks ---- */

static bool test_secret(void *user, struct hf_slice id, struct hf_slice *ret)
{
    (void)user;
    *ret = HF_LIT("secret");
    return hf__slice_is(id, "AKIDTEST");
}

/* Verifies each request as the DynamoDB endpoint would. */
static void verify(void *user, const struct hf_stub_request *request, struct hf_stub_answer *answer)
{
    struct hf_header headers[32];
    size_t count = 0;
    struct hf_error error = {0};
    char *lines = strdup(request->headers), *save = NULL;
    for (char *line = strtok_r(lines, "\n", &save); line && count < 32;
         line = strtok_r(NULL, "\n", &save)) {
        char *colon = strchr(line, ':');
        *colon = '\0';
        headers[count++] = (struct hf_header){hf__slice_str(line), hf__slice_str(colon + 2)};
    }
    struct hf_sigv4_request signed_request = {.method = hf__slice_str(request->method),
                                              .path = hf__slice_str(request->target),
                                              .headers = headers,
                                              .header_count = count,
                                              .body = request->body};
    const struct hf_sigv4_check check = {
        HF_LIT("dynamodb"), hf__clock_wall_us(&hf__clock_system) / 1000000, test_secret, NULL};
    struct hf_sigv4_verdict verdict;
    int code = hf__sigv4_verify(&signed_request, &check, &verdict, &error);
    *(int *)user += code == 0;
    strcpy(answer->body, "{}");
    free(lines);
}

TEST(requests_are_signed_so_that_a_server_can_verify_them)
{
    int verified = 0;
    struct hf_store_options options = {.environment = environment};
    stub = hf_stub_start(verify, &verified, false);
    store = open_at(hf_stub_url(stub), &options);
    CHECK_INT(run(get()).code, 0);
    CHECK_INT(run(put()).code, 0);
    end();
    CHECK_INT(verified, 2);
}

static void keep_line(void *user, enum hf_log_level level, const char *line)
{
    if (level == HF_LOG_WARN) snprintf(user, 256, "%s", line);
}

TEST(what_went_wrong_quietly_is_logged)
{
    struct script script = {.count = 2};
    char line[256] = "";
    struct hf_store_options options = {.environment = environment,
                                       .log = {.fn = keep_line, .user = line}};
    snprintf(script.answers[0].headers, 100, "Date: Thu, 01 Jan 2032 00:00:00 GMT\r\n");
    snprintf(script.answers[1].headers, 100, "Date: Thu, 01 Jan 2037 00:00:00 GMT\r\n");
    stub = hf_stub_start(play, &script, false);
    store = open_at(hf_stub_url(stub), &options);
    CHECK_INT(run(get()).code, 0);
    CHECK_STR(line, "");
    CHECK_INT(run(get()).code, 0);
    hf__store_close(store);
    CHECK_STR(line, "the store's clock jumped; measuring its time again");
    line[0] = '\0';
    options.log.least = HF_LOG_ERROR; /* less is said */
    store = open_at(hf_stub_url(stub), &options);
    script.answers[1].headers[19] = '1';
    run(get());
    end();
    CHECK_STR(line, "");
}

TEST(a_wrong_clock_is_corrected_by_the_stores_date)
{
    struct script script = {.count = 2};
    script.answers[0] = (struct hf_stub_answer){
        .status = 400,
        .headers = "Date: Thu, 01 Jan 2032 00:00:00 GMT\r\n",
        .body =
            "{\"__type\":\"a#InvalidSignatureException\",\"message\":\"Signature expired: …\"}"};
    begin(&script);
    struct hf_answer answer = run(get());
    CHECK_INT(answer.code, 0);
    CHECK_INT(answer.attempts, 2);
    CHECK(strncmp(script.last_date, "20320101T0000", 13) == 0);
    CHECK(strcmp(script.first_date, script.last_date) != 0);
    end();
}

static void wrong_clock_server(void *user, const struct hf_stub_request *request,
                               struct hf_stub_answer *answer)
{
    (void)user;
    snprintf(answer->headers, sizeof answer->headers, "Date: Thu, 01 Jan 2032 00:00:00 GMT\r\n");
    snprintf(answer->body, sizeof answer->body, "{}");
    if (strncmp(hf_stub_header(request, "x-amz-date"), "20320101", 8) == 0) return;
    answer->status = 400;
    answer->delay_ms = 20; /* so that all are on their way before the first is corrected */
    snprintf(answer->body, sizeof answer->body, "{\"__type\":\"a#InvalidSignatureException\"}");
}

TEST(a_wrong_clock_is_corrected_for_all_that_are_in_flight)
{
    enum { CALLS = 8 };
    static struct hf_call calls[CALLS];
    static struct hf_arena arenas[CALLS];
    struct hf_store_options options = {.environment = environment, .request_timeout_ms = 5000};
    stub = hf_stub_start(wrong_clock_server, NULL, false);
    store = open_at(hf_stub_url(stub), &options);
    tally.done = 0;
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct hf_call){.op = get(), .arena = &arenas[i], .done = count_done};
        hf__store_submit(store, &calls[i]);
    }
    wait_done(CALLS);
    for (int i = 0; i < CALLS; i++) {
        CHECK_INT(calls[i].answer.code, 0);
        hf__arena_free(&arenas[i]);
    }
    end();
}

/* Gives out credentials at /creds, and takes only the second ones for good. */
static void expiring_server(void *user, const struct hf_stub_request *request,
                            struct hf_stub_answer *answer)
{
    int *given = user;
    snprintf(answer->body, sizeof answer->body, "{}");
    if (strcmp(request->target, "/creds") == 0) {
        ++*given;
        if (*given > 1) answer->delay_ms = 100; /* fresh ones take a while */
        snprintf(
            answer->body, sizeof answer->body,
            "{\"AccessKeyId\":\"KEY%d\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":"
            "\"2099-01-01T00:00:00Z\"}",
            *given);
    } else if (strstr(hf_stub_header(request, "authorization"), "Credential=KEY1/")) {
        answer->status = 400;
        snprintf(answer->body, sizeof answer->body, "{\"__type\":\"a#ExpiredTokenException\"}");
    }
}

TEST(credentials_that_the_server_calls_expired_are_replaced)
{
    int given = 0;
    char uri[100];
    stub = hf_stub_start(expiring_server, &given, false);
    snprintf(uri, sizeof uri, "%s/creds", hf_stub_url(stub));
    const char *pairs[] = {"AWS_CONTAINER_CREDENTIALS_FULL_URI",
                           uri,
                           "AWS_EC2_METADATA_DISABLED",
                           "true",
                           "AWS_CONFIG_FILE",
                           "/nonexistent",
                           "AWS_SHARED_CREDENTIALS_FILE",
                           "/nonexistent",
                           NULL,
                           NULL};
    struct hf_store_options options = {.environment = pairs, .request_timeout_ms = 5000};
    store = open_at(hf_stub_url(stub), &options);
    struct hf_answer answer = run(get());
    CHECK_INT(answer.code, 0);
    CHECK_INT(answer.attempts, 2);
    CHECK_INT(given, 2);
    end();
}

TEST(a_wrong_signature_with_a_right_clock_is_denied)
{
    struct script script = {.count = 1};
    script.answers[0] = (struct hf_stub_answer){
        .status = 400, .body = "{\"__type\":\"a#InvalidSignatureException\",\"message\":\"no\"}"};
    begin(&script);
    CHECK_INT(run(get()).code, HF_ERR_DENIED);
    CHECK_INT(hf_stub_requests(stub), 1);
    end();
}

TEST(store_time_is_learnt_from_the_date)
{
    struct script script = {.count = 1};
    strcpy(script.answers[0].headers, "Date: Thu, 01 Jan 2032 00:00:10 GMT\r\n");
    begin(&script);
    struct hf_answer answer = run(get());
    int64_t date_us = 1956528010LL * 1000000;
    CHECK(answer.store.known);
    CHECK(answer.store.lo_unix_us <= date_us + 500000 &&
          answer.store.hi_unix_us >= date_us + 999999);
    CHECK(answer.store.hi_unix_us - answer.store.lo_unix_us < 3000000);
    end();
}

TEST(without_a_date_the_time_is_not_known)
{
    struct script script = {.count = 1};
    begin(&script);
    CHECK(!run(get()).store.known);
    end();
}

/* ---- many, cancelled, proxied, encrypted ---- */

TEST(a_call_in_flight_can_be_cancelled)
{
    struct script script = {.count = 1};
    struct hf_arena arenas[2] = {0};
    script.answers[0].delay_ms = 2000;
    begin(&script);
    tally.done = 0;
    struct hf_call read = {.op = get(), .arena = &arenas[0], .done = count_done};
    struct hf_call write = {.op = put(), .arena = &arenas[1], .done = count_done};
    hf__store_submit(store, &read);
    hf__store_submit(store, &write);
    while (hf_stub_requests(stub) < 1) usleep(1000); /* at least one has arrived */
    int64_t before = hf__clock_boot_us(&hf__clock_system);
    hf__store_cancel(store, read.id);
    hf__store_cancel(store, write.id);
    wait_done(2);
    CHECK(hf__clock_boot_us(&hf__clock_system) - before < 1500000);
    CHECK_INT(read.answer.code, HF_ERR_CANCELLED);
    CHECK(write.answer.code == HF_ERR_OUTCOME_UNKNOWN || write.answer.code == HF_ERR_CANCELLED);
    hf__arena_free(&arenas[0]);
    hf__arena_free(&arenas[1]);
    end();
}

/* ---- clients that come and go ---- */

/*
 * A server in a process of its own. In ours it would be given descriptors that are still watched:
 * before 8.2 libcurl closes the socket of a connection that is being made, and says so afterwards.
 * TSan takes that for a race.
 */
struct elsewhere {
    pid_t pid;
    int life; /* it ends when this is closed */
    char url[64];
};

static void serve_elsewhere(int url_to, int life)
{
    struct script script = {.count = 1};
    char nothing;
    struct hf_stub *server = hf_stub_start(play, &script, false);
    const char *url = hf_stub_url(server);
    bool told = write(url_to, url, strlen(url) + 1) > 0;
    bool ended = read(life, &nothing, 1) == 0;
    hf_stub_stop(server);
    _exit(told && ended ? 0 : 1);
}

static void start_elsewhere(struct elsewhere *ret)
{
    int url[2], life[2];
    *ret = (struct elsewhere){0};
    CHECK(pipe(url) == 0 && pipe(life) == 0);
    ret->pid = fork();
    CHECK(ret->pid >= 0);
    if (ret->pid == 0) {
        close(life[1]);
        serve_elsewhere(url[1], life[0]);
    }
    close(url[1]);
    close(life[0]);
    ret->life = life[1];
    CHECK(read(url[0], ret->url, sizeof ret->url - 1) > 0);
    close(url[0]);
}

static int stop_elsewhere(const struct elsewhere *server)
{
    int status = -1;
    close(server->life);
    waitpid(server->pid, &status, 0);
    return status;
}

/*
 * A client, on a thread of its own. Checks are for the main thread, so it only counts. What it has
 * given to the store must stay until that is closed, even if it never comes back: it is static.
 */
enum { COMERS = 3, ROUNDS = 150, CALLS_OF_ONE = 8, ROUNDS_MS = 1000, ANSWER_MS = 15000 };

static struct comer {
    pthread_t thread;
    bool cancels;
    struct hf_op op;
    struct hf_call calls[CALLS_OF_ONE];
    struct hf_arena arenas[CALLS_OF_ONE];
    int done; /* atomic */
    int rounds;
    int wrong;
    int missing;
} comers[COMERS];

static int64_t now_ms(void)
{
    return hf__clock_boot_us(&hf__clock_system) / 1000;
}

static void count_for_comer(struct hf_call *call)
{
    struct comer *comer = call->user;
    __atomic_add_fetch(&comer->done, 1, __ATOMIC_RELEASE);
}

static void run_round(struct comer *comer)
{
    uint64_t ids[CALLS_OF_ONE];
    bool at_once = comer->rounds % 2; /* or when all are on their way */
    __atomic_store_n(&comer->done, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < CALLS_OF_ONE; i++) {
        comer->calls[i] = (struct hf_call){
            .op = comer->op, .arena = &comer->arenas[i], .done = count_for_comer, .user = comer};
        ids[i] = hf__store_submit(store, &comer->calls[i]);
        if (comer->cancels && at_once) hf__store_cancel(store, ids[i]);
    }
    for (int i = 0; i < CALLS_OF_ONE && comer->cancels && !at_once; i++)
        hf__store_cancel(store, ids[i]);
    int64_t end_ms = now_ms() + ANSWER_MS;
    int done;
    while ((done = __atomic_load_n(&comer->done, __ATOMIC_ACQUIRE)) < CALLS_OF_ONE &&
           now_ms() < end_ms)
        usleep(100);
    comer->missing = CALLS_OF_ONE - done;
    for (int i = 0; i < CALLS_OF_ONE && !comer->missing; i++) {
        int code = comer->calls[i].answer.code;
        comer->wrong += code != 0 && !(comer->cancels && code == HF_ERR_CANCELLED);
        hf__arena_free(&comer->arenas[i]);
    }
}

static void *come_and_go(void *user)
{
    struct comer *comer = user;
    int64_t end_ms = now_ms() + ROUNDS_MS;
    while (comer->rounds < ROUNDS && !comer->missing && now_ms() < end_ms) {
        run_round(comer);
        comer->rounds++;
    }
    return NULL;
}

TEST(clients_come_and_go_on_one_store)
{
    struct hf_store_options options = {.environment = environment,
                                       .request_timeout_ms = ANSWER_MS / 2,
                                       .connect_timeout_ms = ANSWER_MS / 2};
    struct elsewhere server;
    struct hf_op op = get();
    op.attempts = 1; /* a second one would hide that the first was forgotten */
    start_elsewhere(&server);
    alarm(30); /* whatever hangs */
    store = open_at(server.url, &options);
    int started = 0;
    for (; started < COMERS; started++) {
        struct comer *comer = &comers[started];
        *comer = (struct comer){.op = op, .cancels = started != 1}; /* one of them stays */
        if (pthread_create(&comer->thread, NULL, come_and_go, comer) != 0) break;
    }
    for (int i = 0; i < started; i++) pthread_join(comers[i].thread, NULL);
    hf__store_close(store);
    int status = stop_elsewhere(&server);
    alarm(0);
    hf__arena_free(&arena);
    CHECK_INT(status, 0);
    CHECK_INT(started, COMERS);
    for (int i = 0; i < COMERS; i++) {
        hf_test_note("client %d, after %d rounds", i, comers[i].rounds);
        CHECK_INT(comers[i].missing, 0);
        CHECK_INT(comers[i].wrong, 0);
        CHECK(comers[i].rounds > 0);
    }
}

/* A listener that answers nobody: its queue is full. */
static int full_listener(struct sockaddr_in *ret, int fillers[3])
{
    socklen_t size = sizeof *ret;
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)ret, sizeof *ret) == 0 && listen(fd, 0) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)ret, &size) == 0);
    for (int i = 0; i < 3; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(fillers[i], (struct sockaddr *)ret, sizeof *ret);
    }
    return fd;
}

static int64_t cpu_ms(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

/*
 * A child that was forked while a connection was being made has its socket, too. Closing ours is
 * not enough to unwatch it then: the loop would be woken for ever, for what it has forgotten.
 */
TEST(a_fork_while_a_connection_is_made_does_no_harm)
{
    struct hf_store_options options = {
        .environment = environment, .request_timeout_ms = 1000, .connect_timeout_ms = 1000};
    struct hf_arena own = {0};
    struct hf_op op = get();
    struct sockaddr_in address;
    int fillers[3];
    char url[64];
    int listener = full_listener(&address, fillers);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    store = open_at(url, &options);
    op.attempts = 1;
    tally.done = 0;
    struct hf_call call = {.op = op, .arena = &own, .done = count_done};
    hf__store_submit(store, &call);
    usleep(300000); /* it is being made */
    pid_t child = fork();
    if (child == 0) {
        close(listener);
        sleep(20);
        _exit(0);
    }
    wait_done(1);
    close(listener); /* who asks again, as the kernel does after 1 s and 3 s, is refused */
    int64_t most = 0;
    for (int i = 0; i < 5; i++) {
        int64_t before = cpu_ms();
        usleep(1000000);
        int64_t used = cpu_ms() - before;
        if (used > most) most = used;
    }
    int code = call.answer.code;
    hf__store_close(store);
    if (child > 0) kill(child, SIGKILL);
    if (child > 0) waitpid(child, NULL, 0);
    for (int i = 0; i < 3; i++) close(fillers[i]);
    hf__arena_free(&own);
    hf__arena_free(&arena);
    CHECK(child > 0);
    CHECK_INT(code, HF_ERR_UNREACHABLE);
    if (most > 500) hf_test_fail(__FILE__, __LINE__, "%d ms of work in a second", (int)most);
}

TEST(connections_are_kept_and_shared)
{
    enum { CALLS = 300 };
    static struct hf_call calls[CALLS];
    static struct hf_arena arenas[CALLS];
    struct script script = {.count = 1};
    begin_with(&script, 60000); /* 300 at once take their time under valgrind */
    tally.done = 0;
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct hf_call){.op = get(), .arena = &arenas[i], .done = count_done};
        hf__store_submit(store, &calls[i]);
    }
    wait_done(CALLS);
    for (int i = 0; i < CALLS; i++) {
        CHECK_INT(calls[i].answer.code, 0);
        hf__arena_free(&arenas[i]);
    }
    for (int i = 0; i < 20; i++) run(get());
    CHECK_INT(hf_stub_requests(stub), CALLS + 20);
    end();
}

static void remember_target(void *user, const struct hf_stub_request *request,
                            struct hf_stub_answer *answer)
{
    snprintf(user, 200, "%s", request->target);
    strcpy(answer->body, "{}");
}

TEST(proxies_of_the_environment_are_used)
{
    char target[200] = "";
    struct hf_store_options options = {.environment = environment};
    stub = hf_stub_start(remember_target, target, false);
    setenv("http_proxy", hf_stub_url(stub), 1);
    store = open_at("http://dynamodb.invalid", &options);
    CHECK_INT(run(get()).code, 0);
    unsetenv("http_proxy");
    CHECK_STR(target, "http://dynamodb.invalid/");
    end();
    struct script script = {.count = 1};
    setenv("http_proxy", "http://127.0.0.1:1", 1); /* a proxy that is not there, */
    setenv("no_proxy", "127.0.0.1", 1);            /* and not to be asked */
    begin(&script);
    CHECK_INT(run(get()).code, 0);
    end();
    unsetenv("http_proxy");
    unsetenv("no_proxy");
}

TEST(a_server_with_a_certificate_of_its_own_is_not_trusted)
{
    struct script script = {.count = 1};
    struct hf_store_options options = {
        .environment = environment, .request_timeout_ms = 20000, .connect_timeout_ms = 20000};
    stub = hf_stub_start(play, &script, true);
    store = open_at(hf_stub_url(stub), &options);
    struct hf_op op = put();
    op.attempts = 1;
    struct hf_answer answer = run(op);
    CHECK_INT(answer.code, HF_ERR_UNREACHABLE);
    CHECK_INT(hf_stub_requests(stub), 0);
    CHECK(strstr(answer.error.message, "certificate") != NULL);
    end();
}

TEST(a_certificate_in_aws_ca_bundle_is_trusted)
{
    struct script script = {.count = 1};
    stub = hf_stub_start(play, &script, true);
    const char *trusting[] = {"AWS_ACCESS_KEY_ID",
                              "A",
                              "AWS_SECRET_ACCESS_KEY",
                              "s",
                              "AWS_EC2_METADATA_DISABLED",
                              "true",
                              "AWS_CA_BUNDLE",
                              hf_stub_certificate(stub),
                              NULL,
                              NULL};
    struct hf_store_options options = {
        .environment = trusting, .request_timeout_ms = 20000, .connect_timeout_ms = 20000};
    store = open_at(hf_stub_url(stub), &options);
    struct hf_answer answer = run(put());
    if (answer.code != 0) hf_test_fail(__FILE__, __LINE__, "%s", answer.error.message);
    end();
}

TEST(store_urls_are_checked)
{
    static const char *const bad[] = {
        "dynamodb://locks?regoin=x",
        "dynamodb://locks?region=a&region=b",
        "dynamodb://locks?endpoint=ftp://x",
        "dynamodb://a",
        "nonsense:",
        "file:",
        "memory:x",
        "dynamodb://locks?region=a/b",
        "dynamodb://locks?region=EU",
        "dynamodb://lo%zzcks",
        "dynamodb://locks?endpoint=http://",
        "dynamodb://locks?endpoint=http://user@host",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct hf_error error = {0};
        struct hf_store *none = NULL;
        struct hf_store_options options = {.environment = environment};
        hf_test_note("%s", bad[i]);
        CHECK(hf__store_open(bad[i], &options, &none, &error) != 0);
        CHECK(none == NULL && error.message[0]);
    }
}

static void open_and_ask(void)
{
    struct hf_store_options options = {.environment = environment, .request_timeout_ms = 2000};
    char url[256];
    struct hf_error error;
    struct hf_arena mine = {0};
    struct hf_store *opened = NULL;
    struct hf_attr key = {HF_LIT("key"), hf__s_str("k")};
    snprintf(url, sizeof url, "dynamodb://locks?region=us-east-1&endpoint=%s", hf_stub_url(stub));
    int code = hf__store_open(url, &options, &opened, &error);
    if (code == 0) {
        struct hf_call call = {.arena = &mine};
        call.op = (struct hf_op){
            .kind = HF_GET_ITEM, .table = HF_LIT("locks"), .key = {&key, 1}, .attempts = 1};
        code = hf__store_run(opened, &call);
        hf__store_close(opened);
    }
    if (!hf_alloc_has_failed()) CHECK_INT(code, 0);
    hf__arena_free(&mine);
}

TEST(survives_want_of_memory)
{
    struct script script = {.count = 1};
    stub = hf_stub_start(play, &script, false);
    CHECK(hf_test_torture(open_and_ask) > 10);
    hf_stub_stop(stub);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(a_read_is_tried_again_after_a_server_error),
        RUN(attempts_end),
        RUN(throttling_is_reported_as_such),
        RUN(refusals_are_not_tried_again),
        RUN(the_bucket_stops_a_storm_of_retries),
        RUN(a_condition_that_fails_after_a_lost_answer_is_an_unknown_outcome),
        RUN(a_condition_that_fails_at_once_is_a_refusal),
        RUN(counting_is_not_done_twice),
        RUN(nothing_is_sent_again_behind_our_back),
        RUN(a_time_out_of_a_write_is_unknown_and_of_a_read_is_not),
        RUN(a_damaged_answer_is_asked_for_again),
        RUN(nonsense_is_no_answer),
        RUN(a_server_that_is_not_there_is_named),
        RUN(the_first_unknown_outcome_is_not_forgotten),
        RUN(requests_are_signed_so_that_a_server_can_verify_them),
        RUN(what_went_wrong_quietly_is_logged),
        RUN(a_wrong_clock_is_corrected_by_the_stores_date),
        RUN(a_wrong_clock_is_corrected_for_all_that_are_in_flight),
        RUN(credentials_that_the_server_calls_expired_are_replaced),
        RUN(a_wrong_signature_with_a_right_clock_is_denied),
        RUN(store_time_is_learnt_from_the_date),
        RUN(without_a_date_the_time_is_not_known),
        RUN(a_call_in_flight_can_be_cancelled),
        RUN(clients_come_and_go_on_one_store),
        RUN(a_fork_while_a_connection_is_made_does_no_harm),
        RUN(connections_are_kept_and_shared),
        RUN(proxies_of_the_environment_are_used),
        RUN(a_server_with_a_certificate_of_its_own_is_not_trusted),
        RUN(a_certificate_in_aws_ca_bundle_is_trusted),
        RUN(store_urls_are_checked),
        RUN(survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
