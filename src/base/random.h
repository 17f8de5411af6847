/* Randomness from the kernel's generator. Ids made from it are never used twice. */
#ifndef HF_BASE_RANDOM_H
#define HF_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Aborts if the kernel has no generator: ids that might repeat are worse than no process. */
void hf__random_bytes(void *ret, size_t len);

uint64_t hf__random_u64(void);

/* Uniform in [0, 1). */
double hf__random_unit(void);

enum { HF_UUID_SIZE = 37, HF_ID_SIZE = 33 };

/* UUID version 4 as 36 characters and a terminator. */
void hf__uuid4(char ret[HF_UUID_SIZE]);

/* The same rule with the 16 random bytes given: for tests and the simulator. */
void hf__uuid4_from(const unsigned char bytes[16], char ret[HF_UUID_SIZE]);

/* 128 random bits as 32 hex digits and a terminator. */
void hf__random_id(char ret[HF_ID_SIZE]);

#endif
