#include "store/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "store/environment.h"
#include "store/url.h"

enum { TOKEN_MOST = 8192 };

static bool is_local(const char *host)
{
    size_t len = strcspn(host, ":");
    return strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0 ||
           (len == 9 && strncasecmp(host, "localhost", 9) == 0);
}

/* The caller's value, the URL's, or that of the environment. */
static bool take(char **ret, const char *given, const char *in_url, const char *in_environment)
{
    const char *value = given && *given ? given : in_url ? in_url : in_environment;
    if (!value) return true;
    *ret = hf__strdup(value);
    return *ret != NULL;
}

static char *join(const char *scheme, const char *host, const char *path)
{
    size_t size = strlen(scheme) + strlen(host) + strlen(path) + 1;
    char *text = hf__malloc(size);
    if (text) snprintf(text, size, "%s%s%s", scheme, host, path);
    return text;
}

/* HOST[:PORT], of which libcurl judges the rest. */
static int check_host(char *host, const char *scheme, struct hf_error *reterr)
{
    size_t len = strlen(host);
    if (len > 0 && host[len - 1] == '/') host[--len] = '\0';
    if (len == 0 || strpbrk(host, "/@#\\ \"") || host[0] == ':')
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "\"%s%s\" is not a service; write https://HOST[:PORT], without a path",
                             scheme, host);
    if (strcmp(scheme, "http://") == 0 && !is_local(host))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "refusing http://%s: without TLS others can read the token; use "
                             "https://%s",
                             host, host);
    return 0;
}

int hf__access_new(struct hf_arena *arena, const char *text, const struct hf_store_options *options,
                   struct hf_access **ret, struct hf_error *reterr)
{
    static const char *const known[] = {"token-file", "ca", "client-cert", "client-key", NULL};
    const char *scheme = strncmp(text, "http://", 7) == 0 ? "http://" : "https://";
    hf_environment environment = options->environment;
    struct hf_url url;
    int code = hf__url_parse(arena, text, scheme, known, &url, reterr);
    if (code != 0) return code;
    char *host = hf__arena_str(arena, hf__slice_str(url.path));
    struct hf_access *access = host ? hf__calloc(1, sizeof *access) : NULL;
    if (!access) return hf__error_no_memory(reterr);
    code = check_host(host, scheme, reterr);
    bool complete = take(&access->token_file, options->token_file, hf__url_get(&url, "token-file"),
                         hf__env_get(environment, "HOLDFAST_TOKEN_FILE")) &&
                    take(&access->ca_file, options->ca_file, hf__url_get(&url, "ca"),
                         hf__env_get(environment, "HOLDFAST_CA")) &&
                    take(&access->cert_file, options->cert_file, hf__url_get(&url, "client-cert"),
                         hf__env_get(environment, "HOLDFAST_CLIENT_CERT")) &&
                    take(&access->key_file, options->key_file, hf__url_get(&url, "client-key"),
                         hf__env_get(environment, "HOLDFAST_CLIENT_KEY"));
    access->records = join(scheme, host, "/v2/records");
    access->events = join(scheme, host, "/v2/events");
    access->local = is_local(host);
    if (code == 0 && (!complete || !access->records || !access->events))
        code = hf__error_no_memory(reterr);
    if (code == 0 && access->key_file && !access->cert_file)
        code = hf__error_set(reterr, HF_ERR_INVALID,
                             "a client key without a client certificate; give both");
    if (code == 0) *ret = access;
    else hf__access_free(access);
    return code;
}

void hf__access_free(struct hf_access *access)
{
    if (!access) return;
    hf__free(access->records);
    hf__free(access->events);
    hf__free(access->token_file);
    hf__free(access->ca_file);
    hf__free(access->cert_file);
    hf__free(access->key_file);
    hf__free(access);
}

/* The first word of the file, so that a line of the service's own --tokens will do, too. */
static int read_token(const char *path, char ret[TOKEN_MOST], struct hf_error *reterr)
{
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(ret, 1, TOKEN_MOST - 1, file) : 0;
    int failure = file && ferror(file) ? EIO : errno;
    bool failed = !file || ferror(file);
    if (file) fclose(file);
    if (failed)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "cannot read the token file %s: %s", path,
                             strerror(failure));
    ret[len] = '\0';
    size_t before = strspn(ret, " \t\r\n"), size = strcspn(ret + before, " \t\r\n");
    bool good = size > 0;
    for (size_t i = 0; i < size; i++) good &= ret[before + i] > ' ' && ret[before + i] < 0x7f;
    if (!good)
        return hf__error_set(reterr, HF_ERR_CREDENTIALS, "the token file %s has no token in it",
                             path);
    memmove(ret, ret + before, size);
    ret[size] = '\0';
    return 0;
}

int hf__access_prepare(const struct hf_access *access, struct hf_arena *arena,
                       struct hf_http_request *request, struct hf_error *reterr)
{
    request->ca_file = access->ca_file;
    request->cert_file = access->cert_file;
    request->key_file = access->key_file;
    request->no_proxy = access->local;
    if (!access->token_file) return 0;
    char token[TOKEN_MOST];
    int code = read_token(access->token_file, token, reterr);
    if (code == 0)
        request->headers[request->header_count++] =
            hf__arena_printf(arena, "Authorization: Bearer %s", token).ptr;
    explicit_bzero(token, sizeof token);
    return code == 0 && arena->failed ? hf__error_no_memory(reterr) : code;
}
