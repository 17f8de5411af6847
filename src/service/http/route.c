/* The table of routes, and the checks that all of them share. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "service/http/limit.h"
#include "service/http/server.h"
#include "service/service.h"

const struct hf_route hf__routes[] = {
    {HF_METHOD_GET, "/v1/{}/lock/{}", "v1.get", HF_ACCESS_CALLER, hf__v1_get},
    {HF_METHOD_POST, "/v1/{}/lock/{}/acquire", "v1.acquire", HF_ACCESS_CALLER, hf__v1_acquire},
    {HF_METHOD_POST, "/v1/{}/lock/{}/renew", "v1.renew", HF_ACCESS_CALLER, hf__v1_renew},
    {HF_METHOD_POST, "/v1/{}/lock/{}/release", "v1.release", HF_ACCESS_CALLER, hf__v1_release},
    {HF_METHOD_OPTIONS, "/v1/{}/lock/{}", "v1.get.options", HF_ACCESS_CALLER, hf__v1_options},
    {HF_METHOD_OPTIONS, "/v1/{}/lock/{}/acquire", "v1.acquire.options", HF_ACCESS_CALLER,
     hf__v1_options},
    {HF_METHOD_OPTIONS, "/v1/{}/lock/{}/renew", "v1.renew.options", HF_ACCESS_CALLER,
     hf__v1_options},
    {HF_METHOD_OPTIONS, "/v1/{}/lock/{}/release", "v1.release.options", HF_ACCESS_CALLER,
     hf__v1_options},
    {HF_METHOD_GET, "/v2/locks", "v2.list", HF_ACCESS_CALLER, hf__v2_list},
    {HF_METHOD_GET, "/v2/locks/{}", "v2.get", HF_ACCESS_CALLER, hf__v2_get},
    {HF_METHOD_POST, "/v2/locks/{}/acquire", "v2.acquire", HF_ACCESS_CALLER, hf__v2_acquire},
    {HF_METHOD_POST, "/v2/locks/{}/renew", "v2.renew", HF_ACCESS_CALLER, hf__v2_renew},
    {HF_METHOD_POST, "/v2/locks/{}/release", "v2.release", HF_ACCESS_CALLER, hf__v2_release},
    {HF_METHOD_POST, "/v2/locks/{}/force-release", "v2.force-release", HF_ACCESS_CALLER,
     hf__v2_force},
    {HF_METHOD_GET, "/v2/sessions", "v2.session.list", HF_ACCESS_CALLER, hf__v2_session_list},
    {HF_METHOD_POST, "/v2/sessions", "v2.session.open", HF_ACCESS_CALLER, hf__v2_session_open},
    {HF_METHOD_GET, "/v2/sessions/{}", "v2.session.get", HF_ACCESS_CALLER, hf__v2_session_get},
    {HF_METHOD_POST, "/v2/sessions/{}/renew", "v2.session.renew", HF_ACCESS_CALLER,
     hf__v2_session_renew},
    {HF_METHOD_POST, "/v2/sessions/{}/end", "v2.session.end", HF_ACCESS_CALLER, hf__v2_session_end},
    {HF_METHOD_GET, "/v2/events", "v2.events", HF_ACCESS_CALLER, hf__v2_events},
    {HF_METHOD_POST, "/v2/records", "v2.records", HF_ACCESS_CALLER, hf__v2_records},
    {HF_METHOD_GET, "/v2/whoami", "v2.whoami", HF_ACCESS_CALLER, hf__v2_whoami},
    {HF_METHOD_POST, "/", "dynamodb", HF_ACCESS_OPEN, hf__dynamo_call}, /* verifies signatures */
    {HF_METHOD_GET, "/", "page", HF_ACCESS_OPEN, hf__page},
    {HF_METHOD_GET, "/page.css", "page.style", HF_ACCESS_OPEN, hf__page_style},
    {HF_METHOD_GET, "/page.js", "page.script", HF_ACCESS_OPEN, hf__page_script},
    {HF_METHOD_GET, "/openapi.yaml", "openapi", HF_ACCESS_OPEN, hf__openapi},
    {HF_METHOD_GET, "/metrics", "metrics", HF_ACCESS_OPERATOR, hf__metrics_page},
    {HF_METHOD_GET, "/healthz", "healthz", HF_ACCESS_OPERATOR, hf__healthz},
    {HF_METHOD_GET, "/readyz", "readyz", HF_ACCESS_OPERATOR, hf__readyz},
};
const size_t hf__route_count = sizeof hf__routes / sizeof hf__routes[0];
_Static_assert(sizeof hf__routes / sizeof hf__routes[0] <= HF_METRIC_ROUTES, "more metrics");

