#include "store/environment.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *hf__env_get(hf_environment environment, const char *name)
{
    const char *value = NULL;
    if (!environment) value = getenv(name);
    else
        for (; environment[0]; environment += 2)
            if (strcmp(environment[0], name) == 0) value = environment[1];
    return value && *value ? value : NULL;
}

bool hf__text_is_true(const char *text)
{
    return text && (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

bool hf__env_is_true(hf_environment environment, const char *name)
{
    return hf__text_is_true(hf__env_get(environment, name));
}
