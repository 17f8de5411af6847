#include "store/recall.h"

#include "base/alloc.h"
#include "base/hash.h"

enum { SLOTS = 1024, LONGEST = 1024, ROOM_MOST = 4096 };

struct slot {
    struct hf_arena arena; /* of what follows */
    uint64_t age;          /* the one in which it was filled; another than today's: it is free */
    struct hf_recall_key key;
    struct hf_item item;
    size_t json_len;
};

struct hf_recall {
    uint64_t age;              /* a new one begins when everything is forgotten */
    bool committed;            /* the last transaction that began was … */
    unsigned version;          /* … and made this one */
    struct slot *slots[SLOTS]; /* NULL: not needed yet */
};

struct hf_recall *hf__recall_new(void)
{
    struct hf_recall *recall = hf__calloc(1, sizeof *recall);
    if (recall) recall->age = 1;
    return recall;
}

void hf__recall_free(struct hf_recall *recall)
{
    for (size_t i = 0; recall && i < SLOTS; i++) {
        if (recall->slots[i]) hf__arena_free(&recall->slots[i]->arena);
        hf__free(recall->slots[i]);
    }
    hf__free(recall);
}

void hf__recall_clear(struct hf_recall *recall)
{
    if (recall) recall->age++;
}

void hf__recall_begin(struct hf_recall *recall, unsigned version)
{
    if (!recall) return;
    if (!recall->committed || recall->version != version) hf__recall_clear(recall);
    recall->committed = false;
}

void hf__recall_commit(struct hf_recall *recall, unsigned version)
{
    if (!recall) return;
    recall->committed = true;
    recall->version = version;
}

/* Of all items with this hash. */
static size_t place_of(const struct hf_recall_key *key)
{
    uint64_t hash = hf__hash_more(HF_HASH_START + (uint64_t)key->table_id, key->pk);
    hash = hf__hash_more(hash, key->sk);
    return (size_t)(hash ^ hash >> 32) % SLOTS;
}

/* NULL: it is not remembered. */
static struct slot *find(struct hf_recall *recall, const struct hf_recall_key *key)
{
    struct slot *slot = recall ? recall->slots[place_of(key)] : NULL;
    bool is_there = slot && slot->age == recall->age && slot->key.table_id == key->table_id &&
                    hf__slice_eq(slot->key.pk, key->pk) && hf__slice_eq(slot->key.sk, key->sk);
    return is_there ? slot : NULL;
}

bool hf__recall_find(struct hf_recall *recall, const struct hf_recall_key *key,
                     struct hf_arena *arena, struct hf_item *ret, size_t *ret_json_len)
{
    const struct slot *slot = find(recall, key);
    if (!slot) return false;
    *ret = hf__item_copy(arena, slot->item);
    *ret_json_len = slot->json_len;
    return true;
}

void hf__recall_keep(struct hf_recall *recall, const struct hf_recall_key *key, struct hf_item item,
                     size_t json_len)
{
    if (!recall) return;
    struct slot **place = &recall->slots[place_of(key)];
    if (!*place) *place = hf__calloc(1, sizeof **place);
    struct slot *slot = *place;
    if (!slot) return;
    slot->age = 0;
    if (json_len > LONGEST) return;
    hf__arena_reset(&slot->arena);
    slot->key = (struct hf_recall_key){.table_id = key->table_id,
                                       .pk = hf__arena_copy(&slot->arena, key->pk),
                                       .sk = hf__arena_copy(&slot->arena, key->sk)};
    slot->item = hf__item_copy(&slot->arena, item);
    slot->json_len = json_len;
    if (slot->arena.size > ROOM_MOST) hf__arena_free(&slot->arena);
    else if (!slot->arena.failed) slot->age = recall->age;
}

void hf__recall_drop(struct hf_recall *recall, const struct hf_recall_key *key)
{
    struct slot *slot = find(recall, key);
    if (slot) slot->age = 0;
}
