#include "cli/foreground.h"

#include <fcntl.h>
#include <unistd.h>

#include "cli/child.h"

void foreground_open(struct foreground *foreground)
{
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    bool is_ours = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
    *foreground = (struct foreground){
        .terminal = terminal,
        .is_ours = is_ours,
        .can_give = is_ours && getpid() == getpgrp() && isatty(STDOUT_FILENO),
    };
}

void foreground_close(struct foreground *foreground)
{
    foreground_take(foreground);
    if (foreground->terminal >= 0) close(foreground->terminal);
    foreground->terminal = -1;
}

bool foreground_give(struct foreground *foreground, pid_t group)
{
    if (foreground->terminal < 0 || tcgetpgrp(foreground->terminal) != getpgrp()) return false;
    foreground->is_given = tcsetpgrp(foreground->terminal, group) == 0;
    return foreground->is_given;
}

/* SIGTTOU is blocked. */
void foreground_take(struct foreground *foreground)
{
    if (foreground->is_given) tcsetpgrp(foreground->terminal, getpgrp());
    foreground->is_given = false;
}

/* As the kernel defines it: a group is orphaned unless a parent of a member is in another group of
 * the same session. A shell is the parent of the group's leader. */
bool foreground_has_shell(void)
{
    pid_t parent = child_parent(getpgrp()); /* the leader's; 0: it has ended */
    return parent > 0 && getsid(parent) == getsid(0) && getpgid(parent) != getpgrp();
}

bool foreground_is_ours(void)
{
    struct foreground foreground;
    foreground_open(&foreground);
    bool is_ours = foreground.is_ours;
    foreground_close(&foreground);
    return is_ours;
}
