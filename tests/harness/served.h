/*
 * A lock service for a test: started on a free port of this machine, on a file of the test's own, if
 * HOLDFAST_TEST_SERVICE names the command. It ends with the test, or with its process.
 */
#ifndef HF_TEST_SERVED_H
#define HF_TEST_SERVED_H

#include <stdbool.h>

/* Whether the tests are to use one. */
bool hf_test_is_served(void);
/* A fresh one, whose URL this is; the last one is stopped. */
const char *hf_test_serve(void);
void hf_test_serve_no_more(void);

#endif
