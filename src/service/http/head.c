#include "service/http/head.h"

#include <stdint.h>
#include <strings.h>

enum { METHOD_MOST = 16, LENGTH_DIGITS = 18 };

static int refuse(const char **ret_why, int status, const char *why)
{
    *ret_why = why;
    return status;
}

size_t hf__head_end(struct hf_slice bytes, size_t *scanned)
{
    size_t from = *scanned > 3 ? *scanned - 3 : 0;
    const char *end =
        bytes.len > from ? memmem(bytes.ptr + from, bytes.len - from, "\r\n\r\n", 4) : NULL;
    *scanned = bytes.len;
    return end ? (size_t)(end - bytes.ptr) + 4 : 0;
}

/* Characters of a name: RFC 9110, token. */
static bool is_token(char c)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes the line that begins at *at, and terminates it. NULL: it does not end properly. */
static char *take_line(char **at, char *end)
{
    char *line = *at, *stop = memchr(line, '\r', (size_t)(end - line));
    if (!stop || stop + 1 >= end || stop[1] != '\n' || memchr(line, '\n', (size_t)(stop - line)))
        return NULL;
    *stop = '\0';
    *at = stop + 2;
    return line;
}

static int parse_first_line(char *line, struct hf_head *head, const char **ret_why)
{
    char *at = line;
    while (is_token(*at)) at++;
    if (at == line || at - line > METHOD_MOST || *at != ' ')
        return refuse(ret_why, 400, "the request line has no method");
    *at++ = '\0';
    head->method = line;
    head->path = at;
    while (*at > ' ' && *at < 0x7f) at++;
    if (at == head->path || *at != ' ')
        return refuse(ret_why, 400, "the request line has no target, or an invalid one");
    *at++ = '\0';
    if (strcmp(at, "HTTP/1.1") != 0 && strcmp(at, "HTTP/1.0") != 0)
        return strncmp(at, "HTTP/", 5) == 0 && strlen(at) == 8
                   ? refuse(ret_why, 505, "only HTTP/1.1 and HTTP/1.0 are supported")
                   : refuse(ret_why, 400, "the request line does not end with HTTP/1.1");
    head->is_old = at[7] == '0';
    head->closes = head->is_old;
    /* A target as for a proxy: Host names what comes before the path as well. */
    if (strncasecmp(head->path, "http://", 7) == 0 || strncasecmp(head->path, "https://", 8) == 0) {
        const char *authority = strchr(head->path, ':') + 3;
        const char *path = authority + strcspn(authority, "/?");
        if (path == authority) return refuse(ret_why, 400, "the target names no host");
        head->path = *path == '/' ? path : "/";
        if (*path == '?') head->query = path + 1;
    }
    char *query = strchr(head->path, '?');
    if (query) {
        *query = '\0';
        head->query = query + 1;
    }
    return 0;
}

static int parse_length(const char *text, int64_t *ret)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits]) return -1;
    *ret = 0;
    if (digits > LENGTH_DIGITS) *ret = INT64_MAX;
    else
        for (; *text; text++) *ret = *ret * 10 + (*text - '0');
    return 0;
}

/* Whether a comma-separated list has this word. */
static bool lists(const char *text, const char *word)
{
    size_t len = strlen(word);
    while (*text) {
        while (is_blank(*text) || *text == ',') text++;
        size_t size = strcspn(text, ", \t");
        if (size == len && strncasecmp(text, word, len) == 0) return true;
        text += size;
    }
    return false;
}

static int parse_field(char *line, struct hf_field *ret, const char **ret_why)
{
    char *at = line;
    while (is_token(*at)) at++;
    if (at == line || *at != ':')
        return refuse(ret_why, 400, "a header is not a name, a colon and a value");
    *at++ = '\0';
    while (is_blank(*at)) at++;
    char *end = at + strlen(at);
    while (end > at && is_blank(end[-1])) end--;
    *end = '\0';
    for (const char *c = at; *c; c++) {
        if ((*c > 0 && *c < ' ' && *c != '\t') || *c == 0x7f)
            return refuse(ret_why, 400, "a header contains a control character");
    }
    *ret = (struct hf_field){line, at};
    return 0;
}

/* Interprets the headers about the request itself. */
static int understand(struct hf_head *head, const char **ret_why)
{
    int hosts = 0;
    bool said_close = false;
    for (size_t i = 0; i < head->count; i++) {
        const struct hf_field *field = &head->fields[i];
        if (strcasecmp(field->name, "Content-Length") == 0) {
            if (head->length >= 0) return refuse(ret_why, 400, "duplicate Content-Length");
            if (parse_length(field->value, &head->length) != 0)
                return refuse(ret_why, 400, "Content-Length is not a number");
        } else if (strcasecmp(field->name, "Transfer-Encoding") == 0) {
            if (head->chunked || head->is_old)
                return refuse(ret_why, 400, "Transfer-Encoding is sent twice, or in HTTP/1.0");
            if (strcasecmp(field->value, "chunked") != 0)
                return refuse(ret_why, 501, "Transfer-Encoding: only chunked is supported");
            head->chunked = true;
        } else if (strcasecmp(field->name, "Connection") == 0) {
            said_close |= lists(field->value, "close");
            if (lists(field->value, "keep-alive")) head->closes = false;
        } else if (strcasecmp(field->name, "Expect") == 0) {
            head->expects = strcasecmp(field->value, "100-continue") == 0;
        } else if (strcasecmp(field->name, "Host") == 0) {
            hosts++;
        }
    }
    if (said_close) head->closes = true; /* this overrides keep-alive */
    if (head->chunked && head->length >= 0)
        return refuse(ret_why, 400, "Content-Length and Transfer-Encoding: send one of them");
    if (hosts > 1 || (hosts == 0 && !head->is_old))
        return refuse(ret_why, 400, "Host: missing, or sent more than once");
    return 0;
}

int hf__head_parse(char *text, size_t len, struct hf_head *ret, const char **ret_why)
{
    char *at = text, *end = text + len;
    ret->query = NULL;
    ret->chunked = ret->expects = false;
    ret->length = -1;
    ret->count = 0;
    if (memchr(text, '\0', len)) return refuse(ret_why, 400, "a zero byte in the headers");
    char *line = take_line(&at, end);
    if (!line) return refuse(ret_why, 400, "a line does not end with CR LF");
    int status = parse_first_line(line, ret, ret_why);
    while (status == 0) {
        line = take_line(&at, end);
        if (!line) return refuse(ret_why, 400, "a line does not end with CR LF");
        if (!*line) break;
        if (ret->count == HF_FIELDS_MOST) return refuse(ret_why, 431, "too many headers");
        status = parse_field(line, &ret->fields[ret->count++], ret_why);
    }
    return status ? status : understand(ret, ret_why);
}

const char *hf__head_field(const struct hf_head *head, const char *name)
{
    for (size_t i = 0; i < head->count; i++)
        if (strcasecmp(head->fields[i].name, name) == 0) return head->fields[i].value;
    return NULL;
}
