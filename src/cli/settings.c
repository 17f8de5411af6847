#include "cli/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

enum { CONFIG_MAX = 64 * 1024, VARIABLE_MAX = 64 };

#define AT(member) offsetof(struct settings, member)

const struct option settings_options[] = {
    {"store", 0, OPTION_TEXT, "URL", AT(store),
     "file:PATH, https://HOST or dynamodb://TABLE?region=REGION (default: your own file)"},
    {"token-file", 0, OPTION_TEXT, "FILE", AT(token_file),
     "https: file with the token for the service"},
    {"ca", 0, OPTION_TEXT, "FILE", AT(ca), "https: certificates to trust instead of the system's"},
    {"client-cert", 0, OPTION_TEXT, "FILE", AT(client_cert), "https: the client certificate"},
    {"client-key", 0, OPTION_TEXT, "FILE", AT(client_key), "https: its key (default: same file)"},
    {"format", 0, OPTION_TEXT, "NAME", AT(format),
     "table format, if other lock clients use it too (default: holdfast)"},
    {"table", 0, OPTION_TEXT, "NAME", AT(table), "table name, instead of the store's"},
    {"owner", 0, OPTION_TEXT, "TEXT", AT(owner), "owner of the locks (default: user@host:pid)"},
    {"lease", 0, OPTION_DURATION, "DUR", AT(lease_ms),
     "how long a lock outlives its holder's last renewal (default: 20s)"},
    {"output", 'o', OPTION_TEXT, "text|json", AT(output), "output format (default: text)"},
    {"color", 0, OPTION_TEXT, "WHEN", AT(color), "auto, always or never"},
    {"quiet", 'q', OPTION_FLAG, NULL, AT(quiet), "print less"},
    {"verbose", 'v', OPTION_FLAG, NULL, AT(verbose), "report what happens"},
    {"config", 0, OPTION_TEXT, "FILE", AT(config), "read this instead of your own configuration"},
    {"request-timeout", 0, OPTION_DURATION, "DUR", AT(request_timeout_ms),
     "time limit of one request (default: a fifth of the lease, at most 3s)"},
    {"poll", 0, OPTION_DURATION, "DUR", AT(poll_ms),
     "maximum time between polls of a lock (default: 1s)"},
    {"skew", 0, OPTION_DURATION, "DUR", AT(skew_ms),
     "how far clocks may differ (see man holdfast)"},
    {"key-name", 0, OPTION_TEXT, "NAME", AT(key_name), "name of the table's partition key"},
    {"key-type", 0, OPTION_TEXT, "S|N|B", AT(key_type), "type of the table's partition key"},
    {"sort-key", 0, OPTION_TEXT, "NAME=VALUE", AT(sort_key),
     "sort key of the table, and its value in our locks"},
    {"key-prefix", 0, OPTION_TEXT, "TEXT", AT(key_prefix), "prefix of every lock name"},
    {"fencing", 0, OPTION_FLAG, NULL, AT(fencing), "dlock: use fencing tokens"},
    {"keep-on-release", 0, OPTION_FLAG, NULL, AT(keep_on_release),
     "awslabs, dynamolock: keep released records"},
    {"trust-clock", 0, OPTION_FLAG, NULL, AT(trust_clock), "fail-open: trust all clocks"},
    {"hold-on-unavailable", 0, OPTION_FLAG, NULL, AT(hold_on_unavailable),
     "awslabs: keep locks while the store answers 503"},
    {"help", 'h', OPTION_FLAG, NULL, AT(help), "show this help"},
    {"version", 'V', OPTION_FLAG, NULL, AT(version), "show the version"},
    {0},
};

/* These are allowed on the command line only. */
static bool is_momentary(const struct option *option)
{
    static const char *const names[] = {"config", "help", "version"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(option->name, names[i]) == 0) return true;
    }
    return false;
}

/* An explicit "no" counts as a setting. */
static uint64_t bit_of(const struct option *option)
{
    return (uint64_t)1 << (option - settings_options);
}

static bool is_given(const struct settings *settings, const struct option *option)
{
    if (settings->decided & bit_of(option)) return true;
    const char *at = (const char *)settings + option->offset;
    switch (option->kind) {
    case OPTION_FLAG: return *(const bool *)at;
    case OPTION_TEXT: return *(const char *const *)at != NULL;
    default: return *(const int64_t *)at != 0;
    }
}

