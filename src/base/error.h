#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#include "base/slice.h"
#include "holdfast.h"

/* Fills an error, which may be NULL, and returns its code. A message that is too long is cut. */
int hf__error_set(struct hf_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "text: " before the message. */
void hf__error_prefix(struct hf_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

int hf__error_no_memory(struct hf_error *error);

#endif
