/* Which process this is, without asking the kernel each time. */
#ifndef HF_BASE_PROCESS_H
#define HF_BASE_PROCESS_H

#include <stdint.h>

/* A number that differs in every forked process. Never 0. */
uint64_t hf__process(void);

#endif
