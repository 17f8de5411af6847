/*
 * What a lock costs its client: bytes per held lock, CPU while nothing happens,
 * and the time of an acquire and release beside that of the two bare writes.
 *
 *     bench_locks [LOCKS]
 *
 * Memory is what the library itself asks for, counted as the allocator rounds
 * it; the store's pages (memory: is SQLite) are not the lock's.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/alloc.h"
#include "holdfast.h"
#include "store/store.h"

static size_t live; /* atomic */

static void *counted(void *memory)
{
    if (memory) __atomic_add_fetch(&live, malloc_usable_size(memory) + 8, __ATOMIC_RELAXED);
    return memory;
}

static void uncount(void *memory)
{
    if (memory) __atomic_sub_fetch(&live, malloc_usable_size(memory) + 8, __ATOMIC_RELAXED);
}

void *hf__malloc(size_t size)
{
    return counted(malloc(size ? size : 1));
}

void *hf__calloc(size_t count, size_t size)
{
    return counted(calloc(count ? count : 1, size ? size : 1));
}

void *hf__realloc(void *old, size_t size)
{
    size_t before = old ? malloc_usable_size(old) + 8 : 0;
    void *memory = realloc(old, size ? size : 1);
    if (!memory) return NULL;
    __atomic_sub_fetch(&live, before, __ATOMIC_RELAXED);
    return counted(memory);
}

void hf__free(void *memory)
{
    uncount(memory);
    free(memory);
}

char *hf__strdup(const char *text)
{
    return text ? counted(strdup(text)) : NULL;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Two conditional updates of one item, as bare as the store allows. */
static double bare_writes_us(struct hf_store *store, int rounds)
{
    double begin = now_s();
    for (int i = 0; i < rounds * 2; i++) {
        struct hf_arena arena = {0};
        struct hf_update update = {0};
        struct hf_value key = hf__s_str("bare");
        hf__update_count(&arena, &update, "n", 0, 1);
        struct hf_call call = {.arena = &arena};
        call.op = (struct hf_op){
            .kind = HF_UPDATE_ITEM,
            .table = HF_LIT("locks"),
            .key = hf__item_with(&arena, (struct hf_item){0}, HF_LIT("key"), &key),
            .condition = hf__cond_absent(&arena, "grant"),
            .update = &update,
            .returns = HF_RETURN_ALL_NEW,
            .old_on_failure = true,
        };
        hf__store_run(store, &call);
        hf__arena_free(&arena);
    }
    return (now_s() - begin) / rounds * 1e6;
}

static double cycles_us(struct hf_client *client, int rounds)
{
    double begin = now_s();
    for (int i = 0; i < rounds; i++) {
        struct hf_lock *lock;
        if (hf_acquire(client, "cycle", 0, NULL, &lock, NULL) != 0) exit(1);
        hf_release(lock, NULL, NULL);
        hf_lock_unref(lock);
    }
    return (now_s() - begin) / rounds * 1e6;
}

int main(int argc, char **argv)
{
    enum { ROUNDS = 10000, IDLE_S = 10 };
    long locks = argc > 1 ? strtol(argv[1], NULL, 10) : 100000;
    struct hf_error error;
    struct hf_store *store;
    struct hf_client *client;
    struct hf_lock **held = calloc((size_t)locks, sizeof *held);
    if (!held || hf_store_open("memory:", NULL, NULL, &store, &error) != 0) return 1;
    struct hf_client_options options = {.size = sizeof options};
    options.store = store;
    options.create_table = true;
    options.session = HF_SESSION_ON;
    if (hf_client_new(&options, &client, &error) != 0) return 1;
    double cycle_us = cycles_us(client, ROUNDS), bare_us = bare_writes_us(store, ROUNDS);
    size_t before = live;
    double begin = now_s();
    for (long i = 0; i < locks; i++) {
        char name[32];
        snprintf(name, sizeof name, "customer/%ld", i);
        if (hf_acquire(client, name, 0, NULL, &held[i], &error) != 0) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
    }
    double took = now_s() - begin;
    double bytes = (double)(live - before) / (double)locks;
    double cpu = cpu_s();
    struct timespec idle = {.tv_sec = IDLE_S};
    nanosleep(&idle, NULL);
    cpu = (cpu_s() - cpu) / IDLE_S * 100;
    begin = now_s();
    int code = hf_client_close(client, 600000);
    double close_s = now_s() - begin;
    for (long i = 0; i < locks; i++) hf_lock_unref(held[i]);
    hf_store_close(store);
    printf("locks, one client with a session on memory:\n");
    printf("  acquire and release       %8.1f us    %.2f x two bare conditional writes (%.1f us)\n",
           cycle_us, cycle_us / bare_us, bare_us);
    printf("  %ld acquires one by one %8.0f /s\n", locks, (double)locks / took);
    printf("  held                      %8.0f bytes per lock   aim <= 400\n", bytes);
    printf("  CPU while idle            %8.3f %% of a core      aim < 1\n", cpu);
    printf("  closing, all released     %8.0f /s\n", (double)locks / close_s);
    free(held);
    return code;
}
