#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void *hf__malloc(size_t size)
{
    return malloc(size ? size : 1);
}

void *hf__calloc(size_t count, size_t size)
{
    return calloc(count ? count : 1, size ? size : 1);
}

void *hf__realloc(void *old, size_t size)
{
    return realloc(old, size ? size : 1);
}

void hf__free(void *ptr)
{
    free(ptr);
}

char *hf__strdup(const char *text)
{
    return text ? strdup(text) : NULL;
}