/* A flag is yes or no in files and variables. */
static int set(struct settings *settings, const struct option *option, const char *text,
               const char *where, struct hf_error *reterr)
{
    static const char *const yes[] = {"1", "true", "yes", "on", NULL};
    static const char *const no[] = {"0", "false", "no", "off", "", NULL};
    int code = 0;
    if (is_given(settings, option)) return 0;
    settings->decided |= bit_of(option);
    if (option->kind == OPTION_FLAG) {
        for (size_t i = 0; yes[i]; i++) {
            if (strcmp(text, yes[i]) == 0) return option_set_value(option, settings, NULL, reterr);
        }
        for (size_t i = 0; no[i]; i++) {
            if (strcmp(text, no[i]) == 0) return 0;
        }
        code = hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid value \"%.64s\": expected true or false", text);
    } else {
        code = option_set_value(option, settings, text, reterr);
    }
    if (code != 0) hf__error_prefix(reterr, "%s", where);
    return code;
}

/* ---- variables ---- */

static void variable_name(const char *name, char ret[VARIABLE_MAX])
{
    size_t at = (size_t)snprintf(ret, VARIABLE_MAX, "HOLDFAST_");
    for (; *name && at + 1 < VARIABLE_MAX; name++) {
        char c = *name;
        ret[at++] = (char)(c == '-' ? '_' : c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    ret[at] = '\0';
}

static int from_environment(struct settings *settings, struct hf_error *reterr)
{
    for (const struct option *option = settings_options; option->name; option++) {
        char name[VARIABLE_MAX];
        variable_name(option->name, name);
        const char *value = is_momentary(option) ? NULL : getenv(name);
        if (!value || (!*value && option->kind != OPTION_FLAG)) continue;
        int code = set(settings, option, value, name, reterr);
        if (code != 0) return code;
    }
    return 0;
}

/* ---- files ---- */

static struct hf_slice trim(struct hf_slice text)
{
    while (text.len && strchr(" \t\r", text.ptr[0])) text = hf__slice_skip(text, 1);
    while (text.len && strchr(" \t\r", text.ptr[text.len - 1])) text.len--;
    return text;
}

static const struct option *find(struct hf_slice name)
{
    for (const struct option *option = settings_options; option->name; option++) {
        if (!is_momentary(option) && hf__slice_is(name, option->name)) return option;
    }
    return NULL;
}

static int take_line(struct settings *settings, struct hf_arena *arena, struct hf_slice line,
                     const char *where, struct hf_error *reterr)
{
    line = trim(line);
    if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';') return 0;
    const char *equals = memchr(line.ptr, '=', line.len);
    size_t len = equals ? (size_t)(equals - line.ptr) : line.len;
    struct hf_slice name = trim(hf__slice(line.ptr, len));
    const struct option *option = find(name);
    if (!equals) return hf__error_set(reterr, HF_ERR_SYNTAX, "%s: expected NAME = VALUE", where);
    if (!option)
        return hf__error_set(reterr, HF_ERR_SYNTAX,
                             "%s: unknown setting \"%.*s\"; see holdfast --help", where,
                             HF_FMT(name));
    char *value = hf__arena_str(arena, trim(hf__slice_skip(line, len + 1)));
    return value ? set(settings, option, value, where, reterr) : hf__error_no_memory(reterr);
}

int settings_read(struct settings *settings, struct hf_arena *arena, struct hf_slice text,
                  const char *path, struct hf_error *reterr)
{
    if (!hf__utf8_valid(text) || (text.len && memchr(text.ptr, '\0', text.len)))
        return hf__error_set(reterr, HF_ERR_SYNTAX, "%s: not UTF-8 text", path);
    int code = 0;
    for (int number = 1; text.len > 0 && code == 0; number++) {
        const char *newline = memchr(text.ptr, '\n', text.len);
        size_t len = newline ? (size_t)(newline - text.ptr) : text.len;
        char where[512];
        snprintf(where, sizeof where, "%.400s:%d", path, number);
        code = take_line(settings, arena, hf__slice(text.ptr, len), where, reterr);
        text = hf__slice_skip(text, newline ? len + 1 : len);
    }
    return code;
}

static int from_file(struct settings *settings, struct hf_arena *arena, const char *path,
                     bool must_exist, struct hf_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && !must_exist) return 0;
    if (fd < 0)
        return hf__error_set(reterr, HF_ERR_INVALID, "cannot read %s: %s", path, strerror(errno));
    char *text = hf__arena_alloc(arena, CONFIG_MAX + 1);
    size_t len = 0;
    ssize_t got = 1;
    while (text && len <= CONFIG_MAX && got > 0) {
        got = read(fd, text + len, CONFIG_MAX + 1 - len);
        if (got > 0) len += (size_t)got;
        if (got < 0 && errno == EINTR) got = 1;
    }
    int failed = errno;
    close(fd);
    if (!text) return hf__error_no_memory(reterr);
    if (got < 0)
        return hf__error_set(reterr, HF_ERR_INVALID, "cannot read %s: %s", path, strerror(failed));
    if (len > CONFIG_MAX)
        return hf__error_set(reterr, HF_ERR_LIMIT, "%s: longer than %d KiB", path,
                             CONFIG_MAX / 1024);
    const char *store = settings->store;
    int code = settings_read(settings, arena, hf__slice(text, len), path, reterr);
    if (settings->store != store) settings->store_from = path;
    return code;
}

