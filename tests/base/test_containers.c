#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/heap.h"
#include "base/list.h"
#include "harness/test.h"

TEST(buffer_grows_and_terminates)
{
    struct hf_buf buf;
    hf__buf_init(&buf, 100000);
    CHECK_STR(hf__buf_cstr(&buf), "");
    for (int i = 0; i < 1000; i++) hf__buf_printf(&buf, "%d,", i);
    CHECK_INT(buf.len, 3890);
    CHECK_INT(strlen(hf__buf_cstr(&buf)), 3890);
    hf__buf_free(&buf);
}

TEST(a_buffer_without_a_limit_grows)
{
    struct hf_buf buf;
    hf__buf_init(&buf, SIZE_MAX);
    for (int i = 0; i < 1000; i++) hf__buf_add(&buf, "0123456789", 10);
    CHECK(!buf.failed);
    CHECK_INT(buf.len, 10000);
    hf__buf_free(&buf);
}

TEST(buffer_keeps_its_limit)
{
    struct hf_buf buf;
    hf__buf_init(&buf, 10);
    hf__buf_str(&buf, "0123456789");
    CHECK(!buf.failed);
    hf__buf_char(&buf, 'x');
    CHECK(buf.failed);
    CHECK(hf__buf_cstr(&buf) == NULL);
    CHECK_SLICE(hf__buf_view(&buf), HF_LIT("0123456789"));
    hf__buf_clear(&buf);
    hf__buf_printf(&buf, "%s", "hello, world");
    CHECK(buf.failed);
    CHECK_INT(buf.len, 0);
    hf__buf_free(&buf);
}

static void fill_a_buffer(void)
{
    struct hf_buf buf;
    hf__buf_init(&buf, 4000);
    for (int i = 0; i < 100; i++) hf__buf_str(&buf, "some text to make it grow");
    CHECK(buf.failed == hf_alloc_has_failed());
    hf__buf_free(&buf);
}

TEST(buffer_survives_want_of_memory)
{
    CHECK(hf_test_torture(fill_a_buffer) > 2);
}

TEST(arena_aligns_and_keeps_what_it_gave)
{
    struct hf_arena arena = {0};
    char *parts[500];
    for (int i = 0; i < 500; i++) {
        parts[i] = hf__arena_alloc(&arena, (size_t)i * 7 % 300 + 1);
        CHECK((uintptr_t)parts[i] % 16 == 0);
        memset(parts[i], i & 127, (size_t)i * 7 % 300 + 1);
    }
    for (int i = 0; i < 500; i++) CHECK_INT(parts[i][i * 7 % 300], i & 127);
    char *large = hf__arena_alloc(&arena, 1 << 20);
    memset(large, 1, 1 << 20);
    hf__arena_reset(&arena);
    CHECK_SLICE(hf__arena_printf(&arena, "%d-%s", 7, "x"), HF_LIT("7-x"));
    hf__arena_free(&arena);
}

TEST(arena_refuses_what_overflows)
{
    struct hf_arena arena = {0};
    CHECK(hf__arena_zalloc(&arena, SIZE_MAX / 2, 3) == NULL);
    CHECK(arena.failed);
    CHECK(hf__arena_alloc(&arena, 1) == NULL);
    hf__arena_reset(&arena);
    CHECK(hf__arena_alloc(&arena, SIZE_MAX) == NULL);
    hf__arena_free(&arena);
}

static void fill_an_arena(void)
{
    struct hf_arena arena = {0};
    int *numbers = NULL;
    size_t count = 0, capacity = 0;
    for (int i = 0; i < 5000; i++) {
        int *grown = hf__arena_grow(&arena, numbers, count, &capacity, sizeof *numbers);
        if (!grown) break;
        numbers = grown;
        numbers[count++] = i;
    }
    CHECK(arena.failed == hf_alloc_has_failed());
    for (size_t i = 0; i < count; i++) CHECK_INT(numbers[i], (int)i);
    hf__arena_free(&arena);
}

TEST(arena_survives_want_of_memory)
{
    CHECK(hf_test_torture(fill_an_arena) > 2);
}

struct element {
    int value;
    struct hf_list node;
};

TEST(list_keeps_order_through_splice_and_removal)
{
    struct hf_list a, b;
    struct element elements[6];
    hf__list_init(&a);
    hf__list_init(&b);
    CHECK(hf__list_pop(&a) == NULL);
    for (int i = 0; i < 6; i++) {
        elements[i].value = i;
        hf__list_append(i < 3 ? &a : &b, &elements[i].node);
    }
    hf__list_remove(&elements[1].node);
    hf__list_remove(&elements[1].node);
    hf__list_splice(&a, &b);
    CHECK(hf__list_empty(&b));
    hf__list_splice(&a, &b);
    static const int expected[] = {0, 2, 3, 4, 5};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        struct hf_list *node = hf__list_pop(&a);
        CHECK_INT(HF_CONTAINER(node, struct element, node)->value, expected[i]);
    }
    CHECK(hf__list_empty(&a));
}

TEST(heap_gives_the_earliest_first_whatever_was_moved_or_removed)
{
    enum { COUNT = 400 };
    struct hf_heap heap = {0};
    struct hf_heap_node nodes[COUNT];
    struct hf_rng rng = {42};
    for (int i = 0; i < COUNT; i++) {
        hf__heap_node_init(&nodes[i]);
        CHECK(hf__heap_set(&heap, &nodes[i], hf_rng_below(&rng, 1000)));
    }
    for (int i = 0; i < COUNT; i += 3) hf__heap_remove(&heap, &nodes[i]);
    hf__heap_remove(&heap, &nodes[0]);
    for (int i = 1; i < COUNT; i += 3) hf__heap_set(&heap, &nodes[i], hf_rng_below(&rng, 1000));
    int64_t last = -1;
    int seen = 0;
    for (struct hf_heap_node *first; (first = hf__heap_first(&heap)) != NULL; seen++) {
        CHECK(first->at >= last);
        last = first->at;
        hf__heap_remove(&heap, first);
        CHECK(!hf__heap_contains(first));
    }
    CHECK_INT(seen, COUNT - (COUNT + 2) / 3);
    hf__heap_free(&heap);
}

static void fill_a_heap(void)
{
    struct hf_heap heap = {0};
    struct hf_heap_node nodes[100];
    size_t inside = 0;
    for (int i = 0; i < 100; i++) {
        hf__heap_node_init(&nodes[i]);
        inside += hf__heap_set(&heap, &nodes[i], 100 - i);
    }
    CHECK_INT(heap.count, inside);
    hf__heap_free(&heap);
}

TEST(heap_survives_want_of_memory)
{
    CHECK(hf_test_torture(fill_a_heap) > 1);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(buffer_grows_and_terminates),
        RUN(buffer_keeps_its_limit),
        RUN(a_buffer_without_a_limit_grows),
        RUN(buffer_survives_want_of_memory),
        RUN(arena_aligns_and_keeps_what_it_gave),
        RUN(arena_refuses_what_overflows),
        RUN(arena_survives_want_of_memory),
        RUN(list_keeps_order_through_splice_and_removal),
        RUN(heap_gives_the_earliest_first_whatever_was_moved_or_removed),
        RUN(heap_survives_want_of_memory),
    };
    return RUN_TESTS(tests);
}
