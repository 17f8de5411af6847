/* Bodies of answers, good and bad: the first byte chooses the operation and the status. */
#include "fuzz.h"
#include "wire/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_answer good = {0}, bad = {0};
    struct hf_error error;
    const struct hf_exception *exception;
    if (size == 0) return 0;
    enum hf_op_kind kind = (enum hf_op_kind)(data[0] % HF_OP_KINDS);
    struct hf_slice body = hf__slice((const char *)data + 1, size - 1);
    if (hf__answer_read(&arena, kind, body, &good, &error) == 0) {
        struct hf_buf text;
        hf__buf_init(&text, HF_ANSWER_MAX_SIZE);
        hf__answer_write(&(struct hf_op){.kind = kind}, &good, &text);
        hf__buf_free(&text);
    }
    hf__answer_read_error(&arena, data[0] & 1 ? 400 : 503, body, &bad, &exception);
    MUST(bad.code < 0 && bad.error.code == bad.code);
    hf__arena_free(&arena);
    return 0;
}
