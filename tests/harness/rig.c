#include "harness/rig.h"

#include "base/alloc.h"
#include "harness/model.h"

#define EPOCH_US ((int64_t)1790000000 * 1000000)

static uint64_t next_random(void *user)
{
    struct hf_rng rng = {*(uint64_t *)user};
    uint64_t value = hf_rng_next(&rng);
    *(uint64_t *)user = rng.state;
    return value;
}

void rig_init(struct rig *rig)
{
    memset(rig, 0, sizeof *rig);
    rig->now_us = 1000000;
    rig->random = 42;
}

struct hf_core_options rig_defaults(void)
{
    return (struct hf_core_options){
        .format = &hf__format_holdfast,
        .layout = {.table = HF_LIT("locks"), .key_name = HF_LIT("key"), .keep_s = 86400},
        .owner = HF_LIT("tester"),
        .lease_ms = 10000,
        .period_ms = 2500,
        .warn_ms = 6000,
        .request_timeout_ms = 1000,
        .poll_limit_ms = 1000,
        .skew_ms = 1000,
        .margin_per_mille = 10,
        .session = HF_USE_SESSION_NEVER,
        .own_leases = 4,
    };
}

int rig_add(struct rig *rig, const struct hf_core_options *given)
{
    struct hf_core_options options = given ? *given : rig_defaults();
    options.draw = next_random;
    options.draw_user = &rig->random;
    struct rig_client *client = &rig->clients[rig->client_count];
    client->core = hf__core_new(&options);
    if (!client->core) return -1;
    return rig->client_count++;
}

/* ---- the table ---- */

static struct rig_cell **find(struct rig *rig, struct hf_slice key)
{
    size_t hash = 5381;
    for (size_t i = 0; i < key.len; i++) hash = hash * 33 + (unsigned char)key.ptr[i];
    struct rig_cell **at = &rig->cells[hash % RIG_BUCKETS];
    while (*at && !hf__slice_eq(hf__slice((*at)->key, (*at)->key_len), key)) at = &(*at)->next;
    return at;
}

static void drop(struct rig_cell **at)
{
    struct rig_cell *cell = *at;
    if (!cell) return;
    *at = cell->next;
    hf__arena_free(&cell->arena);
    hf__free(cell);
}

static bool put(struct rig *rig, struct hf_slice key, struct hf_item item)
{
    struct rig_cell *cell = hf__calloc(1, sizeof *cell + key.len + 1);
    if (!cell) return false;
    memcpy(cell->key, key.ptr, key.len);
    cell->key_len = key.len;
    cell->item = hf__item_copy(&cell->arena, item);
    if (cell->arena.failed) {
        hf__arena_free(&cell->arena);
        hf__free(cell);
        return false;
    }
    struct rig_cell **at = find(rig, key);
    drop(at);
    cell->next = *at;
    *at = cell;
    return true;
}

void rig_put(struct rig *rig, const char *key, const char *json)
{
    struct hf_arena arena = {0};
    struct hf_value value = hf__s_str(key);
    if (!json) drop(find(rig, hf__slice_str(key)));
    else
        put(rig, hf__slice_str(key),
            hf__item_with(&arena, hf_test_item(&arena, json), HF_LIT("key"), &value));
    hf__arena_free(&arena);
}

const char *rig_show(struct rig *rig, struct hf_arena *arena, const char *key)
{
    struct rig_cell **at = find(rig, hf__slice_str(key));
    return *at ? hf_test_show(arena, (*at)->item) : "";
}

static void apply(struct rig *rig, const struct hf_op *op, struct hf_arena *arena,
                  struct hf_answer *answer)
{
    bool whole = op->kind == HF_PUT_ITEM;
    struct hf_slice key = hf__item_get_str(whole ? op->item : op->key, "key")->bytes;
    struct rig_cell *cell = *find(rig, key);
    struct hf_item old = cell ? hf__item_copy(arena, cell->item) : (struct hf_item){0};
    if (op->kind == HF_GET_ITEM) {
        CHECK(op->consistent);
        answer->has_item = cell;
        answer->item = old;
        return;
    }
    CHECK(op->condition);
    if (!hf__condition_holds(op->condition, old)) {
        answer->code = hf__error_set(&answer->error, HF_ERR_CONDITION, "refused");
        answer->has_item = cell && op->old_on_failure;
        answer->item = old;
        return;
    }
    if (op->kind == HF_DELETE_ITEM) {
        drop(find(rig, key));
        return;
    }
    if (whole) {
        if (!put(rig, key, op->item)) answer->code = hf__error_no_memory(&answer->error);
        return;
    }
    struct hf_item updated;
    answer->code =
        hf__update_apply(arena, op->update, cell ? old : op->key, &updated, &answer->error);
    if (answer->code == 0 && (arena->failed || !put(rig, key, updated)))
        answer->code = hf__error_no_memory(&answer->error);
    if (answer->code == 0 && op->returns == HF_RETURN_ALL_NEW) {
        answer->has_item = true;
        answer->item = updated;
    }
}

/* ---- driving ---- */

