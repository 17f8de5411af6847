/* A body in chunks: bytes in, data out. It knows no sockets. */
#ifndef HF_SERVICE_HTTP_CHUNKS_H
#define HF_SERVICE_HTTP_CHUNKS_H

#include <stdint.h>

#include "base/slice.h"

enum hf_chunks_result {
    HF_CHUNKS_MORE, /* all that was given is used up */
    HF_CHUNKS_DATA,
    HF_CHUNKS_END,
    HF_CHUNKS_BAD,
};

/* Zero it. */
struct hf_chunks {
    int state;
    int64_t left; /* of the chunk that has begun */
    int extra; /* bytes of sizes, extensions and trailers that carry nothing, since the last data */
};

/* Goes on, and takes what it used from `bytes`. */
enum hf_chunks_result hf__chunks_next(struct hf_chunks *chunks, struct hf_slice *bytes,
                                      struct hf_slice *ret_data);

#endif
