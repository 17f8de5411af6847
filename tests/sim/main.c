/* holdfast-sim: runs schedules, and says what broke. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "format/mutant.h"
#include "sim.h"

static const char usage[] =
    "holdfast-sim [--seed N] [--schedules M] [--clients K] [--faults LIST] [--format F]\n"
    "             [--profile default|tight|long] [--trace] [--directed]\n"
    "             [--fencing] [--trust-clock] [--keep]      (of dlock, fail-open, awslabs)\n"
    "\n"
    "Runs the protocol through M random schedules from seed N on, and checks I1 to I8 at\n"
    "every step (docs/PROTOCOL.md). --faults takes a comma-separated list of loss,\n"
    "duplicates, delays, pauses, crashes, cancels, clocks, ttl, hands, foreign, errors,\n"
    "services (callers for whom several clients act by grant), memory, remote (clients that\n"
    "come through a service which does not trust them);\n"
    "'all' (the default) or 'none'. --trace shows every step; --directed runs only the\n"
    "directed schedules, which are part of every run from seed 1.\n"
    "Exit: 0 nothing broke, 1 something did, 64 wrong usage.\n";

static const struct {
    const char *name;
    unsigned fault;
} fault_names[] = {
    {"loss", SIM_LOSS},       {"duplicates", SIM_DUPLICATES},
    {"delays", SIM_DELAYS},   {"pauses", SIM_PAUSES},
    {"crashes", SIM_CRASHES}, {"cancels", SIM_CANCELS},
    {"clocks", SIM_CLOCKS},   {"ttl", SIM_TTL},
    {"hands", SIM_HANDS},     {"foreign", SIM_FOREIGN},
    {"errors", SIM_ERRORS},   {"services", SIM_SERVICES},
    {"memory", SIM_MEMORY},   {"remote", SIM_REMOTE},
    {"all", SIM_ALL_FAULTS},  {"none", 0},
};

#ifdef HF_MUTANTS
enum hf_mutant hf__mutant;
static const char *const mutant_names[] = {"none",
#define NAME(constant, name, wrong) name,
                                           HF_MUTANTS_LIST(NAME)
#undef NAME
};
#endif

static void wrong(const char *what, const char *value)
{
    fprintf(stderr, "holdfast-sim: %s: %s\n%s", what, value, usage);
    exit(64);
}

static int64_t number(const char *option, const char *text, int64_t most)
{
    int64_t value;
    if (!hf__parse_int64(hf__slice_str(text), &value) || value < 0 || value > most)
        wrong(option, text);
    return value;
}

static unsigned faults_of(char *list)
{
    unsigned faults = 0;
    char *rest = list;
    for (char *word; (word = strsep(&rest, ","));) {
        size_t i = 0;
        while (i < sizeof fault_names / sizeof fault_names[0] &&
               strcmp(fault_names[i].name, word) != 0)
            i++;
        if (i == sizeof fault_names / sizeof fault_names[0]) wrong("no such fault", word);
        faults |= fault_names[i].fault;
    }
    return faults;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The last lines of the trace of a schedule that broke. */
static void show_end(void (*run)(void *user), void *user)
{
    enum { LINES = 60 };
    fflush(stdout);
    char path[] = "/tmp/holdfast-sim.XXXXXX";
    int fd = mkstemp(path);
    int out = dup(STDOUT_FILENO);
    if (fd < 0 || out < 0) return;
    dup2(fd, STDOUT_FILENO);
    run(user);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    close(fd);
    FILE *file = fopen(path, "r");
    unlink(path);
    if (!file) return;
    static char lines[LINES][256];
    size_t count = 0;
    while (fgets(lines[count % LINES], sizeof lines[0], file)) count++;
    fclose(file);
    for (size_t i = count > LINES ? count - LINES : 0; i < count; i++)
        fputs(lines[i % LINES], stdout);
}

static struct sim_world world;
static struct sim_params params = {
    .seed = 1,
    .faults = SIM_ALL_FAULTS,
    .format = &hf__format_holdfast,
};
static int directed_at;

static void run_schedule(void *user)
{
    (void)user;
    params.trace = true;
    sim_schedule(&world, &params);
}

static void run_directed(void *user)
{
    (void)user;
    sim_directed(&world, directed_at, true, params.format);
}

static int directed(bool trace)
{
    int failed = 0;
    for (directed_at = 0; directed_at < sim_directed_count(); directed_at++) {
        if (sim_directed(&world, directed_at, trace, params.format)) continue;
        failed++;
        printf("directed schedule \"%s\" broke: %s\n", sim_directed_name(directed_at),
               world.failure);
        if (!trace) show_end(run_directed, NULL);
    }
    return failed;
}

