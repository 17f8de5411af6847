/* The words of an expression. Private to the parser. */
#ifndef HF_WIRE_EXPR_LEXER_H
#define HF_WIRE_EXPR_LEXER_H

#include <stdbool.h>

#include "base/slice.h"

enum hf_token_kind {
    HF_TOKEN_END,
    HF_TOKEN_WORD,  /* name, keyword or function */
    HF_TOKEN_NAME,  /* #alias */
    HF_TOKEN_VALUE, /* :placeholder */
    HF_TOKEN_NUMBER,
    HF_TOKEN_SIGN, /* punctuation, in `text` */
    HF_TOKEN_BAD,  /* a character that begins no token */
};

struct hf_token {
    enum hf_token_kind kind;
    struct hf_slice text;
};

/* The token at or after `at`, white space skipped. */
struct hf_token hf__token_next(const char *at, const char *end);

static inline bool hf__token_is(struct hf_token token, const char *sign)
{
    return token.kind == HF_TOKEN_SIGN && hf__slice_is(token.text, sign);
}

/* A keyword, in any case. */
bool hf__token_is_word(struct hf_token token, const char *keyword);

#endif
