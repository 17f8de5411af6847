/* Which process this is, without asking the kernel each time. */
#ifndef HF_BASE_PROCESS_H
#define HF_BASE_PROCESS_H

#include <stdint.h>

/* A number that is another one in every process that is forked off. Never 0. */
uint64_t hf__process(void);

#endif
