/* A body in chunks: bytes in, data out, independent of sockets. */
#ifndef HF_SERVICE_HTTP_CHUNKS_H
#define HF_SERVICE_HTTP_CHUNKS_H

#include <stdint.h>

#include "base/slice.h"

enum hf_chunks_result {
    HF_CHUNKS_MORE, /* all input is used up */
    HF_CHUNKS_DATA,
    HF_CHUNKS_END,
    HF_CHUNKS_BAD,
};

/* Initialize with zeros. */
struct hf_chunks {
    int state;
    int64_t left; /* of the current chunk */
    int extra;    /* bytes of sizes, extensions and trailers since the last data */
};

/* Continues, and removes the bytes used from `bytes`. */
enum hf_chunks_result hf__chunks_next(struct hf_chunks *chunks, struct hf_slice *bytes,
                                      struct hf_slice *ret_data);

#endif
