/* `holdfast serve` executes holdfast-serve, from its own directory, or where it was installed. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/serve.h"
#include "cli/wake.h"

int serve_run(struct cli *cli, struct serve_options *options)
{
    static const char *const places[] = {"holdfast-serve", "../libexec/holdfast/holdfast-serve"};
    char self[PATH_MAX], path[PATH_MAX + 64];
    (void)options;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!cli->given || len <= 0) return cli_usage("the command line is too long");
    self[len] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) slash[1] = '\0';
    sigprocmask(SIG_SETMASK, wake_old_mask(), NULL);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s%s", self, places[i]);
        execv(path, cli->given);
        if (errno != ENOENT && errno != ENOTDIR) break;
    }
    fprintf(stderr, "holdfast: cannot run %s: %s; install holdfast-serve\n", path, strerror(errno));
    return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}
