/* The head of a request, and what follows it as a body in chunks. */
#include <stdlib.h>

#include "fuzz.h"
#include "service/http/chunks.h"
#include "service/http/head.h"

static void check_head(char *text, size_t len)
{
    struct hf_head head;
    const char *why = NULL;
    int status = hf__head_parse(text, len, &head, &why);
    if (status != 0) {
        MUST(status >= 400 && status <= 505 && why && *why);
        return;
    }
    MUST(head.count <= HF_FIELDS_MOST && !(head.chunked && head.length >= 0));
    MUST(strlen(head.method) + strlen(head.path) < len);
    for (size_t i = 0; i < head.count; i++) {
        MUST(*head.fields[i].name && !strpbrk(head.fields[i].value, "\r\n"));
        MUST(hf__head_field(&head, head.fields[i].name));
    }
}

/* However it is cut, it says the same. */
static uint64_t digest_chunks(struct hf_slice all, size_t at_a_time)
{
    struct hf_chunks chunks = {0};
    uint64_t digest = 0;
    while (all.len > 0) {
        struct hf_slice part = hf__slice(all.ptr, all.len < at_a_time ? all.len : at_a_time), data;
        enum hf_chunks_result result;
        size_t had = part.len;
        while ((result = hf__chunks_next(&chunks, &part, &data)) == HF_CHUNKS_DATA) {
            MUST(data.len > 0);
            for (size_t i = 0; i < data.len; i++)
                digest = digest * 31 + (unsigned char)data.ptr[i] + 1;
        }
        if (result == HF_CHUNKS_BAD) return UINT64_MAX;
        all = hf__slice_skip(all, had - part.len);
        if (result == HF_CHUNKS_END) return digest + all.len;
    }
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_slice all = hf__slice((const char *)data, size);
    size_t scanned = 0;
    size_t end = hf__head_end(all, &scanned);
    if (end > 0) {
        char *copy = malloc(end);
        MUST(copy);
        memcpy(copy, data, end);
        check_head(copy, end);
        free(copy);
        all = hf__slice_skip(all, end);
    }
    uint64_t whole = digest_chunks(all, size + 1);
    MUST(digest_chunks(all, 1) == whole && digest_chunks(all, 7) == whole);
    return 0;
}
