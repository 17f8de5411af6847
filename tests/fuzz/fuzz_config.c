/* What users write: AWS's configuration files, store URLs, endpoints, command lines. */
#include "fuzz.h"
#include "store/endpoint.h"
#include "store/ini.h"
#include "store/subprocess.h"
#include "store/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const known[] = {"table", "region", "endpoint", NULL};
    struct hf_arena arena = {0};
    struct hf_ini ini;
    struct hf_url url;
    struct hf_http_url http;
    struct hf_error error;
    struct hf_slice text = hf__slice((const char *)data, size);
    if (hf__ini_parse(&arena, text, "file", &ini, &error) == 0) {
        hf__ini_get(&ini, "default", "region");
        hf__ini_has_section(&ini, "profile x");
    }
    const char *copy = hf__arena_str(&arena, text);
    if (hf__url_parse(&arena, copy, "", known, &url, &error) == 0) hf__url_get(&url, "table");
    if (hf__http_url_parse(copy, &http, &error) == 0)
        MUST(http.authority.len > 0 && http.path.len > 0 && http.path.ptr[0] == '/');
    char **words = hf__split_command(&arena, copy);
    MUST(!words || words[0]);
    hf__arena_free(&arena);
    return 0;
}
