#include "wire/expr_lexer.h"

#include <strings.h>

#include "base/text.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
    return is_letter(c) || is_digit(c) || c == '_';
}

static size_t run(const char *at, const char *end, bool (*member)(char))
{
    const char *from = at;
    while (at < end && member(*at)) at++;
    return (size_t)(at - from);
}

static size_t sign_length(const char *at, const char *end)
{
    if (end - at >= 2 &&
        (memcmp(at, "<>", 2) == 0 || memcmp(at, "<=", 2) == 0 || memcmp(at, ">=", 2) == 0))
        return 2;
    return *at && strchr("()[],.+-=<>", *at) ? 1 : 0;
}

struct hf_token hf__token_next(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    if (at == end) return (struct hf_token){HF_TOKEN_END, hf__slice(at, 0)};
    size_t len;
    if (is_letter(*at))
        return (struct hf_token){HF_TOKEN_WORD, hf__slice(at, run(at, end, is_name_char))};
    if ((*at == '#' || *at == ':') && (len = run(at + 1, end, is_name_char)) > 0)
        return (struct hf_token){*at == '#' ? HF_TOKEN_NAME : HF_TOKEN_VALUE,
                                 hf__slice(at, len + 1)};
    if (*at == '0') return (struct hf_token){HF_TOKEN_NUMBER, hf__slice(at, 1)};
    if (is_digit(*at))
        return (struct hf_token){HF_TOKEN_NUMBER, hf__slice(at, run(at, end, is_digit))};
    len = sign_length(at, end);
    size_t whole = hf__utf8_sequence(at, end); /* a bad character is shown whole */
    return (struct hf_token){len ? HF_TOKEN_SIGN : HF_TOKEN_BAD, hf__slice(at, len     ? len
                                                                               : whole ? whole
                                                                                       : 1)};
}

bool hf__token_is_word(struct hf_token token, const char *keyword)
{
    return token.kind == HF_TOKEN_WORD && token.text.len == strlen(keyword) &&
           strncasecmp(token.text.ptr, keyword, token.text.len) == 0;
}
