#include "wire/expr_print.h"

static size_t name_index(struct hf_placeholders *p, struct hf_slice name)
{
    for (size_t i = 0; i < p->name_count; i++)
        if (hf__slice_eq(p->names[i], name)) return i;
    void *names = hf__arena_grow(p->arena, p->names, p->name_count, &p->name_capacity, sizeof name);
    if (!names) return 0; /* the arena says that it failed */
    p->names = names;
    p->names[p->name_count] = name;
    return p->name_count++;
}

static size_t value_index(struct hf_placeholders *p, const struct hf_value *value)
{
    void *values =
        hf__arena_grow(p->arena, p->values, p->value_count, &p->value_capacity, sizeof value);
    if (!values) return 0;
    p->values = values;
    p->values[p->value_count] = value;
    return p->value_count++;
}

static void print_path(struct hf_buf *out, struct hf_placeholders *p, struct hf_path path)
{
    for (size_t i = 0; i < path.count; i++) {
        const struct hf_path_part *part = &path.parts[i];
        if (part->is_index) hf__buf_printf(out, "[%u]", part->index);
        else hf__buf_printf(out, "%s#n%zu", i ? "." : "", name_index(p, part->name));
    }
}

static void print_value(struct hf_buf *out, struct hf_placeholders *p, const struct hf_value *value)
{
    hf__buf_printf(out, ":v%zu", value_index(p, value));
}

static void print_operand(struct hf_buf *out, struct hf_placeholders *p,
                          const struct hf_operand *operand)
{
    if (operand->is_size) hf__buf_str(out, "size(");
    if (operand->is_path) print_path(out, p, operand->path);
    else print_value(out, p, &operand->value);
    if (operand->is_size) hf__buf_char(out, ')');
}

static void print_operands(struct hf_buf *out, struct hf_placeholders *p,
                           const struct hf_condition *c, size_t from, const char *between)
{
    for (size_t i = from; i < c->count; i++) {
        if (i > from) hf__buf_str(out, between);
        print_operand(out, p, &c->operands[i]);
    }
}

static void print_simple(struct hf_buf *out, struct hf_placeholders *p,
                         const struct hf_condition *c)
{
    const struct hf_condition_syntax *syntax = &hf__condition_syntax[c->op];
    if (syntax->function) {
        hf__buf_printf(out, "%s(", syntax->text);
        print_operands(out, p, c, 0, ", ");
        hf__buf_char(out, ')');
        return;
    }
    print_operand(out, p, &c->operands[0]);
    hf__buf_printf(out, " %s ", syntax->text);
    if (c->op == HF_IN) hf__buf_char(out, '(');
    print_operands(out, p, c, 1, c->op == HF_BETWEEN ? " AND " : ", ");
    if (c->op == HF_IN) hf__buf_char(out, ')');
}

/* Parentheses around AND and OR inside another operator: never needed twice, never left to rank. */
static void print_child(struct hf_buf *out, struct hf_placeholders *p, const struct hf_condition *c,
                        bool bare)
{
    bool group = (c->op == HF_AND || c->op == HF_OR) && !bare;
    if (group) hf__buf_char(out, '(');
    hf__expr_print_condition(out, p, c);
    if (group) hf__buf_char(out, ')');
}

void hf__expr_print_condition(struct hf_buf *out, struct hf_placeholders *p,
                              const struct hf_condition *c)
{
    switch (c->op) {
    case HF_AND:
    case HF_OR: /* the left child of the same operator needs none: chains lean left */
        print_child(out, p, c->left, c->left->op == c->op);
        hf__buf_printf(out, " %s ", hf__condition_syntax[c->op].text);
        print_child(out, p, c->right, false);
        break;
    case HF_NOT:
        hf__buf_str(out, "NOT ");
        print_child(out, p, c->left, false);
        break;
    default: print_simple(out, p, c);
    }
}

static void print_term(struct hf_buf *out, struct hf_placeholders *p, const struct hf_term *term)
{
    switch (term->kind) {
    case HF_TERM_PATH: print_path(out, p, term->path); break;
    case HF_TERM_VALUE: print_value(out, p, &term->value); break;
    case HF_TERM_IF_NOT_EXISTS:
        hf__buf_str(out, "if_not_exists(");
        print_path(out, p, term->path);
        hf__buf_str(out, ", ");
        print_term(out, p, term->first);
        hf__buf_char(out, ')');
        break;
    case HF_TERM_LIST_APPEND:
        hf__buf_str(out, "list_append(");
        print_term(out, p, term->first);
        hf__buf_str(out, ", ");
        print_term(out, p, term->second);
        hf__buf_char(out, ')');
        break;
    }
}

static void print_action(struct hf_buf *out, struct hf_placeholders *p,
                         const struct hf_action *action)
{
    print_path(out, p, action->path);
    switch (action->kind) {
    case HF_SET:
        hf__buf_str(out, " = ");
        print_term(out, p, action->left);
        if (!action->sign) break;
        hf__buf_printf(out, " %c ", action->sign);
        print_term(out, p, action->right);
        break;
    case HF_REMOVE: break;
    case HF_ADD:
    case HF_DELETE:
        hf__buf_char(out, ' ');
        print_value(out, p, &action->value);
        break;
    }
}

void hf__expr_print_update(struct hf_buf *out, struct hf_placeholders *p,
                           const struct hf_update *update)
{
    size_t start = out->len;
    for (int kind = 0; kind < HF_ACTION_KINDS; kind++) {
        bool any = false;
        for (size_t i = 0; i < update->count; i++) {
            if ((int)update->actions[i].kind != kind) continue;
            if (any) hf__buf_str(out, ", ");
            else hf__buf_printf(out, "%s%s ", out->len > start ? " " : "", hf__action_names[kind]);
            any = true;
            print_action(out, p, &update->actions[i]);
        }
    }
}

void hf__expr_print_projection(struct hf_buf *out, struct hf_placeholders *p,
                               const struct hf_projection *projection)
{
    for (size_t i = 0; i < projection->count; i++) {
        if (i > 0) hf__buf_str(out, ", ");
        print_path(out, p, projection->paths[i]);
    }
}
