/*
 * Fencing a write by a transaction: the data is written only if, at that moment, the lock's record
 * says that this grant still holds it. The data needs no token of its own, but lock and data must be
 * tables of one store.
 *
 * Usage: fence_transaction REGION ENDPOINT TABLE, with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
 * in the environment.
 */
#include <holdfast.h>
#include <stdio.h>

#include "dynamodb.h"

static long write_if_held(char **argv, long long token, const char *value)
{
    char body[1024];
    snprintf(body, sizeof body,
             "{\"TransactItems\":["
             "{\"ConditionCheck\":{\"TableName\":\"%s\",\"Key\":{\"key\":{\"S\":\"settings\"}},"
             "\"ConditionExpression\":\"#t = :t AND attribute_exists(#g)\","
             "\"ExpressionAttributeNames\":{\"#t\":\"token\",\"#g\":\"grant\"},"
             "\"ExpressionAttributeValues\":{\":t\":{\"N\":\"%lld\"}}}},"
             "{\"Put\":{\"TableName\":\"%s\",\"Item\":{\"key\":{\"S\":\"setting/mode\"},"
             "\"value\":{\"S\":\"%s\"}}}}]}",
             argv[3], token, argv[3], value);
    return dynamodb_post("TransactWriteItems", argv[1], argv[2], body);
}

/* Holds the lock while it writes; returns the grant's token, or 0. */
static long long hold_and_write(struct hf_client *client, char **argv, const char *value,
                                long *ret_status)
{
    struct hf_error error;
    struct hf_lock *lock;
    if (hf_acquire(client, "settings", 5000, NULL, &lock, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 0;
    }
    long long token = hf_lock_token(lock);
    *ret_status = write_if_held(argv, token, value);
    hf_release(lock, NULL, NULL);
    hf_lock_unref(lock);
    return token;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: fence_transaction REGION ENDPOINT TABLE\n");
        return 64;
    }
    char url[512];
    snprintf(url, sizeof url, "dynamodb://%s?region=%s&endpoint=%s", argv[3], argv[1], argv[2]);
    struct hf_error error;
    struct hf_client *client;
    struct hf_client_options options = {.size = sizeof options, .create_table = true};
    options.store_url = url;
    if (hf_client_new(&options, &client, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    long held = 0, late = 0;
    long long token = hold_and_write(client, argv, "new", &held);
    if (token) late = write_if_held(argv, token, "late"); /* after the release */
    printf("held: HTTP %ld\nafter the release: HTTP %ld\n", held, late);
    return hf_client_close(client, 0) != 0 || held != 200 || late != 400;
}
