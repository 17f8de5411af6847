#include "service/api/grant.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"
#include "service/api/session.h"

enum { BUCKETS = 8192 };

/* There are two tables of this kind: by grant, and by idempotency key. */
struct keyed {
    struct keyed *next;
    struct hf_entry *entry;
};

struct hf_grants {
    pthread_mutex_t mutex;
    struct hf_entry *by_id[BUCKETS];
    struct keyed *by_key[BUCKETS];
};

static size_t hash(const char *a, const char *b, const char *c)
{
    const char *const texts[] = {a, b, c};
    uint64_t value = HF_HASH_START;
    for (int i = 0; i < 3; i++)
        value = hf__hash_more(value, hf__slice(texts[i], strlen(texts[i]) + 1)); /* with its NUL */
    return hf__hash_place(value, BUCKETS);
}

int hf__grants_start(struct hf_service *service, struct hf_error *reterr)
{
    struct hf_grants *grants = hf__calloc(1, sizeof *grants);
    if (!grants) return hf__error_no_memory(reterr);
    pthread_mutex_init(&grants->mutex, NULL);
    service->grants = grants;
    return 0;
}

void hf__grants_stop(struct hf_service *service)
{
    if (!service->grants) return;
    pthread_mutex_destroy(&service->grants->mutex);
    hf__free(service->grants);
    service->grants = NULL;
}

struct hf_entry *hf__entry_new(struct hf_service *service, const char *name, const char *owner,
                               const char *key)
{
    struct hf_entry *entry = hf__calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->service = service;
    entry->refs = 1;
    hf__list_init(&entry->of_session);
    entry->name = hf__strdup(name);
    entry->owner = hf__strdup(owner);
    entry->key = key ? hf__strdup(key) : NULL;
    if (entry->name && entry->owner && (!key || entry->key)) return entry;
    hf__entry_unref(entry);
    return NULL;
}

bool hf__entry_count(struct hf_entry *entry, int64_t data_size)
{
    struct hf_service *service = entry->service;
    if (!hf__budget_take(service, HF_BUDGET_LOCKS, entry->owner, 1)) return false;
    if (!hf__budget_take(service, HF_BUDGET_DATA, entry->owner, data_size)) {
        hf__budget_give(service, HF_BUDGET_LOCKS, entry->owner, 1);
        return false;
    }
    entry->counted = true;
    entry->data_size = data_size;
    hf__gauge(&service->metrics.data_bytes, data_size);
    return true;
}

void hf__entry_unref(struct hf_entry *entry)
{
    if (__atomic_sub_fetch(&entry->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    if (entry->counted) {
        hf__budget_give(entry->service, HF_BUDGET_LOCKS, entry->owner, 1);
        hf__budget_give(entry->service, HF_BUDGET_DATA, entry->owner, entry->data_size);
        hf__gauge(&entry->service->metrics.data_bytes, -entry->data_size);
    }
    if (entry->acquisition) hf_acquisition_free(entry->acquisition);
    hf_lock_unref(entry->lock);
    hf__session_entry_unref(entry->session);
    hf__free(entry->name);
    hf__free(entry->owner);
    hf__free(entry->instance);
    hf__free(entry->key);
    hf__free(entry);
}

void hf__entry_list(struct hf_entry *entry)
{
    struct hf_grants *grants = entry->service->grants;
    struct hf_entry **bucket = &grants->by_id[hash(entry->id, "", "")];
    __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&grants->mutex);
    entry->next = *bucket;
    *bucket = entry;
    entry->listed = true;
    if (entry->session) hf__list_append(&entry->session->locks, &entry->of_session);
    pthread_mutex_unlock(&grants->mutex);
    hf__gauge(&entry->service->metrics.locks_held, 1);
}

void hf__entry_unlist(struct hf_entry *entry)
{
    struct hf_grants *grants = entry->service->grants;
    pthread_mutex_lock(&grants->mutex);
    bool listed = entry->listed;
    entry->listed = false;
    struct hf_entry **at = &grants->by_id[hash(entry->id, "", "")];
    while (listed && *at != entry) at = &(*at)->next;
    if (listed) *at = entry->next;
    hf__list_remove(&entry->of_session);
    pthread_mutex_unlock(&grants->mutex);
    if (!listed) return;
    hf__gauge(&entry->service->metrics.locks_held, -1);
    hf__entry_unref(entry);
}

bool hf__entry_tell(struct hf_entry *entry)
{
    struct hf_grants *grants = entry->service->grants;
    pthread_mutex_lock(&grants->mutex);
    bool good = entry->listed && !entry->given_back;
    if (good) entry->told++;
    pthread_mutex_unlock(&grants->mutex);
    return good;
}

bool hf__entry_untell(struct hf_entry *entry)
{
    struct hf_grants *grants = entry->service->grants;
    pthread_mutex_lock(&grants->mutex);
    bool last = --entry->told == 0 && !entry->repeats; /* what a call elsewhere got may be known */
    if (last) entry->given_back = true;
    pthread_mutex_unlock(&grants->mutex);
    return last;
}

struct hf_entry *hf__entry_find(struct hf_service *service, const char *id)
{
    struct hf_grants *grants = service->grants;
    pthread_mutex_lock(&grants->mutex);
    struct hf_entry *entry = grants->by_id[hash(id, "", "")];
    while (entry && strcmp(entry->id, id) != 0) entry = entry->next;
    if (entry) __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&grants->mutex);
    return entry;
}

static struct keyed **key_place(struct hf_grants *grants, const struct hf_entry *like)
{
    struct keyed **at = &grants->by_key[hash(like->name, like->owner, like->key)];
    while (*at && (strcmp((*at)->entry->key, like->key) != 0 ||
                   strcmp((*at)->entry->name, like->name) != 0 ||
                   strcmp((*at)->entry->owner, like->owner) != 0))
        at = &(*at)->next;
    return at;
}

bool hf__entry_claim_key(struct hf_entry *entry, struct hf_entry **ret_other)
{
    struct hf_grants *grants = entry->service->grants;
    struct keyed *keyed = hf__calloc(1, sizeof *keyed);
    *ret_other = NULL;
    if (!keyed) return false;
    pthread_mutex_lock(&grants->mutex);
    struct keyed **place = key_place(grants, entry);
    bool is_free = !*place;
    if (is_free) {
        keyed->entry = entry;
        *place = keyed;
    } else {
        *ret_other = (*place)->entry;
        __atomic_add_fetch(&(*ret_other)->refs, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&grants->mutex);
    if (is_free) __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED);
    else hf__free(keyed);
    return is_free;
}

void hf__entry_drop_key(struct hf_entry *entry)
{
    struct hf_grants *grants = entry->service->grants;
    if (!entry->key) return;
    pthread_mutex_lock(&grants->mutex);
    struct keyed **place = key_place(grants, entry), *found = *place;
    if (found && found->entry == entry) *place = found->next;
    else found = NULL;
    pthread_mutex_unlock(&grants->mutex);
    if (!found) return;
    hf__free(found);
    hf__entry_unref(entry);
}

void hf__entries_of(struct hf_session_entry *session,
                    void (*call)(void *user, struct hf_entry *entry), void *user)
{
    struct hf_grants *grants = session->service->grants;
    pthread_mutex_lock(&grants->mutex);
    for (struct hf_list *at = session->locks.next; at != &session->locks; at = at->next)
        call(user, HF_CONTAINER(at, struct hf_entry, of_session));
    pthread_mutex_unlock(&grants->mutex);
}
