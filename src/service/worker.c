#include "base/alloc.h"
#include "base/thread.h"
#include "service/service.h"

enum { THREADS_MAX = 16 };

struct hf_workers {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct hf_list queue;
    bool stopping;
    int count;
    pthread_t threads[THREADS_MAX];
};

static void *run(void *user)
{
    struct hf_workers *workers = user;
    pthread_mutex_lock(&workers->mutex);
    for (;;) {
        struct hf_list *node = hf__list_pop(&workers->queue);
        if (node) {
            struct hf_work *work = HF_CONTAINER(node, struct hf_work, node);
            pthread_mutex_unlock(&workers->mutex);
            work->run(work);
            pthread_mutex_lock(&workers->mutex);
        } else if (workers->stopping) {
            break;
        } else {
            pthread_cond_wait(&workers->wake, &workers->mutex);
        }
    }
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

int hf__workers_start(struct hf_workers **ret, int threads, struct hf_error *reterr)
{
    struct hf_workers *workers = hf__calloc(1, sizeof *workers);
    if (!workers) return hf__error_no_memory(reterr);
    hf__list_init(&workers->queue);
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->wake, NULL);
    while (workers->count < threads && workers->count < THREADS_MAX) {
        if (hf__thread_create(&workers->threads[workers->count], run, workers) != 0) {
            hf__workers_stop(workers);
            return hf__error_set(reterr, HF_ERR_NO_MEMORY, "no thread could be started");
        }
        workers->count++;
    }
    *ret = workers;
    return 0;
}

void hf__work(struct hf_workers *workers, struct hf_work *work)
{
    pthread_mutex_lock(&workers->mutex);
    hf__list_append(&workers->queue, &work->node);
    pthread_cond_signal(&workers->wake);
    pthread_mutex_unlock(&workers->mutex);
}

void hf__workers_stop(struct hf_workers *workers)
{
    if (!workers) return;
    pthread_mutex_lock(&workers->mutex);
    workers->stopping = true;
    pthread_cond_broadcast(&workers->wake);
    pthread_mutex_unlock(&workers->mutex);
    for (int i = 0; i < workers->count; i++) pthread_join(workers->threads[i], NULL);
    pthread_cond_destroy(&workers->wake);
    pthread_mutex_destroy(&workers->mutex);
    hf__free(workers);
}

struct errand {
    struct hf_work work;
    struct hf_exchange *exchange;
    void (*run)(struct hf_exchange *exchange);
};

static void run_errand(struct hf_work *work)
{
    struct errand *errand = HF_CONTAINER(work, struct errand, work);
    errand->run(errand->exchange);
}

void hf__exchange_work(struct hf_exchange *exchange, void (*run_it)(struct hf_exchange *exchange))
{
    struct errand *errand = hf__arena_zalloc(&exchange->arena, 1, sizeof *errand);
    if (!errand) {
        hf__answer_error(exchange, 503, "no-memory", "out of memory");
        return;
    }
    hf__list_init(&errand->work.node);
    errand->work.run = run_errand;
    errand->exchange = exchange;
    errand->run = run_it;
    hf__work(exchange->service->workers, &errand->work);
}
