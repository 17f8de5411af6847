#include "cli/option.h"

#include <stdio.h>

#include "base/text.h"
#include "cli/moment.h"

int option_set_value(const struct option *option, void *target, const char *text,
                     struct hf_error *reterr)
{
    char *at = (char *)target + option->offset;
    int64_t number;
    switch (option->kind) {
    case OPTION_FLAG: *(bool *)at = true; return 0;
    case OPTION_TEXT: *(const char **)at = text; return 0;
    case OPTION_DURATION:
        if (!duration_parse(text, &number))
            return hf__error_set(
                reterr, HF_ERR_INVALID,
                "--%s: invalid duration \"%s\": expected a number followed by ms, s, m or h",
                option->name, text);
        if (number == 0)
            return hf__error_set(reterr, HF_ERR_INVALID, "--%s cannot be 0", option->name);
        *(int64_t *)at = number;
        return 0;
    case OPTION_NUMBER:
        if (!hf__parse_int64(hf__slice_str(text), &number) || number < 1)
            return hf__error_set(reterr, HF_ERR_INVALID,
                                 "--%s: invalid number \"%s\"; expected a positive whole number",
                                 option->name, text);
        *(int64_t *)at = number;
        return 0;
    }
    return 0;
}

static const struct option *find_name(const struct option_set *set, struct hf_slice name)
{
    for (const struct option *option = set->options; option->name; option++) {
        if (hf__slice_is(name, option->name)) return option;
    }
    return NULL;
}

static const struct option *find_letter(const struct option_set *set, char letter)
{
    for (const struct option *option = set->options; option->name; option++) {
        if (option->letter == letter) return option;
    }
    return NULL;
}

/* The state of the parser. */
struct reader {
    const struct option_set *sets;
    size_t set_count;
    char **at; /* the next argument */
    char **end;
};

static int take_long(struct reader *reader, const char *text, struct hf_error *reterr)
{
    const char *equals = strchr(text, '=');
    struct hf_slice name = hf__slice(text, equals ? (size_t)(equals - text) : strlen(text));
    for (size_t i = 0; i < reader->set_count; i++) {
        const struct option *option = find_name(&reader->sets[i], name);
        if (!option) continue;
        const char *value = equals ? equals + 1 : NULL;
        if (option->kind == OPTION_FLAG && value)
            return hf__error_set(reterr, HF_ERR_INVALID, "--%s takes no value", option->name);
        if (option->kind != OPTION_FLAG && !value) {
            if (reader->at == reader->end)
                return hf__error_set(reterr, HF_ERR_INVALID, "--%s needs a value (%s)",
                                     option->name, option->argument);
            value = *reader->at++;
        }
        return option_set_value(option, reader->sets[i].target, value, reterr);
    }
    return hf__error_set(reterr, HF_ERR_INVALID, "unknown option --%.*s", HF_FMT(name));
}

/* -nx, -w5, -w 5 */
static int take_letters(struct reader *reader, const char *letters, struct hf_error *reterr)
{
    for (; *letters; letters++) {
        const struct option *option = NULL;
        size_t i = 0;
        for (; i < reader->set_count && !option; i++)
            option = find_letter(&reader->sets[i], *letters);
        if (!option) return hf__error_set(reterr, HF_ERR_INVALID, "unknown option -%c", *letters);
        void *target = reader->sets[i - 1].target;
        if (option->kind == OPTION_FLAG) {
            option_set_value(option, target, NULL, reterr);
            continue;
        }
        const char *value = letters + 1;
        if (!*value) {
            if (reader->at == reader->end)
                return hf__error_set(reterr, HF_ERR_INVALID, "-%c needs a value (%s)", *letters,
                                     option->argument);
            value = *reader->at++;
        }
        return option_set_value(option, target, value, reterr);
    }
    return 0;
}

int options_take(const struct option_set *sets, size_t set_count, struct arguments *arguments,
                 int ends_at, struct hf_error *reterr)
{
    struct reader reader = {sets, set_count, arguments->at, arguments->at + arguments->count};
    char **words = arguments->at; /* the remaining words are moved to the front */
    int count = 0, code = 0;
    while (reader.at < reader.end && code == 0) {
        char *text = *reader.at;
        bool is_option = text[0] == '-' && text[1] != '\0';
        if (strcmp(text, "--") == 0 || (!is_option && ends_at > 0 && count >= ends_at)) {
            if (is_option) reader.at++;
            while (reader.at < reader.end) words[count++] = *reader.at++;
            break;
        }
        reader.at++;
        if (!is_option) words[count++] = text;
        else if (text[1] == '-') code = take_long(&reader, text + 2, reterr);
        else code = take_letters(&reader, text + 1, reterr);
    }
    if (count < arguments->count) words[count] = NULL;
    arguments->count = count;
    return code;
}
