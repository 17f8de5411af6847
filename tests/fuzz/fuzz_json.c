/* Any bytes: the reader accepts or refuses, stays inside them, and says where it stopped. */
#include "base/json_reader.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_json_reader r;
    hf__json_reader_init(&r, hf__slice((const char *)data, size), 1 << 16, &arena);
    hf__json_skip(&r);
    MUST(r.at >= r.start && r.at <= r.end);
    int code = hf__json_finish(&r);
    MUST((code != 0) == r.failed);
    MUST(code == 0 || r.error.message[0] != '\0');
    hf__arena_free(&arena);
    return 0;
}
