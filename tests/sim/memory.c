/*
 * The simulator's memory: nothing is freed before the schedule ends, and then
 * all of it. So a client can crash by being forgotten, and a message that
 * arrives late still finds what it points to.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim.h"

enum { BLOCK = 1 << 22, BLOCKS = 256, HEADER = 16 };

static char *blocks[BLOCKS];
static size_t block, used;
static struct sim_world *failing;
static int failing_one_in;

void sim_memory_reset(void)
{
    block = used = 0;
    failing = NULL;
}

void sim_memory_fails(struct sim_world *world, int one_in)
{
    failing = one_in ? world : NULL;
    failing_one_in = one_in;
}

void *hf__malloc(size_t size)
{
    if (failing && sim_below(failing, failing_one_in) == 0) return NULL;
    size_t whole = (size + HEADER + 15) & ~(size_t)15;
    if (whole > BLOCK) return NULL;
    if (used + whole > BLOCK) {
        block++;
        used = 0;
    }
    if (block >= BLOCKS) return NULL;
    if (!blocks[block] && !(blocks[block] = malloc(BLOCK))) return NULL;
    char *at = blocks[block] + used;
    used += whole;
    memcpy(at, &size, sizeof size);
    return at + HEADER;
}

void *hf__calloc(size_t count, size_t size)
{
    void *memory = count && size > BLOCK / count ? NULL : hf__malloc(count * size);
    if (memory) memset(memory, 0, count * size);
    return memory;
}

void *hf__realloc(void *old, size_t size)
{
    void *memory = hf__malloc(size);
    if (!old || !memory) return memory;
    size_t old_size;
    memcpy(&old_size, (char *)old - HEADER, sizeof old_size);
    memcpy(memory, old, old_size < size ? old_size : size);
    return memory;
}

void hf__free(void *memory)
{
    (void)memory;
}

char *hf__strdup(const char *text)
{
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    char *copy = hf__malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}
