/* Calls in lanes: turns, the protocol's first, the order within a lane. */
#include "harness/test.h"
#include "store/lanes.h"

static struct hf_lanes lanes;
static struct hf_call calls[8];

/* Calls 0, 1, … in these lanes. */
static void fill(const unsigned *of, size_t count)
{
    hf__lanes_init(&lanes);
    for (size_t i = 0; i < count; i++) {
        calls[i] = (struct hf_call){.id = i, .lane = of[i]};
        hf__lanes_add(&lanes, &calls[i]);
    }
}

/* The order in which they are taken, as "031…". */
static const char *order(bool own_first)
{
    static char text[16];
    size_t len = 0;
    for (struct hf_call *call; (call = hf__lanes_take(&lanes, own_first)) != NULL;)
        text[len++] = (char)('0' + call->id);
    text[len] = '\0';
    CHECK_INT(lanes.count, 0);
    return text;
}

TEST(lanes_take_turns)
{
    fill((unsigned[]){3, 3, 3, 5, 5, 9}, 6);
    CHECK_STR(order(false), "035142");
}

TEST(a_lane_that_had_its_turn_waits_for_the_others)
{
    fill((unsigned[]){3, 5}, 2);
    CHECK_INT(hf__lanes_take(&lanes, false)->id, 0);
    calls[2] = (struct hf_call){.id = 2, .lane = 3};
    hf__lanes_add(&lanes, &calls[2]);
    CHECK_STR(order(false), "12");
}

TEST(the_protocols_own_go_first_where_that_is_wanted)
{
    fill((unsigned[]){3, 0, 3, 0}, 4);
    CHECK_STR(order(true), "1302");
}

TEST(what_is_put_back_is_before_the_rest_of_its_lane)
{
    struct hf_list taken;
    fill((unsigned[]){3, 3, 3, 0}, 4);
    hf__list_init(&taken);
    for (int i = 0; i < 3; i++) hf__list_append(&taken, &hf__lanes_take(&lanes, true)->node);
    hf__lanes_put_back(&lanes, &taken);
    CHECK(hf__list_empty(&taken));
    CHECK_STR(order(true), "3012");
}

TEST(a_call_is_found_by_its_id)
{
    fill((unsigned[]){3, 70, 0}, 3);
    CHECK(hf__lanes_find(&lanes, 1) == &calls[1]);
    CHECK(!hf__lanes_find(&lanes, 7));
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(lanes_take_turns),
        RUN(a_lane_that_had_its_turn_waits_for_the_others),
        RUN(the_protocols_own_go_first_where_that_is_wanted),
        RUN(what_is_put_back_is_before_the_rest_of_its_lane),
        RUN(a_call_is_found_by_its_id),
    };
    return hf_test_main(tests, COUNT_OF(tests), argc, argv);
}