static void answer(struct rig *rig, struct rig_client *client, struct hf_request *request)
{
    struct hf_answer result = {0};
    client->requests[request->kind]++;
    client->total++;
    if (request->arena.failed) result.code = hf__error_no_memory(&result.error);
    else if (client->cut_off || client->turned_away)
        result.code = hf__error_set(&result.error, HF_ERR_OUTCOME_UNKNOWN, "cut off");
    else if (client->bereft)
        result.code = hf__error_set(&result.error, HF_ERR_DAMAGED, "the file was deleted");
    else apply(rig, &request->op, &request->arena, &result);
    if (result.code == 0 && request->arena.failed) result.code = HF_ERR_OUTCOME_UNKNOWN;
    result.unavailable = client->turned_away;
    result.received_boot_us = rig->now_us;
    if (!rig->timeless && !client->cut_off)
        result.store = (struct hf_interval){true, EPOCH_US + rig->now_us, EPOCH_US + rig->now_us};
    hf__core_answer(client->core, request, &result, rig->now_us);
}

static bool collect(struct rig *rig, struct rig_client *client)
{
    struct hf_core *core = client->core;
    struct hf_attempt *attempt;
    struct hf_grant *grant;
    struct hf_job *job;
    bool any = false;
    int which;
    while ((attempt = hf__core_next_finished(core))) {
        client->finished++;
        client->last_code = attempt->code;
        client->last_error = attempt->error;
        client->last_grant = attempt->code == 0 ? attempt->grant : NULL;
        hf__attempt_free(core, attempt);
        any = true;
    }
    while ((grant = hf__core_next_event(core, &which))) {
        any = true;
        if (which == HF_EVENT_IS_WARNING) {
            client->warnings++;
            continue;
        }
        client->finals++;
        client->last_reason = (enum hf_reason)grant->reason;
        snprintf(client->last_detail, sizeof client->last_detail, "%s",
                 grant->detail ? grant->detail : "");
        hf__grant_free(core, grant);
    }
    struct hf_report report;
    while (hf__core_next_report(core, rig->now_us, &report)) {
        client->reports++;
        client->last_report = report;
        snprintf(client->last_owner, sizeof client->last_owner, "%.*s", HF_FMT(report.owner));
    }
    while ((job = hf__core_next_job(core))) {
        client->jobs++;
        client->last_job = job->code;
        any = true;
    }
    return any;
}

void rig_settle(struct rig *rig)
{
    for (int rounds = 0; rounds < 100000; rounds++) {
        bool any = false;
        for (int i = 0; i < rig->client_count; i++) {
            struct rig_client *client = &rig->clients[i];
            if (client->dead) continue;
            struct hf_request *request;
            any |= collect(rig, client);
            if ((request = hf__core_next_request(client->core))) {
                answer(rig, client, request);
                any = true;
            }
        }
        if (!any) return;
    }
    hf_test_fail(__FILE__, __LINE__, "it does not settle");
}

void rig_run(struct rig *rig, int64_t ms)
{
    int64_t end_us = rig->now_us + ms * 1000;
    rig_settle(rig);
    for (;;) {
        int64_t next_us = HF_NEVER;
        for (int i = 0; i < rig->client_count; i++) {
            if (rig->clients[i].dead) continue;
            int64_t at_us = hf__core_next_us(rig->clients[i].core);
            if (at_us < next_us) next_us = at_us;
        }
        if (next_us > end_us) break;
        if (next_us > rig->now_us) rig->now_us = next_us;
        for (int i = 0; i < rig->client_count; i++) {
            if (!rig->clients[i].dead) hf__core_tick(rig->clients[i].core, rig->now_us);
        }
        rig_settle(rig);
    }
    rig->now_us = end_us;
}

int rig_acquire(struct rig *rig, int client, const char *name, int64_t timeout_ms, int64_t limit)
{
    struct hf_want want = {.name = hf__slice_str(name), .timeout_ms = timeout_ms, .limit = limit};
    struct hf_attempt *attempt;
    rig->clients[client].last_code = 1; /* no result yet */
    rig->clients[client].last_grant = NULL;
    return hf__core_acquire(rig->clients[client].core, &want, rig->now_us, &attempt, NULL);
}

void rig_release(struct rig *rig, int client, struct hf_grant *grant)
{
    const struct hf_release how = {.reason = HF_REASON_RELEASED};
    hf__core_release(rig->clients[client].core, grant, &how, rig->now_us);
}

void rig_forget_counts(struct rig *rig, int client)
{
    memset(rig->clients[client].requests, 0, sizeof rig->clients[client].requests);
    rig->clients[client].total = 0;
}

void rig_free(struct rig *rig)
{
    for (int i = 0; i < rig->client_count; i++) {
        struct rig_client *client = &rig->clients[i];
        client->dead = client->cut_off = false;
        hf__core_close(client->core, 1000, rig->now_us);
    }
    rig_run(rig, 5000);
    for (int i = 0; i < rig->client_count; i++) {
        struct rig_client *client = &rig->clients[i];
        CHECK(client->core->closed);
        CHECK_INT(client->core->outstanding, 0);
        CHECK_INT(client->core->grant_count, 0);
        hf__core_free(client->core);
    }
    for (size_t i = 0; i < RIG_BUCKETS; i++) {
        while (rig->cells[i]) drop(&rig->cells[i]);
    }
}
