/*
 * Grants without a process: a lock that one process has taken, and that another one renews or
 * releases by its grant. Every call reads the record, checks that the grant still holds it, and
 * writes on that.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "client/behalf.h"
#include "format/format.h"

enum { TRIES = 8 }; /* readers come and go */

/* "NAME#grant"; of a shared lock "NAME#s" and the grant. */
int hf_lock_grant(const struct hf_lock *lock, char ret[HF_GRANT_SIZE], struct hf_error *reterr)
{
    struct hf_client *client = lock->client;
    char id[HF_GRANT_TEXT + 1];
    int code = hf__client_enter(client, reterr);
    if (code != 0) return code;
    const struct hf_grant *grant = lock->grant;
    if (grant->state != HF_GRANT_HELD) {
        code = hf__error_set(reterr, HF_ERR_LOST, "the lock is not held any more");
    } else if (grant->lease->is_session) {
        code = hf__error_set(reterr, HF_ERR_UNSUPPORTED,
                             "a session keeps the lock, and goes with its process");
    } else {
        hf__hex_encode(grant->id.bytes, sizeof grant->id.bytes, id);
        snprintf(ret, HF_GRANT_SIZE, "%s#%s%s", grant->name->text, grant->limit ? "s" : "", id);
    }
    pthread_mutex_unlock(&client->mutex);
    return code;
}

/* One call about a grant. */
struct errand {
    struct hf_client *client;
    const struct hf_core_options *core;
    struct hf_arena arena;
    struct hf_call call;
    struct hf_record record;
    struct hf_claim claim;
    int64_t read_us; /* when, on our clock */
};

static int parse_grant(const char *text, struct hf_claim *ret, struct hf_error *reterr)
{
    const char *hash = text ? strrchr(text, '#') : NULL;
    bool good = hash && hash > text && (size_t)(hash - text) <= HF_LOCK_NAME_MAX;
    if (good && hash[1] == 's') ret->limit = HF_READERS_LIMIT;
    good = good && hf__id_parse(hf__slice_str(hash + 1 + (ret->limit > 0)), &ret->grant);
    if (!good)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "\"%.64s\" is no grant; give what acquiring said, NAME#…",
                             text ? text : "");
    ret->name = hf__slice(text, (size_t)(hash - text));
    return 0;
}

static int lost(struct errand *errand, struct hf_error *reterr)
{
    struct hf_slice name = errand->claim.name, owner = errand->record.owner;
    if (!errand->record.exists || !hf__record_is_held(&errand->record))
        return hf__error_set(reterr, HF_ERR_LOST, "lock \"%.*s\": not held any more", HF_FMT(name));
    return hf__error_set(reterr, HF_ERR_LOST, "lock \"%.*s\": now held by %.*s", HF_FMT(name),
                         HF_FMT(owner));
}

/* The claim is made of what the record says, so that its conditions meet it. */
static int adopt(struct errand *errand, bool has_item, struct hf_item item, struct hf_error *reterr)
{
    const struct hf_format *format = errand->core->format;
    struct hf_claim *claim = &errand->claim;
    format->parse(&errand->core->layout, &errand->arena, has_item, item, &errand->record);
    struct hf_slice owner = errand->record.owner;
    struct hf_slice id = hf__id_text(&errand->arena, &claim->grant);
    if (errand->arena.failed) return hf__error_no_memory(reterr);
    if (owner.len > id.len && hf__slice_eq(hf__slice_skip(owner, owner.len - id.len), id))
        owner.len -= id.len + 1; /* dlock: owner/grant */
    claim->owner = owner;
    claim->token = errand->record.token;
    claim->since_unix_ms = errand->record.since_unix_ms;
    claim->lease_ms = errand->record.liveness.lease_ms;
    return format->adopt(&errand->record, claim) ? 0 : lost(errand, reterr);
}

static int begin(struct hf_client *client, const char *grant, struct errand *ret,
                 struct hf_error *reterr)
{
    *ret = (struct errand){.client = client};
    int code = parse_grant(grant, &ret->claim, reterr);
    const char *refusal =
        code == 0 ? client->core.options.format->refuses_name(ret->claim.name) : NULL;
    if (refusal) code = hf__error_set(reterr, HF_ERR_INVALID, "that is no grant: %s", refusal);
    if (code == 0) code = hf__client_hold(client, reterr);
    if (code != 0) return code;
    ret->core = &client->core.options;
    ret->call = (struct hf_call){.arena = &ret->arena};
    ret->core->format->read(&ret->core->layout, &ret->arena, ret->claim.name, &ret->call.op);
    code = hf__client_run(client, &ret->call, reterr);
    ret->read_us = hf__client_now_us(client);
    if (code == 0) code = adopt(ret, ret->call.answer.has_item, ret->call.answer.item, reterr);
    return code;
}

static int end(struct errand *errand, int code)
{
    if (errand->core) {
        hf__arena_free(&errand->arena);
        hf__client_let_go(errand->client);
    }
    return code;
}