/* ---- paths ---- */

/* False: it is invalid. Parts beyond the maximum are counted, not kept. */
static bool split(struct hf_exchange *exchange)
{
    struct hf_slice rest = exchange->path;
    while (rest.len > 0) {
        if (rest.ptr[0] != '/') return false;
        rest = hf__slice_skip(rest, 1);
        if (rest.len == 0 && exchange->part_count == 0) return true; /* "/" */
        const char *slash = rest.len ? memchr(rest.ptr, '/', rest.len) : NULL;
        size_t len = slash ? (size_t)(slash - rest.ptr) : rest.len;
        struct hf_slice part;
        if (!hf__percent_decode(&exchange->arena, hf__slice(rest.ptr, len), false, &part))
            return false;
        if (exchange->part_count < HF_PATH_PARTS) exchange->parts[exchange->part_count] = part;
        exchange->part_count++;
        rest = hf__slice_skip(rest, len);
    }
    return true;
}

/* A part of the pattern is the text itself, or "{}": any text that is not empty. */
static bool matches(const struct hf_exchange *exchange, const char *pattern)
{
    size_t count = 0;
    while (*pattern == '/' && pattern[1]) {
        const char *part = pattern + 1;
        size_t len = strcspn(part, "/");
        if (count >= exchange->part_count || count >= HF_PATH_PARTS) return false;
        struct hf_slice given = exchange->parts[count++];
        bool any = len == 2 && part[0] == '{';
        if (any ? given.len == 0 : !hf__slice_eq(given, hf__slice(part, len))) return false;
        pattern = part + len;
    }
    return count == exchange->part_count;
}

/* Whether this port serves the route. */
static bool is_here(const struct hf_exchange *exchange, const struct hf_route *route)
{
    bool apart = hf__server_has_operators(exchange->service->server);
    return !apart || exchange->for_operators == (route->access == HF_ACCESS_OPERATOR);
}

/* ---- refusals, in the style of the API addressed ---- */

static bool is_v1(const struct hf_exchange *exchange)
{
    return exchange->part_count > 0 && hf__slice_is(exchange->parts[0], "v1");
}

static void refuse(struct hf_exchange *exchange, int status, const char *name, const char *v1,
                   const char *message)
{
    exchange->error = name;
    if (is_v1(exchange)) hf__v1_fail(exchange, status, v1);
    else hf__answer_error(exchange, status, name, "%s", message);
}

static void refuse_closed(struct hf_exchange *exchange)
{
    exchange->retry_after_s = 1;
    refuse(exchange, 503, "closed", "Service is shutting down",
           "the service is shutting down; retry in a moment, or use another one");
}

/* The query parameters of a route, each followed by a space; NULL: any. */
static const char *query_of(const struct hf_route *route)
{
    static const struct {
        const char *route;
        const char *names;
    } queries[] = {{"v2.list", "prefix cursor limit held "},
                   {"v2.events", "prefix last_event_id "},
                   {"v2.", ""}};
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++)
        if (strncmp(route->name, queries[i].route, strlen(queries[i].route)) == 0)
            return queries[i].names;
    return NULL;
}

/* The first query parameter that the route does not know; empty: none. */
static struct hf_slice find_strange(const struct hf_exchange *exchange)
{
    const char *at = exchange->head ? exchange->head->query : NULL;
    const char *known = query_of(exchange->route);
    while (at && *at && known) {
        size_t len = strcspn(at, "=&"), size = strcspn(at, "&");
        const char *found = known;
        while (*found && (strcspn(found, " ") != len || strncmp(found, at, len) != 0))
            found += strcspn(found, " ") + 1;
        if (!*found && len > 0) return hf__slice(at, len);
        at += size + (at[size] == '&');
    }
    return HF_LIT("");
}

