#ifndef HF_BASE_LOG_H
#define HF_BASE_LOG_H

#include "holdfast.h"

/* Where to log and how much. A NULL function is silent. Passed by pointer, never global. */
struct hf_log {
    hf_log_fn fn;
    void *user;
    enum hf_log_level least;
};

void hf__log(const struct hf_log *log, enum hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
