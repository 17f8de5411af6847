#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void hf__log(const struct hf_log *log, enum hf_log_level level, const char *format, ...)
{
    if (!log || !log->fn || level < log->least) return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log->fn(log->user, level, line);
}
