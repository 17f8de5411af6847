#include "service/http/rules.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

enum who_kind { ANYBODY, OWNER, CLAIM, CERTIFICATE, ACCESS_KEY };

struct pattern {
    struct hf_slice text; /* without its * */
    bool is_prefix;
    bool is_table;
};

struct rule {
    enum who_kind kind;
    struct hf_slice who;
    size_t claim; /* CLAIM: which */
    unsigned rights;
    struct pattern *patterns;
    size_t pattern_count;
};

struct hf_rules {
    int references; /* atomic */
    struct hf_arena arena;
    struct rule *at;
    size_t count, capacity;
    struct hf_claim_test *claims; /* room for all, allocated with the first */
    size_t claim_count;
};

/* ---- reading ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of a line; empty at its end, or where a comment begins. */
static struct hf_slice take_word(struct hf_slice *rest)
{
    size_t at = 0, len = 0;
    while (at < rest->len && is_blank(rest->ptr[at])) at++;
    *rest = hf__slice_skip(*rest, at);
    if (rest->len > 0 && rest->ptr[0] == '#') rest->len = 0;
    while (len < rest->len && !is_blank(rest->ptr[len])) len++;
    struct hf_slice word = hf__slice(rest->ptr, len);
    *rest = hf__slice_skip(*rest, len);
    return word;
}

static int take_claim(struct hf_rules *rules, struct rule *rule, struct hf_error *reterr)
{
    const char *equals = memchr(rule->who.ptr, '=', rule->who.len);
    if (!equals || equals == rule->who.ptr || equals + 1 == rule->who.ptr + rule->who.len)
        return hf__error_set(reterr, HF_ERR_INVALID, "invalid claim: expected claim:NAME=VALUE");
    struct hf_claim_test test = {.name =
                                     hf__slice(rule->who.ptr, (size_t)(equals - rule->who.ptr))};
    test.value = hf__slice_skip(rule->who, test.name.len + 1);
    for (rule->claim = 0; rule->claim < rules->claim_count; rule->claim++) {
        const struct hf_claim_test *known = &rules->claims[rule->claim];
        if (hf__slice_eq(known->name, test.name) && hf__slice_eq(known->value, test.value))
            return 0;
    }
    if (rules->claim_count == HF_RULES_CLAIMS_MOST)
        return hf__error_set(reterr, HF_ERR_LIMIT, "more than %d claims", HF_RULES_CLAIMS_MOST);
    if (!rules->claims)
        rules->claims =
            hf__arena_zalloc(&rules->arena, HF_RULES_CLAIMS_MOST, sizeof *rules->claims);
    if (!rules->claims) return hf__error_no_memory(reterr);
    rules->claims[rules->claim_count++] = test;
    return 0;
}

static int take_who(struct hf_rules *rules, struct rule *rule, struct hf_slice word,
                    struct hf_error *reterr)
{
    static const struct {
        const char *prefix;
        enum who_kind kind;
    } kinds[] = {
        {"owner:", OWNER}, {"claim:", CLAIM}, {"cert:", CERTIFICATE}, {"key:", ACCESS_KEY}};
    rule->kind = ANYBODY;
    if (hf__slice_is(word, "*")) return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct hf_slice prefix = hf__slice_str(kinds[i].prefix);
        if (!hf__slice_starts(word, prefix) || word.len == prefix.len) continue;
        rule->kind = kinds[i].kind;
        rule->who = hf__arena_copy(&rules->arena, hf__slice_skip(word, prefix.len));
        if (rules->arena.failed) return hf__error_no_memory(reterr);
        return rule->kind == CLAIM ? take_claim(rules, rule, reterr) : 0;
    }
    return hf__error_set(
        reterr, HF_ERR_INVALID,
        "invalid caller \"%.*s\": expected owner:NAME, claim:NAME=VALUE, cert:NAME, key:ID "
        "or *",
        (int)(word.len < 100 ? word.len : 100), word.ptr);
}

