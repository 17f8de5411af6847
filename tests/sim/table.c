/* The store: single conditional writes on one table, as DynamoDB does them. */
#include <string.h>

#include "sim.h"

struct sim_cell *sim_cell(struct sim_world *world, struct hf_slice key)
{
    for (int i = 0; i < world->cell_count; i++) {
        if (hf__slice_eq(world->cells[i].key, key)) return &world->cells[i];
    }
    if (world->cell_count == SIM_KEYS) {
        sim_fail(world, "simulator: more than %d keys", SIM_KEYS);
        return &world->cells[0];
    }
    struct sim_cell *cell = &world->cells[world->cell_count++];
    *cell = (struct sim_cell){.key = hf__arena_copy(&world->arena, key),
                              .lock = sim_lock_of(world, key)};
    return cell;
}

void sim_cell_set(struct sim_world *world, struct sim_cell *cell, bool exists, struct hf_item item)
{
    bool had = cell->exists;
    struct hf_item old = cell->item;
    memmove(cell->past + 1, cell->past, sizeof cell->past - sizeof cell->past[0]);
    memmove(cell->past_exists + 1, cell->past_exists,
            sizeof cell->past_exists - sizeof cell->past_exists[0]);
    cell->past[0] = old;
    cell->past_exists[0] = had;
    cell->exists = exists;
    cell->changed_t = world->t;
    cell->item = exists ? hf__item_copy(&world->arena, item) : (struct hf_item){0};
    sim_check_write(world, cell, had, old);
}

static void read_item(struct sim_world *world, const struct hf_op *op, struct sim_cell *cell,
                      struct hf_answer *answer)
{
    answer->has_item = cell->exists;
    answer->item = cell->item;
    if (op->consistent) return;
    int back = (int)sim_below(world, SIM_PAST + 1);
    if (back == 0) return;
    answer->has_item = cell->past_exists[back - 1];
    answer->item = cell->past[back - 1];
}

struct sim_cell *sim_cell_of(struct sim_world *world, const struct hf_op *op)
{
    struct hf_item item = op->kind == HF_PUT_ITEM ? op->item : op->key;
    return sim_cell(world, hf__item_get(item, world->layout.key_name)->bytes);
}

void sim_table_apply(struct sim_world *world, const struct hf_op *op, struct hf_answer *answer)
{
    *answer = (struct hf_answer){0};
    bool put = op->kind == HF_PUT_ITEM;
    struct sim_cell *cell = sim_cell_of(world, op);
    if (op->kind == HF_GET_ITEM) {
        read_item(world, op, cell, answer);
        return;
    }
    if (op->condition && !hf__condition_holds(op->condition, cell->item)) {
        answer->code = hf__error_set(&answer->error, HF_ERR_CONDITION, "refused");
        answer->has_item = op->old_on_failure && cell->exists;
        answer->item = cell->item;
        return;
    }
    if (put) {
        sim_cell_set(world, cell, true, op->item);
        return;
    }
    if (op->kind == HF_DELETE_ITEM) {
        sim_cell_set(world, cell, false, (struct hf_item){0});
        return;
    }
    struct hf_item item = cell->exists ? cell->item : op->key;
    struct hf_item updated;
    answer->code = hf__update_apply(&world->arena, op->update, item, &updated, &answer->error);
    if (answer->code != 0) {
        sim_fail(world, "the store refuses an update: %s", answer->error.message);
        return;
    }
    sim_cell_set(world, cell, true, updated);
    answer->has_item = op->returns == HF_RETURN_ALL_NEW;
    answer->item = cell->item;
}

/* The table's own TTL: whatever has passed may go at any time. */
void sim_table_expire(struct sim_world *world)
{
    for (int i = 0; i < world->cell_count; i++) {
        struct sim_cell *cell = &world->cells[i];
        const char *name = world->params.format->ttl_name;
        const struct hf_value *ttl =
            cell->exists && name ? hf__item_get_str(cell->item, name) : NULL;
        int64_t at_s;
        if (!ttl || ttl->type != HF_N || !hf__number_to_int64(ttl->number, &at_s)) continue;
        /* It comes later than that; where the ttl is the expiry itself, that matters. */
        if (at_s * SIM_SECOND + world->skew_ms * 2000 > world->t + world->host_offset_us[0])
            continue;
        sim_trace(world, "TTL deletes %.*s", HF_FMT(cell->key));
        sim_cell_set(world, cell, false, (struct hf_item){0});
    }
}
