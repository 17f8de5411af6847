/*
 * holdfast behind the line protocol of the interoperability test (see run):
 *
 *     ours FORMAT ENDPOINT TABLE OWNER LEASE_MS [fencing] [keep] [trust] [key=N|B]
 * [sort=NAME:VALUE]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "holdfast.h"

enum { LOCKS = 16 };

static struct hf_client *client;
static struct hf_lock *held[LOCKS];
static struct hf_error error;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct hf_lock **find(const char *name)
{
    for (int i = 0; i < LOCKS; i++) {
        if (held[i] && strcmp(hf_lock_name(held[i]), name) == 0) return &held[i];
    }
    return NULL;
}

static int acquire(const char *name, int64_t timeout_ms, bool shared, const char *data,
                   const char *purpose)
{
    struct hf_acquire_options options = {.size = sizeof options, .shared = shared};
    const struct hf_attribute attribute = {"purpose", purpose};
    struct hf_lock *lock;
    if (purpose) {
        options.attributes = &attribute;
        options.attribute_count = 1;
    }
    if (data) {
        options.data = data;
        options.data_size = strlen(data);
    }
    int code = hf_acquire(client, name, timeout_ms, &options, &lock, &error);
    if (code != 0) return code;
    for (int i = 0; i < LOCKS; i++) {
        if (held[i]) continue;
        held[i] = lock;
        return 0;
    }
    return HF_ERR_LIMIT;
}

static int release(const char *name)
{
    struct hf_lock **lock = find(name);
    if (!lock) return HF_ERR_LOST;
    int code = hf_release(*lock, NULL, &error);
    hf_lock_unref(*lock);
    *lock = NULL;
    return code;
}

static void say(int code)
{
    if (code == 0) printf("ok\n");
    else if (code == HF_ERR_HELD || code == HF_ERR_TIMED_OUT) printf("held\n");
    else if (code == HF_ERR_LOST) printf("lost\n");
    else printf("error %s\n", error.message);
}

/* Increments the number in a file under the lock, as often as it can. */
static void count(const char *name, const char *path, int64_t ms)
{
    long done = 0;
    for (int64_t end_ms = now_ms() + ms; now_ms() < end_ms;) {
        int code = acquire(name, 5000, false, NULL, NULL);
        if (code == HF_ERR_HELD || code == HF_ERR_TIMED_OUT) continue;
        if (code != 0) {
            say(code);
            return;
        }
        long value = 0;
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%ld", &value) != 1) value = -1000000;
        if (file) fclose(file);
        struct timespec a_while = {.tv_nsec = 3000000};
        nanosleep(&a_while, NULL);
        file = fopen(path, "w");
        if (file) {
            fprintf(file, "%ld\n", value + 1);
            fclose(file);
            done++;
        }
        release(name);
        nanosleep(&a_while, NULL);
    }
    printf("ok %ld\n", done);
}

static void obey(char *line)
{
    char *rest = line;
    const char *command = strsep(&rest, " "), *name = strsep(&rest, " ");
    const char *first = strsep(&rest, " "), *second = strsep(&rest, " ");
    const char *third = strsep(&rest, " ");
    if (!command || !name) {
        printf("error what?\n");
    } else if (strcmp(command, "acquire") == 0 || strcmp(command, "share") == 0) {
        bool shared = *command == 's';
        int code = acquire(name, first ? strtol(first, NULL, 10) : 0, shared, second, third);
        if (code == 0) printf("ok %lld\n", (long long)hf_lock_token(*find(name)));
        else say(code);
    } else if (strcmp(command, "release") == 0) {
        say(release(name));
    } else if (strcmp(command, "data") == 0 || strcmp(command, "purpose") == 0) {
        struct hf_lock_info *info;
        int code = hf_get(client, name, &info, &error);
        if (code != 0) {
            say(code);
            return;
        }
        const char *purpose = "";
        for (size_t i = 0; i < info->attribute_count; i++) {
            if (strcmp(info->attributes[i].name, "purpose") == 0)
                purpose = info->attributes[i].text;
        }
        if (*command == 'p') printf("ok %s\n", purpose);
        else printf("ok %.*s\n", (int)info->data_size, info->data ? (const char *)info->data : "");
        hf_lock_info_free(info);
    } else if (strcmp(command, "count") == 0 && first && second) {
        count(name, first, strtol(second, NULL, 10));
    } else {
        printf("error unknown command %s\n", command);
    }
}

int main(int argc, char **argv)
{
    if (argc < 6) return 64;
    char url[512];
    snprintf(url, sizeof url, "dynamodb://%s?region=us-east-1&endpoint=%s", argv[3], argv[2]);
    struct hf_client_options options = {.size = sizeof options};
    options.store_url = url;
    options.format = argv[1];
    options.owner = argv[4];
    options.lease_ms = strtol(argv[5], NULL, 10);
    options.poll_limit_ms = 100;
    options.skew_ms = 1000;
    options.create_table = true;
    for (int i = 6; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (strcmp(argv[i], "fencing") == 0) options.fencing = true;
        else if (strcmp(argv[i], "keep") == 0) options.keep_on_release = true;
        else if (strcmp(argv[i], "trust") == 0) options.trust_clock = true;
        else if (strncmp(argv[i], "key=", 4) == 0) options.key_type = argv[i][4];
        else if (value && strncmp(argv[i], "sort=", 5) == 0) {
            options.sort_key_name = value + 1;
            char *colon = strchr(value, ':');
            if (!colon) return 64;
            *colon = '\0';
            options.sort_key = colon + 1;
        }
    }
    if (hf_client_new(&options, &client, &error) != 0) {
        printf("error %s\n", error.message);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    char line[1024];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "quit") == 0) break;
        obey(line);
    }
    for (int i = 0; i < LOCKS; i++) hf_lock_unref(held[i]);
    return hf_client_close(client, 0);
}
