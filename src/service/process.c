/* Process metrics, under the names that Prometheus dashboards expect. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/metric.h"

static void put(struct hf_buf *buf, const char *name, const char *type, const char *help,
                double value)
{
    hf__buf_printf(buf, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.15g\n", name,
                   help, name, type, name, value);
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void put_memory(struct hf_buf *buf)
{
    unsigned long long all, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return;
    bool known = fscanf(file, "%llu %llu", &all, &resident) == 2;
    fclose(file);
    if (!known) return;
    double page = (double)sysconf(_SC_PAGESIZE);
    put(buf, "virtual_memory_bytes", "gauge", "Address space.", (double)all * page);
    put(buf, "resident_memory_bytes", "gauge", "Memory in use.", (double)resident * page);
}

/* Linux 6.2 and later report the number; counting ten thousand of them would take too long. */
static void put_descriptors(struct hf_buf *buf)
{
    struct stat directory;
    struct rlimit limit;
    if (stat("/proc/self/fd", &directory) == 0 && directory.st_size > 0)
        put(buf, "open_fds", "gauge", "Open descriptors.", (double)directory.st_size);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        put(buf, "max_fds", "gauge", "Maximum number of open descriptors.", (double)limit.rlim_cur);
}

void hf__process_put(struct hf_buf *buf, int64_t started_unix_s)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) == 0)
        put(buf, "cpu_seconds_total", "counter", "CPU time, of all threads.",
            seconds(used.ru_utime) + seconds(used.ru_stime));
    put_memory(buf);
    put_descriptors(buf);
    put(buf, "start_time_seconds", "gauge", "Start time, in seconds since 1970.",
        (double)started_unix_s);
}
