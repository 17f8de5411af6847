/* Bodies of requests: the first byte chooses the operation. What is read writes and reads back. */
#include "fuzz.h"
#include "wire/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_op op, again;
    struct hf_error error;
    if (size == 0) return 0;
    enum hf_op_kind kind = (enum hf_op_kind)(data[0] % HF_OP_KINDS);
    struct hf_slice body = hf__slice((const char *)data + 1, size - 1);
    if (hf__request_read(&arena, kind, body, &op, &error) == 0 && hf__op_check(&op, &error) == 0) {
        struct hf_buf text;
        hf__buf_init(&text, HF_REQUEST_MAX_SIZE);
        MUST(hf__request_write(&arena, &op, &text, &error) == 0);
        int code = hf__request_read(&arena, kind, hf__buf_view(&text), &again, &error);
        /* Printed with aliases an expression may grow beyond what is accepted. */
        MUST(code == 0 || code == HF_ERR_VALIDATION);
        hf__op_is_repeatable(&op);
        hf__buf_free(&text);
    }
    hf__arena_free(&arena);
    return 0;
}
