#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/process.h"
#include "base/text.h"

static void ask_kernel(void *ret, size_t len)
{
    char *at = ret;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) abort();
        at += got;
        len -= (size_t)got;
    }
}

/*
 * Fetched in advance. Bytes that were handed out are wiped; a child does not use those of its
 * parent.
 */
static __thread struct {
    unsigned char bytes[256];
    size_t left;
    uint64_t process;
} stock;

void hf__random_bytes(void *ret, size_t len)
{
    if (len > sizeof stock.bytes / 4) {
        ask_kernel(ret, len);
        return;
    }
    if (stock.left < len || stock.process != hf__process()) {
        ask_kernel(stock.bytes, sizeof stock.bytes);
        stock.left = sizeof stock.bytes;
        stock.process = hf__process();
    }
    stock.left -= len;
    memcpy(ret, stock.bytes + stock.left, len);
    explicit_bzero(stock.bytes + stock.left, len);
}

uint64_t hf__random_u64(void)
{
    uint64_t value;
    hf__random_bytes(&value, sizeof value);
    return value;
}

double hf__random_unit(void)
{
    return (double)(hf__random_u64() >> 11) * 0x1p-53;
}

void hf__uuid4_from(const unsigned char bytes[16], char ret[HF_UUID_SIZE])
{
    unsigned char uuid[16];
    for (int i = 0; i < 16; i++) uuid[i] = bytes[i];
    uuid[6] = (unsigned char)((uuid[6] & 0x0f) | 0x40);
    uuid[8] = (unsigned char)((uuid[8] & 0x3f) | 0x80);
    char hex[33];
    hf__hex_encode(uuid, sizeof uuid, hex);
    const char *from = hex;
    for (int i = 0; i < 36; i++) ret[i] = i == 8 || i == 13 || i == 18 || i == 23 ? '-' : *from++;
    ret[36] = '\0';
}

void hf__uuid4(char ret[HF_UUID_SIZE])
{
    unsigned char bytes[16];
    hf__random_bytes(bytes, sizeof bytes);
    hf__uuid4_from(bytes, ret);
}

void hf__random_id(char ret[HF_ID_SIZE])
{
    unsigned char bytes[16];
    hf__random_bytes(bytes, sizeof bytes);
    hf__hex_encode(bytes, sizeof bytes, ret);
}
