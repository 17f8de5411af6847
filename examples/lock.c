/* A lock in twenty lines. Usage: lock STORE-URL NAME, such as: lock file:locks.db nightly-report */
#include <holdfast.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct hf_error error;
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_client_options options = {.size = sizeof options};
    options.store_url = argc > 1 ? argv[1] : "memory:";
    if (hf_client_new(&options, &client, &error) != 0)
        return fprintf(stderr, "%s\n", error.message), 1;
    if (hf_acquire(client, argc > 2 ? argv[2] : "nightly-report", 5000, NULL, &lock, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        hf_client_close(client, 0);
        return 1;
    }
    printf("%s is ours, with token %lld, for %lld ms\n", hf_lock_name(lock),
           (long long)hf_lock_token(lock), (long long)hf_lock_left_ms(lock));
    hf_release(lock, NULL, NULL);
    hf_lock_unref(lock);
    return hf_client_close(client, 0);
}
