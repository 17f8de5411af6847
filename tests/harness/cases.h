/*
 * What conditions and updates do, row by row: the pure evaluation, the embedded
 * engine and DynamoDB Local are all held to the same rows.
 */
#ifndef HF_TEST_CASES_H
#define HF_TEST_CASES_H

#include "harness/model.h"

struct hf_condition_case {
    const char *text;
    const char *values; /* JSON of the :placeholders, or NULL */
    bool holds;         /* on hf_condition_item */
};
extern const char hf_condition_item[];
extern const struct hf_condition_case hf_condition_cases[];
extern const size_t hf_condition_case_count;

struct hf_update_case {
    const char *text;
    const char *values;
    const char *shown;  /* an attribute, */
    const char *result; /* and its value afterwards as JSON; NULL: gone */
};
extern const char hf_update_item[];
extern const struct hf_update_case hf_update_cases[];
extern const size_t hf_update_case_count;

struct hf_bad_update_case {
    const char *text;
    const char *values;
    const char *message;
};
extern const struct hf_bad_update_case hf_bad_update_cases[];
extern const size_t hf_bad_update_case_count;

/* Fails the test unless the item has the attribute with that value (JSON), or lacks it (NULL). */
void hf_test_check_attribute(struct hf_item item, const char *name, const char *json);

#endif
