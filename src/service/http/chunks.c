#include "service/http/chunks.h"

#include "base/text.h"

enum { EXTRA_MOST = 4096, SIZE_MOST = 1 << 30 };

enum state {
    SIZE,
    SIZE_MORE,
    BLANK,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    TRAILER_MORE,
    TRAILER_LF,
    END_LF,
    END
};

/* Handles a byte that is not data; false: it is not allowed here. */
static bool step(struct hf_chunks *chunks, char c)
{
    int digit = hf__hex_value(c);
    bool is_control = (c >= 0 && c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f;
    if (++chunks->extra > EXTRA_MOST || is_control) return false;
    switch ((enum state)chunks->state) {
    case SIZE:
        if (digit < 0) return false;
        chunks->left = digit;
        chunks->state = SIZE_MORE;
        return true;
    case SIZE_MORE:
        if (digit >= 0) {
            chunks->left = chunks->left * 16 + digit;
            return chunks->left <= SIZE_MOST;
        }
        chunks->state = c == '\r' ? SIZE_LF : c == ';' ? EXTENSION : BLANK;
        return c == '\r' || c == ';' || c == ' ' || c == '\t';
    case BLANK:
        if (c != ' ' && c != '\t') chunks->state = c == '\r' ? SIZE_LF : EXTENSION;
        return c == '\r' || c == ';' || c == ' ' || c == '\t';
    case EXTENSION:
        if (c == '\r') chunks->state = SIZE_LF;
        return c != '\n';
    case SIZE_LF: chunks->state = chunks->left > 0 ? DATA : TRAILER; return c == '\n';
    case DATA_CR: chunks->state = DATA_LF; return c == '\r';
    case DATA_LF: chunks->state = SIZE; return c == '\n';
    case TRAILER: chunks->state = c == '\r' ? END_LF : TRAILER_MORE; return c != '\n';
    case TRAILER_MORE:
        if (c == '\r') chunks->state = TRAILER_LF;
        return c != '\n';
    case TRAILER_LF: chunks->state = TRAILER; return c == '\n';
    case END_LF: chunks->state = END; return c == '\n';
    case DATA:
    case END: break;
    }
    return false;
}

enum hf_chunks_result hf__chunks_next(struct hf_chunks *chunks, struct hf_slice *bytes,
                                      struct hf_slice *ret_data)
{
    while (chunks->state != END) {
        if (bytes->len == 0) return HF_CHUNKS_MORE;
        if (chunks->state == DATA) {
            size_t len = (int64_t)bytes->len < chunks->left ? bytes->len : (size_t)chunks->left;
            *ret_data = hf__slice(bytes->ptr, len);
            *bytes = hf__slice_skip(*bytes, len);
            chunks->left -= (int64_t)len;
            chunks->extra = 0;
            if (chunks->left == 0) chunks->state = DATA_CR;
            return HF_CHUNKS_DATA;
        }
        if (!step(chunks, bytes->ptr[0])) return HF_CHUNKS_BAD;
        *bytes = hf__slice_skip(*bytes, 1);
    }
    return HF_CHUNKS_END;
}
