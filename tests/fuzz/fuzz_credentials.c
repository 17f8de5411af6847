/* What servers and programs answer when they are asked for credentials. */
#include "fuzz.h"
#include "store/credentials.h"

static void judge(int code, struct hf_credentials *c)
{
    MUST((code == 0) == (c != NULL));
    if (c) MUST(c->access_key_id[0] && c->secret[0] && !strpbrk(c->access_key_id, "\r\n "));
    hf__credentials_unref(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_slice text = hf__slice((const char *)data, size);
    struct hf_credentials *c;
    struct hf_error error;
    int code;
    c = NULL;
    code = hf__credentials_from_json("x", text, size & 1, &c, &error);
    judge(code, c);
    c = NULL;
    code = hf__credentials_from_sso(text, &c, &error);
    judge(code, c);
    c = NULL;
    code = hf__credentials_from_sts("x", text, &c, &error);
    judge(code, c);
    return 0;
}
