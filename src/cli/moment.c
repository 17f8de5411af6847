#include "cli/moment.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#define TEN_YEARS_MS ((int64_t)10 * 366 * 86400 * 1000)

static const struct {
    const char *name;
    int64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

static int64_t unit_at(const char **at)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t len = strlen(units[i].name);
        /* "m" is a unit only where "ms" is not. */
        if (strncmp(*at, units[i].name, len) != 0 || (len == 1 && (*at)[1] == 's')) continue;
        *at += len;
        return units[i].ms;
    }
    return 0;
}

bool duration_parse(const char *text, int64_t *ret_ms)
{
    int64_t total_us = 0;
    bool any = false;
    const char *at = text;
    while (*at) {
        int64_t whole = 0, fraction = 0, scale = 1;
        int digits = 0;
        for (; *at >= '0' && *at <= '9' && digits < 13; at++, digits++)
            whole = whole * 10 + (*at - '0');
        if (*at == '.') {
            at++;
            for (; *at >= '0' && *at <= '9' && scale < 1000000; at++, digits++) {
                fraction = fraction * 10 + (*at - '0');
                scale *= 10;
            }
        }
        if (digits == 0) return false;
        int64_t unit_ms = unit_at(&at);
        if (unit_ms == 0) {
            if (*at || any) return false;
            unit_ms = 1000;
        }
        if (whole > TEN_YEARS_MS / unit_ms) return false;
        total_us += whole * unit_ms * 1000 + fraction * (unit_ms * 1000) / scale;
        if (total_us / 1000 > TEN_YEARS_MS) return false;
        any = true;
    }
    if (!any) return false;
    *ret_ms = (total_us + 999) / 1000;
    return true;
}

const char *duration_print(int64_t ms, char ret[MOMENT_SIZE])
{
    long long s = (long long)(ms / 1000);
    if (ms < 0) snprintf(ret, MOMENT_SIZE, "0 s");
    else if (ms < 1000) snprintf(ret, MOMENT_SIZE, "%lld ms", (long long)ms);
    else if (s < 60) snprintf(ret, MOMENT_SIZE, "%lld s", s);
    else if (s < 3600) snprintf(ret, MOMENT_SIZE, "%lldm%llds", s / 60, s % 60);
    else if (s < 86400) snprintf(ret, MOMENT_SIZE, "%lldh%lldm", s / 3600, s / 60 % 60);
    else snprintf(ret, MOMENT_SIZE, "%lldd%lldh", s / 86400, s / 3600 % 24);
    return ret;
}

const char *moment_print(int64_t unix_ms, char ret[MOMENT_SIZE])
{
    int64_t year, rest = unix_ms % 86400000, days = unix_ms / 86400000;
    int month, day;
    hf__date_from_days(days, &year, &month, &day);
    snprintf(ret, MOMENT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (int)year, month, day,
             (int)(rest / 3600000), (int)(rest / 60000 % 60), (int)(rest / 1000 % 60),
             (int)(rest % 1000));
    return ret;
}

static int64_t now_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t wall_ms(void)
{
    return now_ms(CLOCK_REALTIME);
}

int64_t boot_ms(void)
{
    return now_ms(CLOCK_BOOTTIME);
}
