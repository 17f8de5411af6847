/* CRC-32 as in zlib, Ethernet and the x-amz-crc32 header. */
#ifndef HF_BASE_CRC32_H
#define HF_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t hf__crc32(const void *data, size_t len);

#endif