/* The claim of the next version. */
static int prepare(struct errand *errand, int64_t lease_ms, struct hf_error *reterr)
{
    const struct hf_liveness *shown = &errand->record.liveness;
    const struct hf_interval store = errand->call.answer.store;
    struct hf_claim *claim = &errand->claim;
    int64_t now_us = hf__client_now_us(errand->client);
    if (lease_ms > 0) claim->lease_ms = lease_ms;
    if (claim->lease_ms <= 0)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "records of this format do not say how long a lease is: give it");
    if (claim->limit > 0 && claim->lease_ms > shown->lease_ms)
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED,
                             "a shared lock of this format keeps the lease that it came with");
    claim->before_unix_ms = claim->expires_unix_ms;
    claim->expires_unix_ms = 0;
    if (store.known)
        claim->expires_unix_ms =
            (store.hi_unix_us + now_us - errand->read_us) / 1000 + 1 + claim->lease_ms;
    /* Readers agree on the latest time that one of them has written. */
    int64_t least = shown->expires_unix_ms - shown->lease_ms + claim->lease_ms;
    if (claim->limit > 0 && shown->expires_unix_ms && claim->expires_unix_ms < least)
        claim->expires_unix_ms = least;
    claim->version++;
    return 0;
}

/* One try. `ret_again`: others were quicker, and the grant still holds it. */
static int write_renewal(struct errand *errand, struct hf_grant_status *ret, bool *ret_again,
                         struct hf_error *reterr)
{
    const struct hf_core_options *core = errand->core;
    struct hf_claim *claim = &errand->claim;
    int64_t sent_us = hf__client_now_us(errand->client);
    errand->call = (struct hf_call){.arena = &errand->arena};
    core->format->renew(&core->layout, &errand->arena, claim, &errand->call.op);
    int code = hf__client_run(errand->client, &errand->call, reterr);
    const struct hf_answer *answer = &errand->call.answer;
    errand->read_us = hf__client_now_us(errand->client);
    *ret_again = false;
    if (code != 0 && answer->has_item) { /* refused; perhaps by its own first copy */
        core->format->parse(&core->layout, &errand->arena, true, answer->item, &errand->record);
        bool landed = core->format->holds(&errand->record, claim) &&
                      core->format->at_version(&errand->record, claim);
        code = landed ? 0 : adopt(errand, true, answer->item, reterr);
        *ret_again = !landed && code == 0;
    } else if (code == HF_ERR_CONDITION) {
        errand->record = (struct hf_record){0};
        code = lost(errand, reterr);
    }
    if (code != 0 || *ret_again) return code;
    int64_t left_ms = claim->lease_ms * (1000 - core->margin_per_mille) / 1000 -
                      (errand->read_us - sent_us) / 1000 - 1;
    *ret = (struct hf_grant_status){
        .token = claim->token,
        .lease_ms = claim->lease_ms,
        .left_ms = left_ms > 0 ? left_ms : 0,
        .expires_unix_ms = claim->expires_unix_ms,
    };
    return 0;
}

int hf_grant_renew(struct hf_client *client, const char *grant, int64_t lease_ms,
                   struct hf_grant_status *ret, struct hf_error *reterr)
{
    struct hf_grant_status unwanted;
    if (lease_ms != 0 && (lease_ms < 100 || lease_ms > HF_LEASE_MAX_MS))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "a lease of %lld ms: it must be between 100 ms and a year",
                             (long long)lease_ms);
    if (!(client->core.options.format->can & HF_CAN_RENEW))
        return hf__error_set(reterr, HF_ERR_UNSUPPORTED, "the format \"%s\" has no leases",
                             client->core.options.format->name);
    struct errand errand;
    bool again = true;
    int code = begin(client, grant, &errand, reterr);
    for (int i = 0; code == 0 && again && i < TRIES; i++) {
        code = prepare(&errand, lease_ms, reterr);
        if (code == 0) code = write_renewal(&errand, ret ? ret : &unwanted, &again, reterr);
    }
    if (code == 0 && again)
        code = hf__error_set(reterr, HF_ERR_BUSY, "others renew it all the time; try again");
    return end(&errand, code);
}

int hf_grant_release(struct hf_client *client, const char *grant, struct hf_error *reterr)
{
    return hf__grant_release(client, grant, NULL, 0, reterr);
}

int hf__grant_release(struct hf_client *client, const char *grant, const void *data, size_t size,
                      struct hf_error *reterr)
{
    struct errand errand;
    int code = begin(client, grant, &errand, reterr);
    bool again = true;
    for (int i = 0; code == 0 && again && i < TRIES; i++) {
        again = false;
        const struct hf_core_options *core = errand.core;
        const struct hf_interval store = errand.call.answer.store;
        if (store.known && core->layout.keep_s)
            errand.claim.ttl_unix_s = store.lo_unix_us / 1000000 + core->layout.keep_s;
        errand.call = (struct hf_call){.arena = &errand.arena};
        errand.claim.has_data = data != NULL;
        errand.claim.data = hf__slice(data, data ? size : 0);
        core->format->release(&core->layout, &errand.arena, &errand.claim, &errand.call.op);
        code = hf__client_run(client, &errand.call, reterr);
        if (code == 0) break;
        bool ours = code == HF_ERR_OUTCOME_UNKNOWN; /* an earlier copy may have done it */
        if (!errand.call.answer.has_item) {
            errand.record = (struct hf_record){0};
            if (code == HF_ERR_CONDITION) code = lost(&errand, reterr);
            break;
        }
        code = adopt(&errand, true, errand.call.answer.item, reterr);
        if (code == HF_ERR_LOST && ours) return end(&errand, 0);
        again = code == 0;
    }
    if (code == 0 && again)
        code = hf__error_set(reterr, HF_ERR_BUSY, "others change it all the time; try again");
    return end(&errand, code);
}
