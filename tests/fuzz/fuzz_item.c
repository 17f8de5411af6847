/* Items as JSON: what is read writes, and reads back as equal. */
#include "fuzz.h"
#include "wire/item_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_item item, again;
    struct hf_error error;
    if (hf__item_from_json(&arena, hf__slice((const char *)data, size), &item, &error) == 0 &&
        hf__item_check(item, &error) == 0) {
        struct hf_buf json;
        hf__buf_init(&json, HF_ITEM_JSON_MAX);
        hf__item_to_json(item, &json);
        MUST(!json.failed);
        MUST(hf__item_from_json(&arena, hf__buf_view(&json), &again, &error) == 0);
        MUST(hf__item_equal(item, again));
        MUST(hf__item_size(item) == hf__item_size(again));
        hf__buf_free(&json);
    }
    hf__arena_free(&arena);
    return 0;
}
