/* Base64, UTF-8, integers and dates of any spelling. */
#include "base/text.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_slice text = hf__slice((const char *)data, size);
    char *decoded = malloc(size + 4), *again = malloc(HF_BASE64_SIZE(size + 4));
    int64_t number;
    size_t len;
    if (hf__base64_decode(text, decoded, &len)) { /* strict, so only one spelling is accepted */
        MUST(hf__base64_encode(decoded, len, again) == size);
        MUST(size == 0 || memcmp(again, data, size) == 0);
    }
    hf__utf8_valid(text);
    hf__parse_int64(text, &number);
    if (hf__parse_rfc3339(text, &number))
        MUST(number > -63000000000000 && number < 260000000000000);
    if (hf__parse_http_date(text, &number)) MUST(number >= -62200000000);
    free(decoded);
    free(again);
    return 0;
}