static int take_rights(struct rule *rule, struct hf_slice word, struct hf_error *reterr)
{
    static const struct {
        const char *name;
        unsigned rights; /* with the rights that it includes */
    } known[] = {
        {"read", HF_RIGHT_READ},
        {"lock", HF_RIGHT_LOCK | HF_RIGHT_READ},
        {"force", HF_RIGHT_FORCE | HF_RIGHT_READ},
        {"write", HF_RIGHT_WRITE | HF_RIGHT_READ},
        {"admin", HF_RIGHT_READ | HF_RIGHT_LOCK | HF_RIGHT_FORCE | HF_RIGHT_ADMIN | HF_RIGHT_WRITE},
    };
    while (word.len > 0) {
        const char *comma = memchr(word.ptr, ',', word.len);
        struct hf_slice one = hf__slice(word.ptr, comma ? (size_t)(comma - word.ptr) : word.len);
        unsigned found = 0;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (hf__slice_is(one, known[i].name)) found = known[i].rights;
        if (!found)
            return hf__error_set(reterr, HF_ERR_INVALID,
                                 "unknown right \"%.*s\": expected read, lock, force, admin, or "
                                 "write for tables",
                                 (int)(one.len < 100 ? one.len : 100), one.ptr);
        rule->rights |= found;
        word = hf__slice_skip(word, comma ? one.len + 1 : one.len);
        if (comma && word.len == 0)
            return hf__error_set(reterr, HF_ERR_INVALID, "missing right after the comma");
    }
    return rule->rights ? 0 : hf__error_set(reterr, HF_ERR_INVALID, "missing rights");
}

static int check_pattern(const struct rule *rule, const struct pattern *pattern,
                         struct hf_error *reterr)
{
    bool admin = rule->rights & HF_RIGHT_ADMIN;
    const char *star = pattern->text.len ? memchr(pattern->text.ptr, '*', pattern->text.len) : NULL;
    if (star)
        return hf__error_set(reterr, HF_ERR_INVALID, "a * is allowed only at the end of a name");
    if (!pattern->is_prefix && pattern->text.len == 0)
        return hf__error_set(reterr, HF_ERR_INVALID, "missing table name: expected table:NAME");
    if (!admin && pattern->is_table && (rule->rights & (HF_RIGHT_LOCK | HF_RIGHT_FORCE)))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "a table has the rights read, write and admin");
    if (!admin && !pattern->is_table && (rule->rights & HF_RIGHT_WRITE))
        return hf__error_set(reterr, HF_ERR_INVALID,
                             "write is a right on tables (table:NAME); for locks use lock");
    return 0;
}

static int take_names(struct hf_rules *rules, struct rule *rule, struct hf_slice rest,
                      struct hf_error *reterr)
{
    struct hf_slice look = rest;
    size_t count = 0;
    while (take_word(&look).len > 0) count++;
    if (count == 0) return hf__error_set(reterr, HF_ERR_INVALID, "missing names; * means all");
    rule->patterns = hf__arena_zalloc(&rules->arena, count, sizeof *rule->patterns);
    if (!rule->patterns) return hf__error_no_memory(reterr);
    for (struct hf_slice word; (word = take_word(&rest)).len > 0;) {
        struct pattern *pattern = &rule->patterns[rule->pattern_count++];
        pattern->is_table = hf__slice_starts(word, HF_LIT("table:"));
        if (pattern->is_table) word = hf__slice_skip(word, 6);
        pattern->is_prefix = word.len > 0 && word.ptr[word.len - 1] == '*';
        if (pattern->is_prefix) word.len--;
        pattern->text = hf__arena_copy(&rules->arena, word);
        if (rules->arena.failed) return hf__error_no_memory(reterr);
        int code = check_pattern(rule, pattern, reterr);
        if (code != 0) return code;
    }
    return 0;
}

static bool make_room(struct hf_rules *rules)
{
    if (rules->count < rules->capacity) return true;
    size_t capacity = rules->capacity ? 2 * rules->capacity : 8;
    struct rule *at = hf__realloc(rules->at, capacity * sizeof *at);
    if (!at) return false;
    rules->at = at;
    rules->capacity = capacity;
    return true;
}

