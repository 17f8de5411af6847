/* AWS profiles: the config and credentials files, and what they say about a name. */
#ifndef HF_STORE_PROFILE_H
#define HF_STORE_PROFILE_H

#include "store/environment.h"
#include "store/ini.h"

struct hf_profiles {
    const char *name; /* the one in use */
    bool is_named;    /* somebody asked for it, so it must exist */
    bool is_explicit; /* … in the store's URL */
    const char *config_path;
    const char *credentials_path;
    struct hf_ini config;
    struct hf_ini credentials;
};

/*
 * Reads the files; missing ones are empty. `wanted` is the profile asked for in
 * the store's URL, or NULL for AWS_PROFILE, or else "default".
 */
int hf__profiles_load(struct hf_arena *arena, hf_environment environment, const char *wanted,
                      struct hf_profiles *ret, struct hf_error *reterr);

bool hf__profile_exists(const struct hf_profiles *profiles, const char *name);

/* A setting of a profile, the credentials file's first; NULL if there is none. */
const char *hf__profile_get(const struct hf_profiles *profiles, const char *name, const char *key);

/* A setting of an [sso-session NAME]. */
const char *hf__sso_session_get(const struct hf_profiles *profiles, const char *name,
                                const char *key);

/* A whole file in the arena. HF_ERR_IO when it cannot be read; *ret_missing tells that it is not
 * there. */
int hf__read_file(struct hf_arena *arena, const char *path, size_t limit, struct hf_slice *ret,
                  bool *ret_missing, struct hf_error *reterr);

#endif
