/*
 * Fencing a write in DynamoDB: the item remembers the largest token that wrote
 * it, and its condition refuses smaller ones. The lock is kept in the same
 * table here, which is a matter of taste.
 *
 * Usage: fence_dynamodb REGION ENDPOINT TABLE, with AWS_ACCESS_KEY_ID and
 * AWS_SECRET_ACCESS_KEY in the environment.
 */
#include <holdfast.h>
#include <stdio.h>

#include "dynamodb.h"

static long write_fenced(const char *region, const char *endpoint, const char *table,
                         const char *value, long long token)
{
    char body[1024];
    snprintf(body, sizeof body,
             "{\"TableName\":\"%s\",\"Key\":{\"key\":{\"S\":\"setting/mode\"}},"
             "\"UpdateExpression\":\"SET #v = :v, #f = :f\","
             "\"ConditionExpression\":\"attribute_not_exists(#f) OR #f <= :f\","
             "\"ExpressionAttributeNames\":{\"#v\":\"value\",\"#f\":\"fence\"},"
             "\"ExpressionAttributeValues\":{\":v\":{\"S\":\"%s\"},\":f\":{\"N\":\"%lld\"}}}",
             table, value, token);
    return dynamodb_post("UpdateItem", region, endpoint, body);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: fence_dynamodb REGION ENDPOINT TABLE\n");
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
    long long tokens[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        struct hf_lock *lock;
        if (hf_acquire(client, "settings", 5000, NULL, &lock, &error) != 0) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
        tokens[i] = hf_lock_token(lock);
        hf_release(lock, NULL, NULL);
        hf_lock_unref(lock);
    }
    long second = write_fenced(argv[1], argv[2], argv[3], "new", tokens[1]);
    long first = write_fenced(argv[1], argv[2], argv[3], "old", tokens[0]);
    printf("token %lld: HTTP %ld\ntoken %lld: HTTP %ld\n", tokens[1], second, tokens[0], first);
    return hf_client_close(client, 0) != 0 || second != 200 || first != 400;
}
