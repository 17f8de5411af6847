/* Any Authorization header, date and query: verification refuses it, since the secret is not known.
 */
#include "fuzz.h"
#include "wire/sigv4.h"

static bool secret_of(void *user, struct hf_slice id, struct hf_slice *ret)
{
    (void)user;
    (void)id;
    *ret = HF_LIT("a secret that no fuzzer guesses");
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *line = size ? memchr(text, '\n', size) : NULL;
    size_t first = line ? (size_t)(line - text) : size;
    struct hf_slice rest = line ? hf__slice(line + 1, size - first - 1) : hf__slice(NULL, 0);
    struct hf_error error;
    struct hf_header headers[] = {{HF_LIT("authorization"), hf__slice(text, first)},
                                  {HF_LIT("host"), HF_LIT("localhost")},
                                  {HF_LIT("x-amz-date"), HF_LIT("20261115T102030Z")},
                                  {HF_LIT("x-other"), rest}};
    struct hf_sigv4_request request = {.method = HF_LIT("POST"),
                                       .path = rest,
                                       .query = rest,
                                       .headers = headers,
                                       .header_count = 4,
                                       .body = rest};
    const struct hf_sigv4_check check = {HF_LIT("dynamodb"), 1794738030, secret_of, NULL};
    struct hf_sigv4_verdict verdict;
    MUST(hf__sigv4_verify(&request, &check, &verdict, &error) == HF_ERR_DENIED ||
         error.code == HF_ERR_NO_MEMORY);
    headers[2].value = rest;
    if (hf__sigv4_verify(&request, &check, &verdict, &error) == HF_ERR_DENIED)
        MUST(hf__sigv4_exceptions[verdict.fault]);
    return 0;
}
