/*
 * libcurl, loaded on demand. The command links this instead: loading libcurl and the thirty
 * libraries that it needs takes longer than a whole `holdfast run` on a file, which needs none of
 * them. Each function loads it if necessary and passes the call on; without it, initializing fails.
 *
 * setopt and getinfo pass on a long, a pointer or a 64-bit number: all have the same size here, and
 * are passed alike.
 */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

_Static_assert(sizeof(long) == sizeof(void *) && sizeof(curl_off_t) == sizeof(void *),
               "link with libcurl itself on this machine");

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

/* X(name): all functions that the library calls. */
#define FUNCTIONS(X)                                                                               \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_init)                                                                              \
    X(curl_easy_perform)                                                                           \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_strerror)                                                                          \
    X(curl_global_init)                                                                            \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_assign)                                                                           \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_init)                                                                             \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_setopt)                                                                           \
    X(curl_multi_socket_action)                                                                    \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)

/* Written once, before any thread reads them. */
static struct {
#define FUNCTION_POINTER(name) __typeof__(&name) name;
    FUNCTIONS(FUNCTION_POINTER)
#undef FUNCTION_POINTER
    bool is_loaded;
} real;

static void load(void)
{
    void *library = dlopen(HF_CURL_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    bool whole = true;
#define FIND_FUNCTION(name)                                                                        \
    *(void **)&real.name = dlsym(library, #name);                                                  \
    whole = whole && real.name;
    FUNCTIONS(FIND_FUNCTION)
#undef FIND_FUNCTION
    real.is_loaded = whole;
}

static bool is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return real.is_loaded;
}

CURLcode curl_global_init(long flags)
{
    if (is_there()) return real.curl_global_init(flags);
    fprintf(stderr, "holdfast: %s is not installed; DynamoDB cannot be reached without it\n",
            HF_CURL_SONAME);
    return CURLE_FAILED_INIT;
}

CURL *curl_easy_init(void)
{
    return is_there() ? real.curl_easy_init() : NULL;
}

CURLM *curl_multi_init(void)
{
    return is_there() ? real.curl_multi_init() : NULL;
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text)
{
    return is_there() ? real.curl_slist_append(list, text) : NULL;
}

const char *curl_easy_strerror(CURLcode code)
{
    return is_there() ? real.curl_easy_strerror(code) : "libcurl is not installed";
}

/* The rest operates on handles made by the above. */

CURLcode curl_easy_setopt(CURL *handle, CURLoption option, ...)
{
    va_list args;
    va_start(args, option);
    void *value = va_arg(args, void *);
    va_end(args);
    return real.curl_easy_setopt(handle, option, value);
}

CURLcode curl_easy_getinfo(CURL *handle, CURLINFO info, ...)
{
    va_list args;
    va_start(args, info);
    void *value = va_arg(args, void *);
    va_end(args);
    return real.curl_easy_getinfo(handle, info, value);
}

CURLMcode curl_multi_setopt(CURLM *multi, CURLMoption option, ...)
{
    va_list args;
    va_start(args, option);
    void *value = va_arg(args, void *);
    va_end(args);
    return real.curl_multi_setopt(multi, option, value);
}

CURLcode curl_easy_perform(CURL *handle)
{
    return real.curl_easy_perform(handle);
}

void curl_easy_cleanup(CURL *handle)
{
    if (handle) real.curl_easy_cleanup(handle);
}

void curl_slist_free_all(struct curl_slist *list)
{
    if (list) real.curl_slist_free_all(list);
}

CURLMcode curl_multi_add_handle(CURLM *multi, CURL *handle)
{
    return real.curl_multi_add_handle(multi, handle);
}

CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *handle)
{
    return real.curl_multi_remove_handle(multi, handle);
}

CURLMcode curl_multi_assign(CURLM *multi, curl_socket_t socket, void *user)
{
    return real.curl_multi_assign(multi, socket, user);
}

CURLMcode curl_multi_cleanup(CURLM *multi)
{
    return multi ? real.curl_multi_cleanup(multi) : CURLM_OK;
}

CURLMsg *curl_multi_info_read(CURLM *multi, int *ret_left)
{
    return real.curl_multi_info_read(multi, ret_left);
}

CURLMcode curl_multi_socket_action(CURLM *multi, curl_socket_t socket, int events, int *ret_running)
{
    return real.curl_multi_socket_action(multi, socket, events, ret_running);
}
