/*
 * Our JSON reader against jansson, on generated documents and on mutations of
 * them: both accept, or both refuse; what both accept has the same content.
 *
 * Known differences are avoided rather than excused: jansson refuses numbers
 * that do not fit a double or 64 bits, so generated numbers are small, and a
 * refusal by jansson for that reason ends the comparison of that document.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "harness/test.h"

enum { LIMIT = 1 << 20, DOCUMENTS = 60000, MUTATIONS = 12 };

static void generate(struct hf_rng *rng, struct hf_json_writer *w, int depth)
{
    static const char *const strings[] = {
        "", "a", "owner", "x\ny", "\"\\/", "\xc3\xa9", "\xf0\x9f\x98\x80", "\x01\x1f", "k1", "k2"};
    static const char *const numbers[] = {"0", "-1", "1.5", "12e3", "-0.25E-2", "9007199254740993"};
    char key[16];
    int members = (int)hf_rng_below(rng, 4);
    switch (hf_rng_below(rng, depth > 4 ? 5 : 8)) {
    case 0: hf__json_put_null(w); break;
    case 1: hf__json_put_bool(w, hf_rng_below(rng, 2)); break;
    case 2: hf__json_put_raw(w, hf__slice_str(numbers[hf_rng_below(rng, 6)])); break;
    case 3:
    case 4: hf__json_put_string(w, hf__slice_str(strings[hf_rng_below(rng, 10)])); break;
    case 5:
        hf__json_open(w, '[');
        for (int i = 0; i < members; i++) generate(rng, w, depth + 1);
        hf__json_close(w, ']');
        break;
    default:
        hf__json_open(w, '{');
        for (int i = 0; i < members; i++) {
            snprintf(key, sizeof key, "k%d", i);
            hf__json_put_name(w, key);
            generate(rng, w, depth + 1);
        }
        hf__json_close(w, '}');
    }
}

static void mutate(struct hf_rng *rng, struct hf_buf *buf)
{
    static const char splice[] = "{}[],:\"\\ut10.eE-+ nf\xc3\xa9\x80\x01";
    if (buf->len == 0) return;
    size_t at = hf_rng_below(rng, (uint32_t)buf->len);
    switch (hf_rng_below(rng, 4)) {
    case 0: buf->data[at] = splice[hf_rng_below(rng, sizeof splice - 1)]; break;
    case 1:
        memmove(buf->data + at, buf->data + at + 1, buf->len - at - 1);
        buf->len--;
        break;
    case 2: {
        char c = splice[hf_rng_below(rng, sizeof splice - 1)];
        hf__buf_char(buf, ' ');
        memmove(buf->data + at + 1, buf->data + at, buf->len - at - 1);
        buf->data[at] = c;
        break;
    }
    default: buf->len = at; break;
    }
}

/* Whether what the reader is at has the same content as a jansson value. */
static bool same(struct hf_json_reader *r, const json_t *value)
{
    struct hf_slice text, key;
    bool flag;
    size_t count = 0;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        if (!hf__json_object(r)) return false;
        while (hf__json_key(r, &key)) {
            const json_t *member = json_object_getn(value, key.ptr, key.len);
            if (!member || !same(r, member)) return false;
            count++;
        }
        return count == json_object_size(value);
    case JSON_ARRAY:
        if (!hf__json_array(r)) return false;
        while (hf__json_element(r))
            if (!same(r, json_array_get(value, count++))) return false;
        return count == json_array_size(value);
    case JSON_STRING:
        return hf__json_string(r, &text) &&
               hf__slice_eq(text, hf__slice(json_string_value(value), json_string_length(value)));
    case JSON_INTEGER:
    case JSON_REAL: {
        char copy[64] = "";
        if (!hf__json_number(r, &text) || text.len >= sizeof copy) return false;
        memcpy(copy, text.ptr, text.len);
        return json_is_integer(value) ? strtoll(copy, NULL, 10) == json_integer_value(value)
                                      : strtod(copy, NULL) == json_real_value(value);
    }
    case JSON_TRUE:
    case JSON_FALSE: return hf__json_bool(r, &flag) && flag == json_is_true(value);
    case JSON_NULL: return hf__json_null(r);
    }
    return false;
}

static void compare(struct hf_slice document)
{
    struct hf_arena arena = {0};
    struct hf_json_reader r;
    json_error_t theirs;
    json_t *value = json_loadb(document.ptr, document.len,
                               JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &theirs);
    hf__json_reader_init(&r, document, LIMIT, &arena);
    hf__json_skip(&r);
    int code = hf__json_finish(&r);
    bool overflow = !value && (strstr(theirs.text, "overflow") || strstr(theirs.text, "too big"));
    hf_test_note("%.*s | ours: %s | theirs: %s", HF_FMT(document), code ? r.error.message : "good",
                 value ? "good" : theirs.text);
    if (!overflow) CHECK((value != NULL) == (code == 0));
    if (value) {
        hf__json_reader_init(&r, document, LIMIT, &arena);
        CHECK(same(&r, value) && hf__json_finish(&r) == 0);
        json_decref(value);
    }
    hf__arena_free(&arena);
}

TEST(agrees_with_jansson_on_generated_and_mutated_documents)
{
    struct hf_rng rng = {20261115};
    struct hf_buf buf;
    hf__buf_init(&buf, LIMIT);
    for (int i = 0; i < DOCUMENTS; i++) {
        struct hf_json_writer w;
        hf__buf_clear(&buf);
        hf__json_writer_init(&w, &buf);
        generate(&rng, &w, 0);
        compare(hf__buf_view(&buf));
        for (int j = 0; j < MUTATIONS && buf.len > 0; j++) {
            mutate(&rng, &buf);
            compare(hf__buf_view(&buf));
        }
    }
    hf__buf_free(&buf);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(agrees_with_jansson_on_generated_and_mutated_documents),
    };
    return RUN_TESTS(tests);
}
