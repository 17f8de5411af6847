#include "harness/served.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"

static pid_t server;
static char url[128];

bool hf_test_is_served(void)
{
    return getenv("HOLDFAST_TEST_SERVICE") != NULL;
}

static void become(const char *command, const char *store, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    int silent = getenv("HOLDFAST_TEST_SERVICE_LOG") ? STDERR_FILENO : -1;
    if (silent < 0 && !freopen("/dev/null", "w", stderr)) _exit(1);
    execl(command, command, "--config", "/dev/null", "--store", store, "serve", "--listen",
          "127.0.0.1:0", (char *)NULL);
    _exit(127);
}

const char *hf_test_serve(void)
{
    static int count;
    const char *command = getenv("HOLDFAST_TEST_SERVICE");
    char store[512], line[256] = "";
    int pipe_fds[2];
    hf_test_serve_no_more();
    snprintf(store, sizeof store, "file:%s/served-%d.db", hf_test_directory(), count++);
    if (pipe(pipe_fds) != 0) hf_test_fail(__FILE__, __LINE__, "no pipe");
    fflush(NULL);
    server = fork();
    if (server == 0) become(command, store, pipe_fds[1]);
    close(pipe_fds[1]);
    FILE *out = fdopen(pipe_fds[0], "r");
    const char *at = out && fgets(line, sizeof line, out) ? strstr(line, "http://") : NULL;
    if (out) fclose(out);
    if (!at) hf_test_fail(__FILE__, __LINE__, "%s did not start: %s", command, line);
    snprintf(url, sizeof url, "%.*s", (int)strcspn(at + 7, "/ \n") + 7, at);
    return url;
}

void hf_test_serve_no_more(void)
{
    if (server <= 0) return;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = 0;
}
