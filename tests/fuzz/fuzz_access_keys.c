/* A file of access keys: all that are in it are found, and fit into a signature. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "service/http/access_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct hf_access_keys *keys = NULL;
    struct hf_slice secret;
    struct hf_error error = {0};
    int fd = memfd_create("keys", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int code = hf__access_keys_load(path, NULL, NULL, &keys, &error);
    MUST((code == 0) == (keys != NULL));
    MUST(code == 0 || error.message[0] != '\0');
    MUST(!hf__access_keys_find(keys, HF_LIT(""), &secret));
    MUST(!hf__access_keys_find(keys, HF_LIT("a/b"), &secret));
    /* The first word of the first line, if that is a key. */
    char line[256];
    size_t len = size < sizeof line - 1 ? size : sizeof line - 1;
    memcpy(line, data, len);
    line[len] = '\0';
    len = strcspn(line, " \t\r\n#");
    if (keys && len > 0 && line[0] != '#' && strlen(line) > len && line[len] != '#') {
        MUST(hf__access_keys_find(keys, hf__slice(line, len), &secret));
        MUST(secret.len >= 8);
    }
    hf__access_keys_unref(hf__access_keys_ref(keys));
    hf__access_keys_unref(keys);
    close(fd);
    return 0;
}
