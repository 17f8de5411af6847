/*
 * Recursive descent over the expression grammar. The parser looks one token
 * ahead; errors are sticky, so the productions read straight through. Names and
 * values that are not defined are reported only if the syntax is right.
 */
#include "wire/expr_parse.h"

#include "base/text.h"
#include "wire/expr_lexer.h"
#include "wire/reserved.h"

enum { MAX_NESTING = HF_CONDITION_MAX_DEPTH }; /* parentheses and function calls */

struct parser {
    struct hf_arena *arena;
    struct hf_bindings *bindings;
    const char *where;
    struct hf_slice text;
    struct hf_token token;    /* the one to be taken next */
    struct hf_slice previous; /* the one taken last */
    int nesting;
    int operators;
    int code;
    struct hf_error *reterr;
    struct hf_error undefined; /* the first; code 0: none */
};

/* For faults of names and values: the first is kept, and parsing goes on. */
#define NOTE(p, ...)                                                                               \
    ((p)->undefined.code != 0 ||                                                                   \
     hf__error_set(&(p)->undefined, HF_ERR_VALIDATION, __VA_ARGS__) != 0)

#define FAIL(p, ...) fail_with(p, hf__error_set((p)->reterr, HF_ERR_VALIDATION, __VA_ARGS__))

static bool fail_with(struct parser *p, int code)
{
    p->code = code;
    p->token = (struct hf_token){HF_TOKEN_END, hf__slice(hf__slice_end(p->text), 0)};
    return false;
}

static const char *text_end(const struct parser *p)
{
    return hf__slice_end(p->text);
}

/* Shows the token that does not fit between its neighbours, as they stand in the text. */
static bool syntax_error(struct parser *p)
{
    if (p->code != 0) return false;
    if (p->arena->failed) return fail_with(p, hf__error_no_memory(p->reterr));
    struct hf_token bad = p->token;
    struct hf_token next = hf__token_next(bad.text.ptr + bad.text.len, text_end(p));
    const char *from = p->previous.ptr ? p->previous.ptr : p->text.ptr;
    const char *to = next.text.ptr + next.text.len;
    struct hf_slice token = bad.kind == HF_TOKEN_END ? HF_LIT("<EOF>") : bad.text;
    return FAIL(p, "Invalid %s: Syntax error; token: \"%.*s\", near: \"%.*s\"", p->where,
                HF_FMT(token), (int)(to - from), from);
}

static void advance(struct parser *p)
{
    p->previous = p->token.text;
    p->token = hf__token_next(hf__slice_end(p->token.text), text_end(p));
}

static bool accept(struct parser *p, const char *sign)
{
    if (p->code != 0 || !hf__token_is(p->token, sign)) return false;
    advance(p);
    return true;
}

static bool accept_word(struct parser *p, const char *keyword)
{
    if (p->code != 0 || !hf__token_is_word(p->token, keyword)) return false;
    advance(p);
    return true;
}

static bool expect(struct parser *p, const char *sign)
{
    return accept(p, sign) || syntax_error(p);
}

static bool count_operator(struct parser *p)
{
    if (p->code != 0) return false;
    if (++p->operators <= HF_EXPRESSION_MAX_OPERATORS) return true;
    return FAIL(p, "Invalid %s: The expression contains too many operators; operator count: %d",
                p->where, p->operators);
}

static bool enter(struct parser *p)
{
    if (p->code != 0) return false;
    if (++p->nesting <= MAX_NESTING) return true;
    return FAIL(p, "Invalid %s: The expression is nested too deeply", p->where);
}