/* Whether a range of Accept: includes JSON; a `weight` of 0 excludes it. */
static bool is_json(struct hf_slice range)
{
    const char *semicolon = memchr(range.ptr, ';', range.len);
    size_t len = semicolon ? (size_t)(semicolon - range.ptr) : range.len;
    while (len > 0 && strchr(" \t", range.ptr[len - 1])) len--;
    bool fits = (len == 3 && strncmp(range.ptr, "*/*", 3) == 0) ||
                (len == 13 && strncasecmp(range.ptr, "application/*", 13) == 0) ||
                (len == 16 && strncasecmp(range.ptr, "application/json", 16) == 0) ||
                (len > 17 && strncasecmp(range.ptr, "application/", 12) == 0 &&
                 strncasecmp(range.ptr + len - 5, "+json", 5) == 0);
    struct hf_slice rest = hf__slice_skip(range, len);
    const char *weight = rest.len ? memmem(rest.ptr, rest.len, "q=0", 3) : NULL;
    size_t after = weight ? (size_t)(range.ptr + range.len - weight) : 0;
    return fits && !(weight && (after == 3 || weight[3] != '.'));
}

/* v1's original answers in JSON or not at all. */
static bool accepts_json(struct hf_exchange *exchange)
{
    const char *accept = hf__exchange_header(exchange, "Accept");
    if (!accept || !*accept) return true;
    for (const char *at = accept; *at;) {
        at += strspn(at, " \t,");
        size_t len = strcspn(at, ",");
        if (len && is_json(hf__slice(at, len))) return true;
        at += len;
    }
    return false;
}

static void run(struct hf_exchange *exchange)
{
    struct hf_slice strange = find_strange(exchange);
    if (is_v1(exchange) && !accepts_json(exchange)) {
        exchange->error = "not-acceptable";
        exchange->status = 406; /* without a body, which would be JSON */
        hf__exchange_done(exchange);
    } else if (strange.len > 0)
        hf__answer_error(exchange, 400, "invalid", "unknown query parameter \"%.*s\"",
                         (int)(strange.len > 64 ? 64 : strange.len), strange.ptr);
    else exchange->route->run(exchange);
}

/* The route has been found, and the caller authenticated or not. */
static void go_on(struct hf_exchange *exchange, enum hf_auth_result result, const char *why)
{
    struct hf_service *service = exchange->service;
    if (__atomic_load_n(&service->draining, __ATOMIC_RELAXED)) {
        refuse_closed(exchange);
    } else if (result != HF_AUTH_OK && !hf__limit_allows_refused(service, exchange->remote)) {
        hf__count(&service->metrics.refused_limit);
        exchange->retry_after_s = 1;
        refuse(exchange, 429, "too-many-requests", "Too many requests",
               "too many unauthenticated calls from this address; slow down");
    } else if (result != HF_AUTH_OK) {
        hf__count(&service->metrics.refused_auth);
        exchange->challenge = result != HF_AUTH_UNAVAILABLE;
        exchange->retry_after_s = result == HF_AUTH_UNAVAILABLE ? 1 : 0;
        snprintf(exchange->detail, sizeof exchange->detail, "%.*s", HF_LOG_ERROR_MAX - 1, why);
        refuse(exchange, result == HF_AUTH_UNAVAILABLE ? 503 : 401,
               result == HF_AUTH_UNAVAILABLE ? "unavailable" : "unauthenticated", "Unauthorized",
               why);
    } else if (!hf__limit_allows(service, exchange->caller.owner)) {
        hf__count(&service->metrics.refused_limit);
        exchange->retry_after_s = 1;
        refuse(exchange, 429, "too-many-requests", "Too many requests",
               "more requests per second than this service allows; slow down");
    } else {
        run(exchange);
    }
}

/* The name in Host: without its port. */
static struct hf_slice name_of(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    return hf__slice(host, end ? (size_t)(end + 1 - host) : strcspn(host, ":"));
}

