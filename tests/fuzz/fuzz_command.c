/* What people type and write: durations, options, configuration files. */
#include "cli/moment.h"
#include "cli/settings.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_arena arena = {0};
    struct hf_error error;
    struct settings settings = {0};
    settings_read(&settings, &arena, hf__slice((const char *)data, size), "config", &error);

    /* The same as a command line: one argument per line. */
    enum { MOST = 64 };
    char *words[MOST + 1] = {NULL};
    int count = 0;
    char *text = hf__arena_str(&arena, hf__slice((const char *)data, size));
    for (char *at = text; at && count < MOST; count++) {
        words[count] = at;
        at = strchr(at, '\n');
        if (at) *at++ = '\0';
    }
    struct arguments arguments = {words, count};
    const struct option_set set = {settings_options, &settings};
    if (options_take(&set, 1, &arguments, count % 3, &error) == 0) {
        MUST(arguments.count >= 0 && arguments.count <= count);
        MUST(words[arguments.count] == NULL);
    }
    int64_t ms;
    char printed[MOMENT_SIZE];
    if (text && duration_parse(text, &ms)) {
        MUST(ms >= 0);
        duration_print(ms, printed);
        moment_print(ms, printed);
    }
    hf__arena_free(&arena);
    return 0;
}