int main(int argc, char **argv)
{
    int64_t schedules = 1000;
    bool trace = false, directed_only = false;
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},    {"schedules", required_argument, NULL, 'n'},
        {"clients", required_argument, NULL, 'c'}, {"faults", required_argument, NULL, 'f'},
        {"format", required_argument, NULL, 'F'},  {"profile", required_argument, NULL, 'p'},
        {"trace", no_argument, NULL, 't'},         {"directed", no_argument, NULL, 'd'},
        {"mutant", required_argument, NULL, 'm'},  {"fencing", no_argument, NULL, 'x'},
        {"trust-clock", no_argument, NULL, 'y'},   {"keep", no_argument, NULL, 'z'},
        {"help", no_argument, NULL, 'h'},          {0},
    };
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (c) {
        case 's': params.seed = (uint64_t)number("--seed", optarg, INT64_MAX / 2); break;
        case 'n': schedules = number("--schedules", optarg, INT64_MAX / 2); break;
        case 'c': params.client_count = (int)number("--clients", optarg, SIM_CLIENTS - 2); break;
        case 'f': params.faults = faults_of(optarg); break;
        case 'F':
            params.format = hf__format_find(hf__slice_str(optarg));
            if (!params.format) wrong("no such format", optarg);
            break;
        case 'p': {
            int profile = 0;
            while (profile < SIM_PROFILES && strcmp(sim_profile_names[profile], optarg) != 0)
                profile++;
            if (profile == SIM_PROFILES) wrong("no such profile", optarg);
            params.profile = (enum sim_profile)profile;
            break;
        }
        case 'x': params.fencing = true; break;
        case 'y': params.trust_clock = true; break;
        case 'z': params.keep_on_release = true; break;
        case 't': trace = true; break;
        case 'd': directed_only = true; break;
        case 'm': {
#ifdef HF_MUTANTS
            int mutant = 0;
            while (mutant < HF_MUTANT_COUNT && strcmp(mutant_names[mutant], optarg) != 0) mutant++;
            if (mutant == HF_MUTANT_COUNT) wrong("no such mutant", optarg);
            hf__mutant = (enum hf_mutant)mutant;
            break;
#else
            wrong("this program has no mutants", optarg);
#endif
        } break;
        case 'h': fputs(usage, stdout); return 0;
        default: fputs(usage, stderr); return 64;
        }
    }
    if (optind < argc) wrong("unexpected argument", argv[optind]);

    bool native = params.format == &hf__format_holdfast;
    int failed =
        directed_only || (params.seed == 1 && native) ? directed(trace && directed_only) : 0;
    if (directed_only) {
        printf("%d directed schedules, %d broke\n", sim_directed_count(), failed);
        return failed ? 1 : 0;
    }
    if (failed) return 1;
    bool terminal = isatty(STDOUT_FILENO);
    double begin = seconds(), shown = begin;
    uint64_t first = params.seed, requests = 0, grants = 0, losses = 0, takeovers = 0;
    params.trace = trace;
    for (int64_t i = 0; i < schedules; i++) {
        params.seed = first + (uint64_t)i;
        bool good = sim_schedule(&world, &params);
        requests += world.requests, grants += world.grants;
        losses += world.losses, takeovers += world.takeovers;
        if (!good) {
            printf("seed %llu, profile %s broke: %s\n", (unsigned long long)params.seed,
                   sim_profile_names[params.profile], world.failure);
            if (!trace) show_end(run_schedule, NULL);
            return 1;
        }
        if (terminal && (i & 255) == 255 && seconds() - shown > 1) {
            shown = seconds();
            printf("\r%lld schedules, %.0f/s ", (long long)i + 1,
                   (double)(i + 1) / (shown - begin));
            fflush(stdout);
        }
    }
    double took = seconds() - begin;
    printf("%s%lld schedules (%s, %s) from seed %llu: nothing broke; %llu requests, %llu grants, "
           "%llu takeovers, %llu losses; %.0f schedules/s\n",
           terminal ? "\r" : "", (long long)schedules, params.format->name,
           sim_profile_names[params.profile], (unsigned long long)first,
           (unsigned long long)requests, (unsigned long long)grants, (unsigned long long)takeovers,
           (unsigned long long)losses, (double)schedules / (took > 0 ? took : 1));
    return 0;
}