/* WHO RIGHTS NAME …; without `has_who`, for any caller. */
static int take_rule(struct hf_rules *rules, struct hf_slice line, bool has_who,
                     struct hf_error *reterr)
{
    struct rule rule = {0};
    struct hf_slice rest = line, look = line;
    if (take_word(&look).len == 0) return 0;
    if (rules->count == HF_RULES_MOST)
        return hf__error_set(reterr, HF_ERR_LIMIT, "more than %d rules", HF_RULES_MOST);
    if (!make_room(rules)) return hf__error_no_memory(reterr);
    int code = has_who ? take_who(rules, &rule, take_word(&rest), reterr) : 0;
    if (code == 0) code = take_rights(&rule, take_word(&rest), reterr);
    if (code == 0) code = take_names(rules, &rule, rest, reterr);
    if (code == 0) rules->at[rules->count++] = rule;
    return code;
}

static struct hf_rules *new_rules(void)
{
    struct hf_rules *rules = hf__calloc(1, sizeof *rules);
    if (rules) rules->references = 1;
    return rules;
}

int hf__rules_parse(struct hf_slice text, const char *name, struct hf_rules **ret,
                    struct hf_error *reterr)
{
    if (text.len > HF_RULES_MAX_SIZE)
        return hf__error_set(reterr, HF_ERR_LIMIT, "%s has more than %d bytes", name,
                             HF_RULES_MAX_SIZE);
    struct hf_rules *rules = new_rules();
    if (!rules) return hf__error_no_memory(reterr);
    int code = 0;
    for (int number = 1; text.len > 0 && code == 0; number++) {
        const char *newline = memchr(text.ptr, '\n', text.len);
        size_t len = newline ? (size_t)(newline - text.ptr) : text.len;
        code = take_rule(rules, hf__slice(text.ptr, len), true, reterr);
        if (code != 0) hf__error_prefix(reterr, "%s:%d", name, number);
        text = hf__slice_skip(text, newline ? len + 1 : len);
    }
    if (code == 0) *ret = rules;
    else hf__rules_unref(rules);
    return code;
}

int hf__rules_add(struct hf_rules **rules, struct hf_slice text, struct hf_error *reterr)
{
    if (!*rules) *rules = new_rules();
    if (!*rules) return hf__error_no_memory(reterr);
    return take_rule(*rules, text, false, reterr);
}

struct hf_rules *hf__rules_ref(struct hf_rules *rules)
{
    if (rules) __atomic_add_fetch(&rules->references, 1, __ATOMIC_RELAXED);
    return rules;
}

void hf__rules_unref(struct hf_rules *rules)
{
    if (!rules || __atomic_sub_fetch(&rules->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    hf__arena_free(&rules->arena);
    hf__free(rules->at);
    hf__free(rules);
}

/* ---- checking ---- */

const struct hf_claim_test *hf__rules_claims(const struct hf_rules *rules, size_t *ret_count)
{
    *ret_count = rules ? rules->claim_count : 0;
    return rules ? rules->claims : NULL;
}

static bool is_about(const struct rule *rule, const struct hf_who *who)
{
    switch (rule->kind) {
    case ANYBODY: return true;
    case OWNER: return who->owner && hf__slice_is(rule->who, who->owner);
    case CERTIFICATE: return who->certificate && hf__slice_is(rule->who, who->certificate);
    case ACCESS_KEY: return who->access_key && hf__slice_is(rule->who, who->access_key);
    case CLAIM: return who->claims >> rule->claim & 1;
    }
    return false;
}

static bool fits(const struct pattern *pattern, bool is_table, struct hf_slice name)
{
    if (pattern->is_table != is_table) return false;
    return pattern->is_prefix ? hf__slice_starts(name, pattern->text)
                              : hf__slice_eq(name, pattern->text);
}

bool hf__rules_allow(const struct hf_rules *rules, const struct hf_who *who, enum hf_right right,
                     bool is_table, struct hf_slice name)
{
    for (size_t i = 0; rules && i < rules->count; i++) {
        const struct rule *rule = &rules->at[i];
        if (!(rule->rights & right) || !is_about(rule, who)) continue;
        for (size_t j = 0; j < rule->pattern_count; j++)
            if (fits(&rule->patterns[j], is_table, name)) return true;
    }
    return false;
}
