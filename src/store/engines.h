/* Shared by the engines, and how each is opened. Private to the store layer. */
#ifndef HF_STORE_ENGINES_H
#define HF_STORE_ENGINES_H

#include "store/store.h"

/* `arena` is scratch. */
typedef int (*hf_engine_open_fn)(struct hf_arena *arena, const char *url,
                                 const struct hf_store_options *options, struct hf_store **ret,
                                 struct hf_error *reterr);

int hf__embedded_open_file(struct hf_arena *arena, const char *url,
                           const struct hf_store_options *options, struct hf_store **ret,
                           struct hf_error *reterr);
int hf__embedded_open_memory(struct hf_arena *arena, const char *url,
                             const struct hf_store_options *options, struct hf_store **ret,
                             struct hf_error *reterr);
int hf__dynamodb_open(struct hf_arena *arena, const char *url,
                      const struct hf_store_options *options, struct hf_store **ret,
                      struct hf_error *reterr);

/* The same engine, with a holdfast service at the other end. */
int hf__service_open(struct hf_arena *arena, const char *url,
                     const struct hf_store_options *options, struct hf_store **ret,
                     struct hf_error *reterr);

/* Sets the common members. store->table is to be freed by the engine, also after a failure. */
int hf__store_init(struct hf_store *store, const struct hf_store_engine *engine,
                   const struct hf_store_options *options, const char *table,
                   struct hf_error *reterr);

#endif