static int begin(struct parser *p, struct hf_arena *arena, struct hf_slice text,
                 struct hf_bindings *bindings, const char *where, struct hf_error *reterr)
{
    *p = (struct parser){
        .arena = arena, .bindings = bindings, .where = where, .text = text, .reterr = reterr};
    if (text.len > HF_EXPRESSION_MAX_SIZE)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Invalid %s: Expression size has exceeded the maximum allowed size; "
                             "expression size: %zu",
                             where, text.len);
    p->token = hf__token_next(text.ptr, text_end(p));
    if (text.len == 0)
        return hf__error_set(reterr, HF_ERR_VALIDATION,
                             "Invalid %s: The expression can not be empty;", where);
    if (p->token.kind == HF_TOKEN_END) syntax_error(p);
    return p->code;
}

static int finish(struct parser *p)
{
    if (p->code == 0 && p->token.kind != HF_TOKEN_END) syntax_error(p);
    if (p->code == 0 && p->undefined.code != 0)
        p->code = hf__error_set(p->reterr, p->undefined.code, "%s", p->undefined.message);
    if (p->code == 0 && p->arena->failed) p->code = hf__error_no_memory(p->reterr);
    return p->code;
}

/* ---- paths and placeholders ---- */

static bool resolve_name(struct parser *p, struct hf_slice alias, struct hf_slice *ret)
{
    struct hf_bindings *b = p->bindings;
    for (size_t i = 0; i < b->names.count; i++) {
        if (!hf__slice_eq(b->names.attrs[i].name, alias)) continue;
        b->name_used[i] = true;
        *ret = b->names.attrs[i].value.bytes;
        return true;
    }
    *ret = alias;
    return NOTE(
        p,
        "Invalid %s: An expression attribute name used in the document path is not defined; "
        "attribute name: %.*s",
        p->where, HF_FMT(alias));
}

static bool resolve_value(struct parser *p, struct hf_slice placeholder, struct hf_value *ret)
{
    struct hf_bindings *b = p->bindings;
    for (size_t i = 0; i < b->values.count; i++) {
        if (!hf__slice_eq(b->values.attrs[i].name, placeholder)) continue;
        b->value_used[i] = true;
        *ret = b->values.attrs[i].value;
        return true;
    }
    *ret = hf__null();
    return NOTE(p,
                "Invalid %s: An expression attribute value used in expression is not defined; "
                "attribute value: %.*s",
                p->where, HF_FMT(placeholder));
}

static bool take_value(struct parser *p, struct hf_value *ret)
{
    if (p->token.kind != HF_TOKEN_VALUE) return syntax_error(p);
    struct hf_slice placeholder = p->token.text;
    advance(p);
    return resolve_value(p, placeholder, ret);
}