static bool is_address(struct hf_slice name)
{
    unsigned char address[sizeof(struct in6_addr)];
    char text[INET6_ADDRSTRLEN];
    bool six = name.len > 2 && name.ptr[0] == '[';
    if (six) name = hf__slice(name.ptr + 1, name.len - 2);
    if (name.len >= sizeof text) return false;
    memcpy(text, name.ptr, name.len);
    text[name.len] = '\0';
    return inet_pton(six ? AF_INET6 : AF_INET, text, address) == 1;
}

/*
 * The browser of a user who can reach us may show an attacker's page, whose host name resolves to
 * us (DNS rebinding). Without authentication the service therefore accepts only host names that it
 * was told of, and never pages of other origins. An IP address cannot be such a name.
 */
static bool is_known_name(const struct hf_service *service, const char *host)
{
    struct hf_slice name = name_of(host), rest = hf__slice_str(service->allowed_hosts);
    if (is_address(name)) return true;
    if (name.len == 9 && strncasecmp(name.ptr, "localhost", 9) == 0) return true;
    while (rest.len > 0) {
        const char *comma = memchr(rest.ptr, ',', rest.len);
        size_t len = comma ? (size_t)(comma - rest.ptr) : rest.len;
        if (len == 1 && rest.ptr[0] == '*') return true;
        if (len == name.len && strncasecmp(rest.ptr, name.ptr, len) == 0) return true;
        rest = hf__slice_skip(rest, comma ? len + 1 : len);
    }
    return false;
}

static bool comes_from_elsewhere(struct hf_exchange *exchange)
{
    const char *host = hf__exchange_header(exchange, "Host");
    const char *origin = hf__exchange_header(exchange, "Origin");
    struct hf_service *service = exchange->service;
    if (hf__auth_is_disabled(service->auth) && host && !is_known_name(service, host)) return true;
    if (!origin) return false;
    const char *rest = strstr(origin, "://");
    return !host || !rest || strcmp(rest + 3, host) != 0;
}

void hf__route(struct hf_exchange *exchange)
{
    static const char *const names[] = {[HF_METHOD_GET] = "GET",
                                        [HF_METHOD_POST] = "POST",
                                        [HF_METHOD_DELETE] = "DELETE",
                                        [HF_METHOD_OPTIONS] = "OPTIONS"};
    struct hf_service *service = exchange->service;
    char allowed[32] = "";
    if (!split(exchange)) {
        hf__answer_error(exchange, 400, "invalid", "the path is invalid");
        return;
    }
    if (comes_from_elsewhere(exchange)) {
        refuse(exchange, 403, "forbidden", "Forbidden",
               "this request comes from a page of another origin, or uses a host name that is not "
               "allowed: see --allow-host");
        return;
    }
    for (size_t i = 0; i < hf__route_count; i++) {
        const struct hf_route *route = &hf__routes[i];
        if (!is_here(exchange, route) || !matches(exchange, route->pattern)) continue;
        if (route->method == exchange->method) {
            exchange->route = route;
            break;
        }
        size_t len = strlen(allowed);
        snprintf(allowed + len, sizeof allowed - len, "%s%s", len ? ", " : "",
                 names[route->method]);
    }
    if (!exchange->route && *allowed) {
        exchange->allow = hf__arena_copy(&exchange->arena, hf__slice_str(allowed)).ptr;
        refuse(exchange, 405, "method-not-allowed", "Method not allowed",
               "method not allowed for this path; see /openapi.yaml");
    } else if (!exchange->route) {
        refuse(exchange, 404, "no-such-path", "Resource not found",
               "no such path; see /openapi.yaml");
    } else if (exchange->route->access == HF_ACCESS_OPERATOR) {
        exchange->route->run(exchange);
    } else if (__atomic_load_n(&service->draining, __ATOMIC_RELAXED)) {
        refuse_closed(exchange);
    } else if (exchange->route->access == HF_ACCESS_OPEN) {
        exchange->route->run(exchange);
    } else {
        hf__auth_check(exchange, go_on);
    }
}
