/* For the examples: one signed request to DynamoDB, or to what speaks its API. */
#ifndef EXAMPLES_DYNAMODB_H
#define EXAMPLES_DYNAMODB_H

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

static size_t dynamodb_ignore(char *data, size_t size, size_t count, void *user)
{
    (void)data, (void)user;
    return size * count;
}

/* The HTTP status: 200 it was carried out, 400 a condition failed; 0: no answer. */
static long dynamodb_post(const char *operation, const char *region, const char *endpoint,
                          const char *body)
{
    char credentials[256], sign[128], target[128];
    const char *id = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY");
    snprintf(credentials, sizeof credentials, "%s:%s", id ? id : "", secret ? secret : "");
    snprintf(sign, sizeof sign, "aws:amz:%s:dynamodb", region);
    snprintf(target, sizeof target, "X-Amz-Target: DynamoDB_20120810.%s", operation);
    CURL *curl = curl_easy_init();
    struct curl_slist *headers =
        curl_slist_append(NULL, "Content-Type: application/x-amz-json-1.0");
    headers = curl_slist_append(headers, target);
    curl_easy_setopt(curl, CURLOPT_URL, endpoint);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, sign);
    curl_easy_setopt(curl, CURLOPT_USERPWD, credentials);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, dynamodb_ignore);
    long status = 0;
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return status;
}

#endif
