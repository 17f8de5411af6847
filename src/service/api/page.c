/* The page for people, and the API description for programs: files embedded in the program. */
#include "service/service.h"

/* HF_PAGE_DIR is set by the build, which also tracks the dependency on these files. */
#define EMBED(name, file)                                                                          \
    __asm__(".section .rodata\n"                                                                   \
            ".global hf__file_" #name "\n"                                                         \
            "hf__file_" #name ":\n"                                                                \
            ".incbin \"" HF_PAGE_DIR "/" file "\"\n"                                               \
            ".global hf__file_" #name "_end\n"                                                     \
            "hf__file_" #name "_end:\n"                                                            \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const char hf__file_##name[], hf__file_##name##_end[]

EMBED(html, "page.html");
EMBED(css, "page.css");
/* One script, of parts that need no loader. */
EMBED(js, "text.js\"\n.incbin \"" HF_PAGE_DIR "/table.js\"\n.incbin \"" HF_PAGE_DIR
          "/tiles.js\"\n.incbin \"" HF_PAGE_DIR "/detail.js\"\n.incbin \"" HF_PAGE_DIR "/live.js");
EMBED(openapi, "openapi.yaml");

static void give(struct hf_exchange *exchange, const char *type, const char *begin, const char *end)
{
    exchange->status = 200;
    exchange->content_type = type;
    exchange->is_static = true;
    exchange->fixed = hf__slice(begin, (size_t)(end - begin));
    hf__exchange_done(exchange);
}

void hf__page(struct hf_exchange *exchange)
{
    give(exchange, "text/html; charset=utf-8", hf__file_html, hf__file_html_end);
}

void hf__page_style(struct hf_exchange *exchange)
{
    give(exchange, "text/css; charset=utf-8", hf__file_css, hf__file_css_end);
}

void hf__page_script(struct hf_exchange *exchange)
{
    give(exchange, "text/javascript; charset=utf-8", hf__file_js, hf__file_js_end);
}

void hf__openapi(struct hf_exchange *exchange)
{
    give(exchange, "application/yaml", hf__file_openapi, hf__file_openapi_end);
}
