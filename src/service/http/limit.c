#include "service/http/limit.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"

#include "service/service.h"

enum { SECOND_US = 1000000 };

bool hf__bucket_take(struct hf_bucket *bucket, int64_t rate, int64_t now_us)
{
    int64_t price_us = SECOND_US / (rate < SECOND_US ? rate : SECOND_US);
    int64_t passed_us = now_us - bucket->at_us;
    bucket->level_us += passed_us > SECOND_US || bucket->at_us == 0 ? SECOND_US : passed_us;
    bucket->at_us = now_us;
    if (bucket->level_us > SECOND_US) bucket->level_us = SECOND_US;
    if (bucket->level_us < price_us) return false;
    bucket->level_us -= price_us;
    return true;
}

size_t hf__limit_place(const struct hf_service *service, const char *text, size_t places)
{
    return hf__hash_place(hf__hash_keyed(service->rates.key, hf__slice_str(text)), places);
}

static size_t place_of(const struct hf_service *service, const char *owner)
{
    return hf__limit_place(service, owner, HF_RATE_BUCKETS);
}

bool hf__budget_take(struct hf_service *service, enum hf_budget what, const char *owner,
                     int64_t amount)
{
    int64_t most = service->limits.per_caller[what];
    if (!most) return true;
    int64_t *has = &service->rates.has[what][place_of(service, owner)];
    if (__atomic_add_fetch(has, amount, __ATOMIC_RELAXED) <= most) return true;
    __atomic_sub_fetch(has, amount, __ATOMIC_RELAXED);
    return false;
}

void hf__budget_give(struct hf_service *service, enum hf_budget what, const char *owner,
                     int64_t amount)
{
    if (!service->limits.per_caller[what]) return; /* this never changes */
    __atomic_sub_fetch(&service->rates.has[what][place_of(service, owner)], amount,
                       __ATOMIC_RELAXED);
}

void hf__answer_too_many(struct hf_exchange *exchange, const char *name, const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    hf__count(&exchange->service->metrics.refused_limit);
    exchange->retry_after_s = 1;
    hf__answer_error(exchange, 429, name, "%s", message);
}

static bool allows(struct hf_service *service, struct hf_bucket *of_one, struct hf_bucket *of_all)
{
    int64_t own = service->limits.rate_per_caller, total = service->limits.rate;
    if (own <= 0 && total <= 0) return true;
    int64_t now_us = hf__service_now_us(service);
    pthread_mutex_lock(&service->rates.mutex);
    bool allowed = own <= 0 || hf__bucket_take(of_one, own, now_us);
    if (allowed && total > 0) allowed = hf__bucket_take(of_all, total, now_us);
    pthread_mutex_unlock(&service->rates.mutex);
    return allowed;
}

bool hf__limit_allows(struct hf_service *service, const char *owner)
{
    struct hf_rates *rates = &service->rates;
    return allows(service, &rates->of_caller[place_of(service, owner)], &rates->all);
}

bool hf__limit_allows_refused(struct hf_service *service, const char *address)
{
    struct hf_rates *rates = &service->rates;
    return allows(service, &rates->refused_of[place_of(service, address)], &rates->all_refused);
}
