/* What parses prints, parses back as the same, and keeps its order; sums are exact. */
#include "fuzz.h"
#include "item/number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *comma = size ? memchr(text, ',', size) : NULL;
    size_t first = comma ? (size_t)(comma - text) : size;
    struct hf_number a, b = {0}, again, sum, back;
    char printed[HF_NUMBER_TEXT_SIZE];
    if (hf__number_parse(hf__slice(text, first), &a, NULL) != 0) return 0;
    size_t len = hf__number_print(&a, printed);
    MUST(len < sizeof printed);
    MUST(hf__number_parse(hf__slice(printed, len), &again, NULL) == 0);
    MUST(hf__number_compare(&a, &again) == 0);
    if (!comma || hf__number_parse(hf__slice(comma + 1, size - first - 1), &b, NULL) != 0) return 0;
    unsigned char x[HF_NUMBER_SORTABLE_SIZE], y[HF_NUMBER_SORTABLE_SIZE];
    struct hf_slice xs = hf__slice((char *)x, hf__number_sortable(&a, x));
    struct hf_slice ys = hf__slice((char *)y, hf__number_sortable(&b, y));
    MUST(hf__slice_cmp(xs, ys) == hf__number_compare(&a, &b));
    if (hf__number_add(&a, &b, &sum, NULL) != 0) return 0;
    if (hf__number_subtract(&sum, &b, &back, NULL) == 0) MUST(hf__number_compare(&back, &a) == 0);
    return 0;
}