/* $VARIABLE/holdfast/NAME, or ~/FALLBACK/holdfast/NAME; NULL without a home. */
static const char *in_home(struct hf_arena *arena, const char *variable, const char *fallback,
                           const char *name)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    if (base && base[0] == '/') return hf__arena_printf(arena, "%s/holdfast%s", base, name).ptr;
    if (!home || home[0] != '/') return NULL;
    return hf__arena_printf(arena, "%s/%s/holdfast%s", home, fallback, name).ptr;
}

static int default_store(struct settings *settings, struct hf_arena *arena, struct hf_error *reterr)
{
    const char *directory =
        geteuid() == 0 ? "/var/lib/holdfast" : in_home(arena, "XDG_STATE_HOME", ".local/state", "");
    if (!directory)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "HOME is not set, so there is no default store; use --store");
    struct hf_buf encoded;
    hf__buf_init(&encoded, sizeof settings->default_store);
    hf__percent_encode(hf__slice_str(directory), true, &encoded);
    int len = snprintf(settings->default_store, sizeof settings->default_store, "file:%s/locks.db",
                       hf__buf_cstr(&encoded));
    bool fits = !encoded.failed && len < (int)sizeof settings->default_store;
    hf__buf_free(&encoded);
    if (!fits || strlen(directory) >= sizeof settings->default_directory)
        return hf__error_set(reterr, HF_ERR_INVALID, "path too long: %.200s…", directory);
    snprintf(settings->default_directory, sizeof settings->default_directory, "%s", directory);
    settings->store = settings->default_store;
    settings->store_from = "default";
    return 0;
}

static int check(struct settings *settings, struct hf_error *reterr)
{
    const char *output = settings->output ? settings->output : "text";
    const char *color = settings->color ? settings->color : "auto";
    settings->json = strcmp(output, "json") == 0;
    settings->color = color;
    if (!settings->json && strcmp(output, "text") != 0)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid output \"%.64s\": expected text or json", output);
    if (strcmp(color, "auto") != 0 && strcmp(color, "always") != 0 && strcmp(color, "never") != 0)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid color \"%.64s\": expected auto, always or never", color);
    if (settings->key_type && strlen(settings->key_type) != 1)
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid key type \"%.64s\": expected S, N or B", settings->key_type);
    if (settings->sort_key && !strchr(settings->sort_key, '='))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "invalid sort key \"%.64s\": expected NAME=VALUE", settings->sort_key);
    return 0;
}

int settings_complete(struct settings *settings, struct hf_arena *arena, struct hf_error *reterr)
{
    if (settings->store) settings->store_from = "--store";
    int code = from_environment(settings, reterr);
    if (settings->store && !settings->store_from) settings->store_from = "HOLDFAST_STORE";
    const char *own = settings->config ? settings->config
                                       : in_home(arena, "XDG_CONFIG_HOME", ".config", "/config");
    if (code == 0 && own) code = from_file(settings, arena, own, settings->config, reterr);
    if (code == 0) code = from_file(settings, arena, "/etc/holdfast/config", false, reterr);
    if (code == 0) code = check(settings, reterr);
    if (code == 0 && !settings->store) code = default_store(settings, arena, reterr);
    if (code == 0 && arena->failed) code = hf__error_no_memory(reterr);
    return code;
}

/* mkdir -p. */
int settings_make_store(const struct settings *settings, struct hf_error *reterr)
{
    if (settings->store != settings->default_store) return 0;
    char path[sizeof settings->default_directory];
    snprintf(path, sizeof path, "%s", settings->default_directory);
    for (char *at = path + 1;; at++) {
        if (*at != '/' && *at) continue;
        bool is_last = !*at;
        *at = '\0';
        struct stat info;
        int failed = mkdir(path, is_last ? 0700 : 0755) == 0 || errno == EEXIST ? 0 : errno;
        if (failed && stat(path, &info) != 0) /* it may exist on a read-only disk */
            return hf__error_set(reterr, HF_ERR_IO,
                                 "cannot create %s: %s; use another store with --store", path,
                                 strerror(failed));
        if (is_last) return 0;
        *at = '/';
    }
}
