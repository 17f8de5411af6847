#include "base/crc32.h"

#include <pthread.h>

/* Eight bytes at a time: table[k][b] is the checksum of byte b followed by k zero bytes. */
enum { SLICES = 8 };
static uint32_t table[SLICES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t rest = i;
        for (int bit = 0; bit < 8; bit++) rest = rest >> 1 ^ (rest & 1 ? 0xedb88320 : 0);
        table[0][i] = rest;
    }
    for (int k = 1; k < SLICES; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

uint32_t hf__crc32(const void *data, size_t len)
{
    const unsigned char *at = data;
    uint32_t crc = 0xffffffff;
    pthread_once(&once, fill);
    for (; len >= SLICES; at += SLICES, len -= SLICES) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                              (uint32_t)at[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
              table[4][low >> 24] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^
              table[0][at[7]];
    }
    for (; len > 0; at++, len--) crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
    return ~crc;
}
