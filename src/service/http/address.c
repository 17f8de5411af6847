#include "service/http/address.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

static struct hf_address **place_of(struct hf_addresses *addresses, const char *text)
{
    uint64_t hash = hf__hash_keyed(addresses->key, hf__slice_str(text));
    return &addresses->places[hf__hash_place(hash, HF_ADDRESS_PLACES)];
}

struct hf_address *hf__address_enter(struct hf_addresses *addresses, const char *text)
{
    struct hf_address **place = place_of(addresses, text);
    for (struct hf_address *at = *place; at; at = at->next) {
        if (strcmp(at->text, text) != 0) continue;
        at->connections++;
        return at;
    }
    struct hf_address *address = hf__calloc(1, sizeof *address);
    if (!address) return NULL;
    memcpy(address->text, text, strlen(text) + 1);
    address->connections = 1;
    address->next = *place;
    *place = address;
    return address;
}

void hf__address_leave(struct hf_addresses *addresses, struct hf_address *address)
{
    if (--address->connections > 0) return;
    struct hf_address **at = place_of(addresses, address->text);
    while (*at != address) at = &(*at)->next;
    *at = address->next;
    hf__free(address);
}
