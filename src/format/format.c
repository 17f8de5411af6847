#include "format/format.h"

#include <nettle/sha2.h>

#include "base/text.h"

static const struct hf_format *const formats[HF_FORMATS] = {
    &hf__format_holdfast,  &hf__format_awslabs,     &hf__format_dynamolock,
    &hf__format_dlock,     &hf__format_lockservice, &hf__format_single_table,
    &hf__format_fail_open, &hf__format_fail_closed,
};

const struct hf_format *hf__format_at(size_t index)
{
    return index < HF_FORMATS ? formats[index] : NULL;
}

const struct hf_format *hf__format_find(struct hf_slice name)
{
    for (size_t i = 0; i < HF_FORMATS; i++) {
        if (hf__slice_is(name, formats[i]->name)) return formats[i];
    }
    return NULL;
}

struct hf_slice hf__id_text(struct hf_arena *arena, const struct hf_id *id)
{
    char *text = hf__arena_alloc(arena, HF_GRANT_TEXT + 1);
    if (!text) return HF_LIT("");
    hf__hex_encode(id->bytes, sizeof id->bytes, text);
    return hf__slice(text, HF_GRANT_TEXT);
}

static void hash(const void *first, size_t first_len, const void *then, size_t then_len,
                 unsigned char *ret, size_t len)
{
    unsigned char digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, first_len, first);
    sha256_update(&sha, then_len, then);
    sha256_digest(&sha, sizeof digest, digest);
    memcpy(ret, digest, len);
}

bool hf__id_is(const struct hf_id *id, struct hf_slice text)
{
    char own[HF_GRANT_TEXT + 1];
    if (text.len != HF_GRANT_TEXT) return false;
    if (text.ptr[0] == '~') hf__id_mask(id, own);
    else hf__hex_encode(id->bytes, sizeof id->bytes, own);
    return memcmp(own, text.ptr, HF_GRANT_TEXT) == 0;
}

void hf__id_mask(const struct hf_id *id, char ret[HF_GRANT_TEXT + 1])
{
    unsigned char digest[HF_GRANT_TEXT / 2];
    char hex[HF_GRANT_TEXT + 1];
    hash(id->bytes, sizeof id->bytes, "", 0, digest, sizeof digest);
    hf__hex_encode(digest, sizeof digest, hex);
    memcpy(ret, hex, sizeof hex);
    ret[0] = '~';
}

void hf__id_of_secret(const struct hf_id *secret, struct hf_id *ret)
{
    static const char use[] = "session"; /* no other hash of an id is this one */
    hash(secret->bytes, sizeof secret->bytes, use, sizeof use, ret->bytes, sizeof ret->bytes);
}

void hf__id_of_owner(struct hf_slice owner, struct hf_id *ret)
{
    hash(owner.len ? owner.ptr : "", owner.len, "", 0, ret->bytes, sizeof ret->bytes);
}

enum { HALF = sizeof(struct hf_id) / 2 };

void hf__id_bind(struct hf_id *id, const struct hf_id *owner)
{
    hash(id->bytes, HALF, owner->bytes, sizeof owner->bytes, id->bytes + HALF, HALF);
}

bool hf__id_is_bound(const struct hf_id *id, const struct hf_id *owner)
{
    struct hf_id bound = *id;
    hf__id_bind(&bound, owner);
    return hf__id_eq(id, &bound);
}

bool hf__id_eq(const struct hf_id *a, const struct hf_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool hf__id_parse(struct hf_slice text, struct hf_id *ret)
{
    if (text.len != HF_GRANT_TEXT) return false;
    struct hf_id id;
    for (size_t i = 0; i < sizeof id.bytes; i++) {
        int high = hf__hex_value(text.ptr[2 * i]);
        int low = hf__hex_value(text.ptr[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        id.bytes[i] = (unsigned char)(high << 4 | low);
    }
    *ret = id;
    return true;
}

struct hf_slice hf__errand_print(struct hf_arena *arena, enum hf_hold kind, struct hf_slice grant,
                                 struct hf_slice name)
{
    return hf__arena_printf(arena, "%c/%.*s/%.*s", (char)kind, HF_FMT(grant), HF_FMT(name));
}

bool hf__errand_parse(struct hf_slice text, struct hf_errand_text *ret)
{
    enum { BEFORE = 2 + HF_GRANT_TEXT + 1 };
    if (text.len <= BEFORE || text.ptr[1] != '/' || text.ptr[BEFORE - 1] != '/') return false;
    if (!memchr("xsi", text.ptr[0], 3)) return false;
    *ret =
        (struct hf_errand_text){(enum hf_hold)text.ptr[0], hf__slice(text.ptr + 2, HF_GRANT_TEXT),
                                hf__slice_skip(text, BEFORE)};
    return ret->name.len <= HF_LOCK_NAME_MAX;
}

/* Names may hold any character, so the separators are looked for from the end. */
enum { SEPARATOR = 0x1f };

struct hf_slice hf__revocation_print(struct hf_arena *arena, enum hf_hold kind,
                                     struct hf_slice grant, struct hf_slice name,
                                     struct hf_slice by, struct hf_slice reason)
{
    char *tail = hf__arena_alloc(arena, by.len + reason.len + 2);
    if (!tail) return HF_LIT("");
    size_t len = 0;
    struct hf_slice parts[2] = {by, reason};
    for (size_t i = 0; i < 2; i++) {
        tail[len++] = SEPARATOR;
        for (size_t k = 0; k < parts[i].len; k++)
            tail[len++] = parts[i].ptr[k] == SEPARATOR ? ' ' : parts[i].ptr[k];
    }
    struct hf_slice errand = hf__errand_print(arena, kind, grant, name);
    return hf__arena_printf(arena, "%.*s%.*s", HF_FMT(errand), (int)len, tail);
}

static bool cut_last(struct hf_slice *text, struct hf_slice *ret_tail)
{
    for (size_t at = text->len; at > 0; at--) {
        if (text->ptr[at - 1] != SEPARATOR) continue;
        *ret_tail = hf__slice_skip(*text, at);
        text->len = at - 1;
        return true;
    }
    return false;
}

bool hf__revocation_parse(struct hf_slice text, struct hf_errand_text *ret, struct hf_slice *ret_by,
                          struct hf_slice *ret_reason)
{
    return cut_last(&text, ret_reason) && cut_last(&text, ret_by) && hf__errand_parse(text, ret);
}

const char *hf__format_refuses_extra(const struct hf_format *format, const struct hf_layout *layout,
                                     struct hf_slice name)
{
    if (name.len == 0 || name.len > 255) return "an attribute name has 1 to 255 bytes";
    if (!hf__utf8_valid(name)) return "an attribute name is UTF-8 text";
    if (hf__slice_eq(name, layout->key_name) || hf__slice_eq(name, layout->sort_name))
        return "it is the name of the key";
    for (const char *const *own = format->own_names; *own; own++) {
        if (hf__slice_is(name, *own)) return "the format uses an attribute of this name itself";
    }
    return NULL;
}
