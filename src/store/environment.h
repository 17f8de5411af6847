/* The environment, as something that can be passed in. */
#ifndef HF_STORE_ENVIRONMENT_H
#define HF_STORE_ENVIRONMENT_H

#include <stdbool.h>

/* Pairs of name and value, NULL-terminated; NULL means the process's own. */
typedef const char *const *hf_environment;

/* NULL when it is not set, or empty. */
const char *hf__env_get(hf_environment environment, const char *name);

/* Whether it is set to "true" (any case) or "1". */
bool hf__env_is_true(hf_environment environment, const char *name);

bool hf__text_is_true(const char *text);

#endif