/* Words of the grammar itself, which are never taken for names. */
static bool is_keyword(struct hf_token token)
{
    static const char *const words[] = {"AND", "OR",     "NOT", "BETWEEN", "IN",
                                        "SET", "REMOVE", "ADD", "DELETE"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (hf__token_is_word(token, words[i])) return true;
    return false;
}

static bool take_name(struct parser *p, struct hf_slice *ret)
{
    struct hf_token token = p->token;
    if (token.kind != HF_TOKEN_WORD && token.kind != HF_TOKEN_NAME) return syntax_error(p);
    if (is_keyword(token)) return syntax_error(p);
    if (token.kind == HF_TOKEN_WORD && hf__is_reserved(token.text))
        (void)NOTE(p, "Invalid %s: Attribute name is a reserved keyword; reserved keyword: %.*s",
                   p->where, HF_FMT(token.text));
    advance(p);
    if (token.kind == HF_TOKEN_NAME) return resolve_name(p, token.text, ret);
    *ret = token.text;
    return true;
}

static bool take_index(struct parser *p, uint32_t *ret)
{
    int64_t index;
    if (p->token.kind != HF_TOKEN_NUMBER) return syntax_error(p);
    if (!hf__parse_int64(p->token.text, &index) || index > INT32_MAX)
        return FAIL(p, "Invalid %s: List index is not within the allowable range; index: [%.*s]",
                    p->where, HF_FMT(p->token.text));
    advance(p);
    *ret = (uint32_t)index;
    return expect(p, "]");
}

static bool take_path(struct parser *p, struct hf_path *ret)
{
    struct hf_path_part parts[HF_PATH_MAX_PARTS + 1] = {0};
    size_t count = 0;
    do {
        if (count > HF_PATH_MAX_PARTS)
            return FAIL(
                p,
                "Invalid %s: The document path has too many nesting levels; nesting levels: "
                "%zu",
                p->where, count);
        struct hf_path_part *part = &parts[count++];
        part->is_index = count > 1 && hf__slice_is(p->previous, "[");
        bool taken = part->is_index ? take_index(p, &part->index) : take_name(p, &part->name);
        if (!taken) return false;
    } while (accept(p, ".") || accept(p, "["));
    if (count > HF_PATH_MAX_PARTS)
        return FAIL(
            p, "Invalid %s: The document path has too many nesting levels; nesting levels: %zu",
            p->where, count);
    struct hf_path_part *copy = hf__arena_alloc(p->arena, count * sizeof *copy);
    if (!copy) return fail_with(p, hf__error_no_memory(p->reterr));
    memcpy(copy, parts, count * sizeof *copy);
    *ret = (struct hf_path){copy, count};
    return true;
}

/* ---- conditions ---- */

/* A primary may be an operand or a whole condition; parentheses go around either. */
struct primary {
    const struct hf_condition *condition; /* NULL: an operand */
    struct hf_operand operand;
    bool in_parentheses;
};

static const struct hf_condition *take_or(struct parser *p, struct primary *ret_operand);

static bool at_function_call(const struct parser *p)
{
    if (p->token.kind != HF_TOKEN_WORD || is_keyword(p->token)) return false;
    struct hf_token next = hf__token_next(hf__slice_end(p->token.text), text_end(p));
    return hf__token_is(next, "(");
}

static bool take_operand(struct parser *p, struct hf_operand *ret);

static bool find_function(struct hf_slice name, enum hf_condition_op *ret)
{
    for (int op = 0; op < HF_CONDITION_OPS; op++) {
        if (!hf__condition_syntax[op].function ||
            !hf__slice_is(name, hf__condition_syntax[op].text))
            continue;
        *ret = (enum hf_condition_op)op;
        return true;
    }
    return false;
}

/* size(…), the only function that is an operand. */
static bool take_size(struct parser *p, struct hf_operand *ret)
{
    enum hf_condition_op ignored;
    if (!hf__slice_is(p->token.text, "size") && !find_function(p->token.text, &ignored))
        (void)NOTE(p, "Invalid %s: Invalid function name; function: %.*s", p->where,
                   HF_FMT(p->token.text));
    else if (!hf__slice_is(p->token.text, "size"))
        (void)NOTE(p,
                   "Invalid %s: The function is not allowed to be used this way in an expression; "
                   "function: %.*s",
                   p->where, HF_FMT(p->token.text));
    advance(p);
    if (!enter(p) || !expect(p, "(") || !take_operand(p, ret) || !expect(p, ")")) return false;
    p->nesting--;
    if (ret->is_size)
        return FAIL(p,
                    "Invalid %s: The function is not allowed to be used this way in an expression; "
                    "function: size",
                    p->where);
    ret->is_size = true;
    return true;
}

static bool take_operand(struct parser *p, struct hf_operand *ret)
{
    if (p->code != 0 || !enter(p)) return false;
    bool taken;
    *ret = (struct hf_operand){0};
    if (accept(p, "(")) {
        taken = take_operand(p, ret) && expect(p, ")");
    } else if (at_function_call(p)) {
        taken = take_size(p, ret);
    } else if (p->token.kind == HF_TOKEN_VALUE) {
        taken = take_value(p, &ret->value);
    } else {
        ret->is_path = true;
        taken = take_path(p, &ret->path);
    }
    p->nesting--;
    return taken;
}

/* Operands separated by commas up to a closing parenthesis, into room for `most` of them. */
static size_t take_operands(struct parser *p, struct hf_operand *ret, size_t most)
{
    size_t count = 0, seen = 0;
    do {
        struct hf_operand operand;
        if (!take_operand(p, &operand)) return 0;
        if (count < most) ret[count++] = operand;
        seen++;
    } while (accept(p, ","));
    return expect(p, ")") ? seen : 0;
}

static const struct hf_condition *new_condition(struct parser *p, enum hf_condition_op op,
                                                const struct hf_operand *operands, size_t count)
{
    if (p->code != 0 || !count_operator(p)) return NULL;
    const struct hf_condition *c = hf__cond(p->arena, op, operands, count);
    if (!c) fail_with(p, hf__error_no_memory(p->reterr));
    return c;
}

static const struct hf_condition *take_function(struct parser *p)
{
    struct hf_slice name = p->token.text;
    enum hf_condition_op op = HF_EXISTS;
    struct hf_operand operands[2];
    bool known = find_function(name, &op);
    if (!known)
        (void)NOTE(p, "Invalid %s: Invalid function name; function: %.*s", p->where, HF_FMT(name));
    advance(p);
    expect(p, "(");
    size_t count = p->code == 0 ? take_operands(p, operands, 2) : 0;
    if (p->code != 0) return NULL;
    if (!known) return new_condition(p, op, operands, 1);
    if (count != (size_t)hf__condition_syntax[op].least) {
        FAIL(p,
             "Invalid %s: Incorrect number of operands for operator or function; operator or "
             "function: %.*s, number of operands: %zu",
             p->where, HF_FMT(name), count);
        return NULL;
    }
    return new_condition(p, op, operands, count);
}

static bool find_comparator(struct hf_token token, enum hf_condition_op *ret)
{
    for (int op = HF_EQ; op <= HF_GE; op++) {
        if (!hf__token_is(token, hf__condition_syntax[op].text)) continue;
        *ret = (enum hf_condition_op)op;
        return true;
    }
    return false;
}

/* What follows an operand: a comparison, BETWEEN or IN. */
static const struct hf_condition *take_comparison(struct parser *p, const struct hf_operand *first)
{
    struct hf_operand operands[HF_IN_MAX + 2] = {*first};
    enum hf_condition_op op;
    if (find_comparator(p->token, &op)) {
        advance(p);
        return take_operand(p, &operands[1]) ? new_condition(p, op, operands, 2) : NULL;
    }
    if (accept_word(p, "BETWEEN")) {
        if (!take_operand(p, &operands[1])) return NULL;
        if (!accept_word(p, "AND")) return syntax_error(p), NULL;
        return take_operand(p, &operands[2]) ? new_condition(p, HF_BETWEEN, operands, 3) : NULL;
    }
    if (accept_word(p, "IN")) {
        if (!expect(p, "(")) return NULL;
        size_t count = take_operands(p, operands + 1, HF_IN_MAX + 1);
        if (p->code == 0 && count > HF_IN_MAX)
            FAIL(
                p,
                "Invalid %s: The IN operator is provided with too many operands; number of operands: "
                "%zu",
                p->where, count);
        return p->code == 0 ? new_condition(p, HF_IN, operands, count + 1) : NULL;
    }
    return syntax_error(p), NULL;
}

/* A condition or operand in parentheses. */
static void take_group(struct parser *p, struct primary *ret)
{
    bool doubled = hf__token_is(p->token, "(");
    struct primary inner = {0};
    if (!enter(p)) return;
    const struct hf_condition *condition = take_or(p, &inner);
    p->nesting--;
    if (!expect(p, ")")) return;
    if (doubled && inner.in_parentheses) {
        FAIL(p, "Invalid %s: The expression has redundant parentheses;", p->where);
        return;
    }
    *ret = (struct primary){condition, inner.operand, true};
}

static void take_primary(struct parser *p, struct primary *ret)
{
    enum hf_condition_op ignored;
    *ret = (struct primary){0};
    if (accept(p, "(")) {
        take_group(p, ret);
    } else if (at_function_call(p) && !hf__slice_is(p->token.text, "size")) {
        ret->condition = take_function(p);
        bool misused = p->code == 0 && find_comparator(p->token, &ignored);
        if (misused)
            FAIL(p,
                 "Invalid %s: The function is not allowed to be used this way in an expression; "
                 "function: %s",
                 p->where, hf__condition_syntax[ret->condition->op].text);
    } else {
        take_operand(p, &ret->operand);
    }
}

/* NOT, or a primary with what may follow it. *ret stays an operand if nothing does. */
static const struct hf_condition *take_not(struct parser *p, struct primary *ret)
{
    *ret = (struct primary){0};
    if (p->code != 0) return NULL;
    if (accept_word(p, "NOT")) {
        struct primary inner;
        if (!enter(p) || !count_operator(p)) return NULL;
        const struct hf_condition *what = take_not(p, &inner);
        p->nesting--;
        if (p->code == 0 && !what) syntax_error(p);
        return p->code == 0 ? hf__cond_not(p->arena, what) : NULL;
    }
    take_primary(p, ret);
    if (p->code != 0) return NULL;
    if (ret->condition) return ret->condition;
    enum hf_condition_op ignored;
    bool followed = find_comparator(p->token, &ignored) || hf__token_is_word(p->token, "BETWEEN") ||
                    hf__token_is_word(p->token, "IN");
    if (!followed) return NULL;
    struct hf_operand first = ret->operand;
    ret->in_parentheses = false;
    return take_comparison(p, &first);
}

/* A chain of one operator over the next tighter production; leans left. */
static const struct hf_condition *take_chain(
    struct parser *p, const char *keyword, enum hf_condition_op op,
    const struct hf_condition *(*tighter)(struct parser *, struct primary *), struct primary *ret)
{
    const struct hf_condition *left = tighter(p, ret);
    while (p->code == 0 && hf__token_is_word(p->token, keyword)) {
        if (!left) return syntax_error(p), NULL;
        advance(p);
        struct primary other;
        if (!count_operator(p)) return NULL;
        const struct hf_condition *right = tighter(p, &other);
        if (p->code == 0 && !right) return syntax_error(p), NULL;
        left =
            op == HF_AND ? hf__cond_and(p->arena, left, right) : hf__cond_or(p->arena, left, right);
        ret->in_parentheses = false;
    }
    return p->code == 0 ? left : NULL;
}

static const struct hf_condition *take_and(struct parser *p, struct primary *ret)
{
    return take_chain(p, "AND", HF_AND, take_not, ret);
}

static const struct hf_condition *take_or(struct parser *p, struct primary *ret)
{
    return take_chain(p, "OR", HF_OR, take_and, ret);
}

int hf__expr_parse_condition(struct hf_arena *arena, struct hf_slice text,
                             struct hf_bindings *bindings, const char *where,
                             const struct hf_condition **ret, struct hf_error *reterr)
{
    struct parser p;
    int code = begin(&p, arena, text, bindings, where, reterr);
    if (code != 0) return code;
    struct primary operand;
    const struct hf_condition *condition = take_or(&p, &operand);
    if (p.code == 0 && !condition) syntax_error(&p); /* only an operand */
    code = finish(&p);
    if (code == 0) *ret = condition;
    return code;
}

/* ---- updates ---- */

static const struct hf_term *take_term(struct parser *p);

static bool redundant(struct parser *p)
{
    return FAIL(p, "Invalid %s: The expression has redundant parentheses;", p->where);
}

/* A term, perhaps in parentheses. */
static const struct hf_term *take_side(struct parser *p)
{
    if (!accept(p, "(")) return take_term(p);
    if (hf__token_is(p->token, "(")) return redundant(p), NULL;
    const struct hf_term *term = take_term(p);
    return term && expect(p, ")") ? term : NULL;
}

static bool take_term_function(struct parser *p, struct hf_term *ret)
{
    struct hf_slice name = p->token.text;
    bool append = hf__slice_is(name, "list_append");
    if (!append && !hf__slice_is(name, "if_not_exists"))
        return FAIL(p, "Invalid %s: Invalid function name; function: %.*s", p->where, HF_FMT(name));
    ret->kind = append ? HF_TERM_LIST_APPEND : HF_TERM_IF_NOT_EXISTS;
    advance(p);
    if (!expect(p, "(")) return false;
    if (append) {
        ret->first = take_side(p);
        if (!ret->first || !expect(p, ",")) return false;
        ret->second = take_side(p);
        return ret->second && expect(p, ")");
    }
    if (p->token.kind == HF_TOKEN_VALUE)
        return FAIL(p,
                    "Invalid %s: Operator or function requires a document path; operator or "
                    "function: if_not_exists",
                    p->where);
    if (!take_path(p, &ret->path) || !expect(p, ",")) return false;
    ret->first = take_side(p);
    return ret->first && expect(p, ")");
}

static const struct hf_term *take_term(struct parser *p)
{
    struct hf_term *term = hf__arena_zalloc(p->arena, 1, sizeof *term);
    if (!term) return fail_with(p, hf__error_no_memory(p->reterr)), NULL;
    if (!enter(p)) return NULL;
    bool taken;
    if (at_function_call(p)) {
        taken = take_term_function(p, term);
    } else if (p->token.kind == HF_TOKEN_VALUE) {
        term->kind = HF_TERM_VALUE;
        taken = take_value(p, &term->value);
    } else {
        term->kind = HF_TERM_PATH;
        taken = take_path(p, &term->path);
    }
    p->nesting--;
    return taken ? term : NULL;
}

/* The sign after the left side, and the right side. */
static void take_rest_of_sum(struct parser *p, struct hf_action *action)
{
    action->sign = accept(p, "+") ? '+' : accept(p, "-") ? '-' : '\0';
    if (!action->sign) return;
    count_operator(p);
    action->right = take_side(p);
}

/* What is in parentheses, and the closing one: a sum, or its left side. */
static bool take_sum_group(struct parser *p, struct hf_action *action)
{
    if (!enter(p)) return false;
    if (accept(p, "(")) {
        if (!take_sum_group(p, action)) return false;
        if (hf__token_is(p->token, ")")) return redundant(p);
    } else {
        action->left = take_term(p);
    }
    if (p->code == 0 && !action->sign) take_rest_of_sum(p, action);
    p->nesting--;
    return expect(p, ")");
}

/* Parentheses may be around each side, or around the sum. */
static bool take_set(struct parser *p, struct hf_action *action)
{
    if (!expect(p, "=")) return false;
    if (accept(p, "(")) take_sum_group(p, action);
    else action->left = take_term(p);
    if (p->code == 0 && !action->sign) take_rest_of_sum(p, action);
    return p->code == 0;
}

static void take_action(struct parser *p, enum hf_action_kind kind, struct hf_update *update)
{
    struct hf_action action = {.kind = kind};
    if (!take_path(p, &action.path)) return;
    bool taken = true;
    if (kind == HF_SET) taken = take_set(p, &action);
    else if (kind != HF_REMOVE) taken = take_value(p, &action.value);
    if (taken) hf__update_add(p->arena, update, action);
}

static bool at_section(const struct parser *p, enum hf_action_kind *ret)
{
    for (int kind = 0; kind < HF_ACTION_KINDS; kind++) {
        if (!hf__token_is_word(p->token, hf__action_names[kind])) continue;
        *ret = (enum hf_action_kind)kind;
        return true;
    }
    return false;
}

int hf__expr_parse_update(struct hf_arena *arena, struct hf_slice text,
                          struct hf_bindings *bindings, struct hf_update *ret,
                          struct hf_error *reterr)
{
    struct parser p;
    int code = begin(&p, arena, text, bindings, "UpdateExpression", reterr);
    if (code != 0) return code;
    struct hf_update update = {0};
    bool seen[HF_ACTION_KINDS] = {false};
    enum hf_action_kind kind;
    while (p.code == 0 && at_section(&p, &kind)) {
        if (seen[kind])
            FAIL(&p,
                 "Invalid UpdateExpression: The \"%s\" section can only be used once in an update "
                 "expression;",
                 hf__action_names[kind]);
        seen[kind] = true;
        if (p.code == 0) advance(&p);
        do take_action(&p, kind, &update);
        while (p.code == 0 && accept(&p, ","));
    }
    code = finish(&p);
    if (code == 0) *ret = update;
    return code;
}

/* ---- projections ---- */

int hf__expr_parse_projection(struct hf_arena *arena, struct hf_slice text,
                              struct hf_bindings *bindings, struct hf_projection *ret,
                              struct hf_error *reterr)
{
    struct parser p;
    int code = begin(&p, arena, text, bindings, "ProjectionExpression", reterr);
    if (code != 0) return code;
    struct hf_path *paths = NULL;
    size_t count = 0, capacity = 0;
    do {
        paths = hf__arena_grow(arena, paths, count, &capacity, sizeof *paths);
        if (!paths) return hf__error_no_memory(reterr);
        if (take_path(&p, &paths[count])) count++;
    } while (p.code == 0 && accept(&p, ","));
    code = finish(&p);
    if (code == 0) *ret = (struct hf_projection){paths, count};
    return code;
}

/* ---- placeholders as a whole ---- */

static int check_placeholder(struct hf_slice name, const char *parameter, enum hf_token_kind kind,
                             struct hf_error *reterr)
{
    struct hf_token token = hf__token_next(name.ptr, hf__slice_end(name));
    if (token.kind == kind && token.text.len == name.len) return 0;
    return hf__error_set(reterr, HF_ERR_VALIDATION,
                         "%s contains invalid key: Syntax error; key: \"%.*s\"", parameter,
                         HF_FMT(name));
}

int hf__bindings_check(const struct hf_bindings *b, struct hf_error *reterr)
{
    int code = 0;
    for (size_t i = 0; i < b->names.count && code == 0; i++)
        code = check_placeholder(b->names.attrs[i].name, "ExpressionAttributeNames", HF_TOKEN_NAME,
                                 reterr);
    for (size_t i = 0; i < b->values.count && code == 0; i++) {
        struct hf_slice name = b->values.attrs[i].name;
        code = check_placeholder(name, "ExpressionAttributeValues", HF_TOKEN_VALUE, reterr);
        struct hf_error detail;
        if (code != 0) break;
        code = hf__value_check(&b->values.attrs[i].value, &detail);
        if (code != 0)
            hf__error_set(reterr, code,
                          "ExpressionAttributeValues contains invalid value: %s for key %.*s",
                          detail.message, HF_FMT(name));
    }
    return code;
}

int hf__bindings_check_used(const struct hf_bindings *b, struct hf_error *reterr)
{
    static const char text[] = "Value provided in %s unused in expressions: keys: {%.*s}";
    for (size_t i = 0; i < b->names.count; i++)
        if (!b->name_used[i])
            return hf__error_set(reterr, HF_ERR_VALIDATION, text, "ExpressionAttributeNames",
                                 HF_FMT(b->names.attrs[i].name));
    for (size_t i = 0; i < b->values.count; i++)
        if (!b->value_used[i])
            return hf__error_set(reterr, HF_ERR_VALIDATION, text, "ExpressionAttributeValues",
                                 HF_FMT(b->values.attrs[i].name));
    return 0;
}
