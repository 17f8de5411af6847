#include "store/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int hf__read_file(struct hf_arena *arena, const char *path, size_t limit, struct hf_slice *ret,
                  bool *ret_missing, struct hf_error *reterr)
{
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (ret_missing) *ret_missing = fd < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (fd < 0 || fstat(fd, &info) != 0) {
        int code = hf__error_set(reterr, HF_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return code;
    }
    char *text = NULL;
    size_t len = 0, size = (size_t)info.st_size;
    int code = 0;
    if (!S_ISREG(info.st_mode) || size > limit)
        code = hf__error_set(reterr, HF_ERR_LIMIT, "%s is not a file of at most %zu bytes", path,
                             limit);
    else if (!(text = hf__arena_alloc(arena, size + 1))) code = hf__error_no_memory(reterr);
    while (code == 0 && len < size) {
        ssize_t got = read(fd, text + len, size - len);
        if (got < 0 && errno != EINTR)
            code = hf__error_set(reterr, HF_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        if (got == 0) break;
        if (got > 0) len += (size_t)got;
    }
    close(fd);
    if (code == 0) *ret = hf__slice(text, len);
    return code;
}

static const char *default_path(struct hf_arena *arena, hf_environment environment,
                                const char *variable, const char *below_home)
{
    const char *path = hf__env_get(environment, variable);
    const char *home = hf__env_get(environment, "HOME");
    if (path) return path;
    return home ? hf__arena_printf(arena, "%s/%s", home, below_home).ptr : NULL;
}

static int load_file(struct hf_arena *arena, const char *path, struct hf_ini *ret,
                     struct hf_error *reterr)
{
    struct hf_slice text = {0};
    bool missing;
    if (!path) return 0;
    int code = hf__read_file(arena, path, HF_INI_MAX_SIZE, &text, &missing, reterr);
    if (code != 0) return missing ? 0 : code;
    return hf__ini_parse(arena, text, path, ret, reterr);
}

int hf__profiles_load(struct hf_arena *arena, hf_environment environment, const char *wanted,
                      struct hf_profiles *ret, struct hf_error *reterr)
{
    struct hf_profiles profiles = {.name = wanted, .is_explicit = wanted != NULL};
    if (!profiles.name) profiles.name = hf__env_get(environment, "AWS_PROFILE");
    profiles.is_named = profiles.name != NULL;
    if (!profiles.name) profiles.name = "default";
    profiles.config_path = default_path(arena, environment, "AWS_CONFIG_FILE", ".aws/config");
    profiles.credentials_path =
        default_path(arena, environment, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    int code = load_file(arena, profiles.config_path, &profiles.config, reterr);
    if (code == 0)
        code = load_file(arena, profiles.credentials_path, &profiles.credentials, reterr);
    if (code == 0) *ret = profiles;
    return code;
}

static void config_section(const char *name, char *ret, size_t size)
{
    snprintf(ret, size, strcmp(name, "default") == 0 ? "%s" : "profile %s", name);
}

bool hf__profile_exists(const struct hf_profiles *profiles, const char *name)
{
    char section[256];
    config_section(name, section, sizeof section);
    return hf__ini_has_section(&profiles->config, section) ||
           hf__ini_has_section(&profiles->credentials, name);
}

const char *hf__profile_get(const struct hf_profiles *profiles, const char *name, const char *key)
{
    char section[256];
    config_section(name, section, sizeof section);
    const char *value = hf__ini_get(&profiles->credentials, name, key);
    return value ? value : hf__ini_get(&profiles->config, section, key);
}

const char *hf__sso_session_get(const struct hf_profiles *profiles, const char *name,
                                const char *key)
{
    char section[256];
    snprintf(section, sizeof section, "sso-session %s", name);
    return hf__ini_get(&profiles->config, section, key);
}
