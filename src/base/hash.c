#include "base/hash.h"

static uint64_t rotate(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

static void mix(uint64_t v[4], int rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

/* Up to eight bytes, the first one lowest. */
static uint64_t word_at(struct hf_slice text, size_t at)
{
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at + i < text.len; i++)
        word |= (uint64_t)(unsigned char)text.ptr[at + i] << (8 * i);
    return word;
}

uint64_t hf__hash_keyed(const uint64_t key[2], struct hf_slice text)
{
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    for (size_t at = 0; at <= text.len; at += 8) {
        bool is_last = at + 8 > text.len;
        uint64_t word = word_at(text, at);
        if (is_last) word |= (uint64_t)text.len << 56;
        v[3] ^= word;
        mix(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
