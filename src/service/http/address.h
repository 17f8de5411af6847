/* The addresses of callers, with their totals: connections, bodies and answers under way. */
#ifndef HF_SERVICE_HTTP_ADDRESS_H
#define HF_SERVICE_HTTP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { HF_ADDRESS_SIZE = 46, HF_ADDRESS_PLACES = 1024 };

struct hf_address {
    struct hf_address *next;
    unsigned connections;
    int64_t body_bytes;   /* held for requests that are not finished */
    int64_t answer_bytes; /* of large answers that are being sent */
    char text[HF_ADDRESS_SIZE];
};

struct hf_addresses {
    uint64_t key[2]; /* so that nobody can aim at a bucket */
    struct hf_address *places[HF_ADDRESS_PLACES];
};

/* Counts one more connection; NULL: out of memory. */
struct hf_address *hf__address_enter(struct hf_addresses *addresses, const char *text);
void hf__address_leave(struct hf_addresses *addresses, struct hf_address *address);

#endif
