/* What every fuzz target starts from. */
#ifndef HF_FUZZ_H
#define HF_FUZZ_H

#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise of the code under test; the fuzzer reports its breach as a crash. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

#endif
