/*
 * Table formats: how a lock is written down in a table.
 *
 * The protocol (layer lock) knows claims, which say what we hold or want, and records, which say
 * what an item tells about its holders. A format turns claims into operations and items into
 * records. It decides nothing.
 *
 * Rules
 * F1  A builder fills `op` completely. Everything it points to is in the arena,
 *     in the claim, or in the record; all of them outlive the operation. If
 *     memory ran out the arena is failed, and no store takes the operation.
 * F2  Every write is conditional, and returns the item it saw when it is
 *     refused. Writes that grant or renew also return the new item.
 * F3  Parsing cannot fail. An item that is invalid is a damaged record:
 *     held by somebody who cannot be judged, so nobody frees it.
 * F4  Everything that a record points to lives as long as the item and the arena.
 */
#ifndef HF_FORMAT_FORMAT_H
#define HF_FORMAT_FORMAT_H

#include "item/op.h"

enum {
    HF_LOCK_NAME_MAX = 1024,
    HF_OWNER_MAX = 512,
    HF_INSTANCE_MAX = 128,
    HF_REASON_MAX = 512,
    HF_GRANT_TEXT = 32,         /* the length of an id in hex */
    HF_READERS_LIMIT = 1000000, /* shared without a limit */
};
#define HF_LEASE_MAX_MS ((int64_t)1000 * 86400 * 366)

/* 128 random bits that are never used again: a grant, a session, a writer's intent, a write. */
struct hf_id {
    unsigned char bytes[16];
};

/* The place and the keys of the records, and the choices that a format leaves open. */
struct hf_layout {
    struct hf_slice table;
    struct hf_slice key_name;
    int64_t keep_s;            /* how long released records stay */
    enum hf_type key_type;     /* S, N or B; all but S need key_name's format to say so */
    struct hf_slice sort_name; /* empty: no sort key */
    struct hf_slice sort_value;
    struct hf_slice prefix; /* of every key */
    bool fencing;           /* dlock */
    bool keep_on_release;   /* awslabs, dynamolock: the record stays, marked as released */
    bool trust_clock;       /* fail-open: records say when they were acquired */
};

/* What a client claims when it takes, renews or releases a lock. */
struct hf_claim {
    struct hf_slice name;
    struct hf_slice owner;
    struct hf_slice instance; /* of the owner's programs, for people; empty: not said */
    struct hf_id grant;
    const struct hf_id *session; /* NULL: the lock keeps its own lease */
    int64_t limit;               /* 0: exclusive; otherwise the maximum number of holders */
    int64_t version;             /* own lease: 1 when taken, one more with each renewal */
    struct hf_id by;             /* the write that makes this version; its resends keep it */
    int64_t lease_ms;
    int64_t expires_unix_ms; /* of this version; 0: the store's time is not known */
    struct hf_id before_by;  /* renewal: the write that made the version before … */
    int64_t before_unix_ms;  /* … and its expiry */
    bool pending;            /* version + 1 may have landed … */
    struct hf_id pending_by; /* … by this write */
    int64_t pending_unix_ms; /* … with this expiry */
    int64_t now_unix_ms;     /* the low end of the store's time; 0: not known */
    int64_t skew_ms;
    int64_t token; /* of the grant, for formats that write it again */
    int64_t since_unix_ms;
    int64_t token_start;
    int64_t ttl_unix_s; /* release: when the record may be deleted; 0: never */
    bool last;          /* release of a shared lock: as the last one inside */
    bool is_wanted;     /* release: its holder wants it, and it is remembered */

    bool has_data;
    bool keep_data; /* the data is written only where none is stored */
    struct hf_slice data;
    struct hf_item extra; /* additional attributes */
    bool only_if_exists;
    const struct hf_id *intent; /* ours, which stands in the record: cleared when granted */
};

/* How a holder shows that it is alive: by its own lease, or by its session. */
struct hf_liveness {
    struct hf_slice id;      /* of the grant or the session */
    struct hf_slice version; /* changes with each sign of life; never empty */
    int64_t lease_ms;
    int64_t expires_unix_ms; /* 0: not known */
};

/* A party in the way of others: a holder, or a waiting writer. */
struct hf_holder {
    struct hf_slice grant;
    struct hf_slice session; /* empty: own lease */
    struct hf_slice member;  /* shared and intent: how it stands in the item */
};

struct hf_record {
    bool exists;
    bool damaged;       /* F3; never together with a holder */
    const char *damage; /* the attribute that is invalid */
    struct hf_item item;
    struct hf_slice owner;    /* for people; never with a grant in it */
    struct hf_slice instance; /* likewise; empty: not known */
    /*
     * Stays the same while one grant holds the lock, and is another's for every other; empty: the
     * record has nothing like it.
     */
    struct hf_slice identity;
    int64_t token; /* 0: none */
    bool exclusive;
    struct hf_holder holder;     /* exclusive */
    struct hf_liveness liveness; /* exclusive with an own lease */
    const struct hf_holder *members;
    size_t member_count;
    int64_t limit;   /* of the members */
    int64_t readers; /* exclusive, to all but readers: the number of readers, each with its own
                        lease; more may join */
    bool retired;    /* shared: an empty lock is already marked as such */
    bool has_intent;
    bool strange_intent; /* there is one, and it is invalid: no reader joins */
    struct hf_holder intent;
    int64_t since_unix_ms; /* 0: not known */
    bool has_data;
    struct hf_slice data;
    int64_t ttl_unix_s;     /* 0: none */
    struct hf_slice forced; /* the last grant that was taken away by force, by whom and why */
    struct hf_slice forced_by;
    struct hf_slice forced_reason;
    struct hf_slice released; /* the last grant that was released; empty: not known */
};

static inline void hf__record_damage(struct hf_record *record, const char *attribute)
{
    record->damaged = true;
    record->damage = attribute;
}

static inline bool hf__record_is_held(const struct hf_record *record)
{
    return record->damaged || record->exclusive || record->member_count > 0;
}

struct hf_session_record {
    bool exists;
    bool damaged;
    struct hf_item item;
    struct hf_slice owner;
    struct hf_slice instance;
    int64_t version_number;
    struct hf_id by; /* the write that made this version */
    struct hf_liveness liveness;
    struct hf_values asked;   /* hf__errand_parse reads them */
    struct hf_values revoked; /* hf__revocation_parse */
};

/* What a client claims about its session. */
struct hf_session_claim {
    struct hf_id id;
    struct hf_slice owner;
    struct hf_slice instance; /* written when it is created */
    int64_t version;
    struct hf_id by;        /* the write that makes this version */
    struct hf_id before_by; /* renewal: … that made the version before */
    int64_t lease_ms;
    int64_t expires_unix_ms; /* 0: the store's time is not known */
    int64_t ttl_unix_s;      /* 0: none */
};

enum hf_format_ability {
    HF_CAN_TOKEN = 1 << 0,
    HF_CAN_SESSION = 1 << 1,
    HF_CAN_SHARE = 1 << 2,
    HF_CAN_DATA = 1 << 3,
    HF_CAN_EXPIRE = 1 << 4,  /* records say when they expire, by a clock */
    HF_CAN_OBSERVE = 1 << 5, /* a record that does not change for its lease is dead */
    HF_CAN_RENEW = 1 << 6,   /* a lock has a lease at all */
    HF_CAN_FORCE = 1 << 7,
    HF_CAN_SORT = 1 << 8,           /* the table may have a sort key */
    HF_CAN_KEY_TYPES = 1 << 9,      /* keys may be numbers or bytes */
    HF_WANTS_CLOCK = 1 << 10,       /* the store's time is good for tokens */
    HF_NEEDS_CLOCK = 1 << 11,       /* nothing can be written without it */
    HF_CAN_HOLD_ON = 1 << 12,       /* its users may keep locks while the store is out of service */
    HF_NAMES_WRITES = 1 << 13,      /* each write makes a version that is no other write's */
    HF_HEARTBEAT_RENAMES = 1 << 14, /* a renewal by other clients changes a record's identity */
};

/*
 * The operations on a format's sessions, for those that have them. Asking names a
 * grant as hf__errand_print prints it, revoking as hf__revocation_print does.
 */
struct hf_session_format {
    void (*read)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                 struct hf_op *ret);
    void (*parse)(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                  struct hf_item item, struct hf_session_record *ret);
    void (*create)(const struct hf_layout *layout, struct hf_arena *arena,
                   const struct hf_session_claim *claim, struct hf_op *ret);
    /* From version − 1 to version. */
    void (*renew)(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_session_claim *claim, struct hf_op *ret);
    /* Ends a session as it was seen; ours, whatever its version, with NULL. */
    void (*end)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                const struct hf_session_record *seen, struct hf_op *ret);
    /*
     * Ends it at the claim's version, and leaves a mark until the claim's ttl: a creation that lands
     * later is refused.
     */
    void (*bury)(const struct hf_layout *layout, struct hf_arena *arena,
                 const struct hf_session_claim *claim, struct hf_op *ret);
    void (*ask)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                struct hf_slice errand, struct hf_op *ret);
    /* Deletes a session, as it was seen, whose ttl has passed; false: the item is none. */
    bool (*sweep)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_item item,
                  int64_t now_unix_s, struct hf_op *ret);
    void (*revoke)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                   struct hf_slice errand, struct hf_op *ret);
    void (*clear)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice session,
                  struct hf_values asked, struct hf_values revoked, struct hf_op *ret);
};

/* Whether a session's record only says that it was ended (bury). */
bool hf__session_is_buried(struct hf_item item);

/*
 * The operations on shared locks, for formats that have them. Without sessions readers keep their
 * own leases, and only `retire` is needed.
 */
struct hf_share_format {
    /* Whether the claim is in; answers with its token. */
    void (*resolve)(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, struct hf_op *ret);
    /* Removes a holder or waiter whose session has ended. */
    void (*reap)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                 struct hf_slice member, struct hf_op *ret);
    /* Sets the ttl of a lock that turns out to be empty. */
    void (*retire)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                   int64_t ttl_unix_s, struct hf_op *ret);
    void (*declare)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                    struct hf_slice member, struct hf_op *ret);
    void (*withdraw)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                     struct hf_slice member, struct hf_op *ret);
};

/* A lock that is taken away by force. */
struct hf_forcing {
    struct hf_slice name;
    struct hf_slice grant; /* the holder's */
    struct hf_slice by;
    struct hf_slice reason;
    bool note_only;     /* only record that this is about to be done */
    int64_t ttl_unix_s; /* of the record when it is free */
};

struct hf_format {
    const char *name;
    const char *default_key;
    const char *default_prefix; /* NULL: none */
    const char *default_sort;   /* the sort key's name; NULL: none */
    const char *default_sort_value;
    const char *ttl_name;         /* the attribute for the table's TTL; NULL: none */
    int64_t skew_ms;              /* how far clocks may differ; 0: the client's default */
    const char *const *own_names; /* its attributes, which others may not have; ends in NULL */
    unsigned can;                 /* enum hf_format_ability */

    void (*read)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                 struct hf_op *ret);
    void (*parse)(const struct hf_layout *layout, struct hf_arena *arena, bool has_item,
                  struct hf_item item, struct hf_record *ret);
    /* Takes a lock that nobody holds. `seen` is what was read of it last; NULL: nothing yet. */
    void (*acquire)(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret);
    /* Whether there is no point in trying before reading. NULL: never. */
    bool (*reads_first)(const struct hf_layout *layout);
    /* The token that the next grant writes, where the store does not count. NULL: it does. */
    int64_t (*next_token)(const struct hf_layout *layout, const struct hf_record *seen);
    /* Takes an exclusive lock from a dead holder whose record is still as it was seen. */
    void (*take)(const struct hf_layout *layout, struct hf_arena *arena,
                 const struct hf_claim *claim, const struct hf_record *seen, struct hf_op *ret);
    /* Own lease, from version − 1 to version. */
    void (*renew)(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_claim *claim, struct hf_op *ret);
    void (*release)(const struct hf_layout *layout, struct hf_arena *arena,
                    const struct hf_claim *claim, struct hf_op *ret);
    void (*set_data)(const struct hf_layout *layout, struct hf_arena *arena,
                     const struct hf_claim *claim, struct hf_op *ret);
    /* Whether the claim's grant holds the lock, at whatever version. */
    bool (*holds)(const struct hf_record *record, const struct hf_claim *claim);
    /* … at the version that this claim's write makes: that write has landed. */
    bool (*at_version)(const struct hf_record *record, const struct hf_claim *claim);
    /*
     * Fills the claim with what the record says about its grant: owner, token, since, version, the
     * write that made it, lease (0: the record does not tell) and expiry, whichever program wrote
     * them. From then on the claim can renew or release. False: the grant does not hold the lock.
     */
    bool (*adopt)(const struct hf_record *record, struct hf_claim *claim);
    /* Takes the lock away from its exclusive holder. */
    void (*force)(const struct hf_layout *layout, struct hf_arena *arena,
                  const struct hf_record *seen, const struct hf_forcing *how, struct hf_op *ret);
    /* Deletes a released record that is still as it was seen. NULL: records do not stay. */
    void (*sweep)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_slice name,
                  const struct hf_record *seen, struct hf_op *ret);
    /* Whether an item is a lock, and of what name; without a sort value, under any sort key. */
    bool (*name_of)(const struct hf_layout *layout, struct hf_arena *arena, struct hf_item item,
                    struct hf_slice *ret);
    /* Why a lock cannot have this name; NULL: it can. */
    const char *(*refuses_name)(struct hf_slice name);

    const struct hf_session_format *sessions; /* NULL: none */
    const struct hf_share_format *shares;     /* NULL: none */
};

extern const struct hf_format hf__format_holdfast;
extern const struct hf_format hf__format_awslabs;
extern const struct hf_format hf__format_dynamolock;
extern const struct hf_format hf__format_dlock;
extern const struct hf_format hf__format_lockservice;
extern const struct hf_format hf__format_single_table;
extern const struct hf_format hf__format_fail_open;
extern const struct hf_format hf__format_fail_closed;

enum { HF_FORMATS = 8 };
/* By number, for listing them. */
const struct hf_format *hf__format_at(size_t index);

/* Why an additional attribute cannot have this name; NULL: it can. */
const char *hf__format_refuses_extra(const struct hf_format *format, const struct hf_layout *layout,
                                     struct hf_slice name);

/* By name; NULL if there is none. */
const struct hf_format *hf__format_find(struct hf_slice name);

struct hf_slice hf__id_text(struct hf_arena *arena, const struct hf_id *id);
/* By its text, or by its mask. */
bool hf__id_is(const struct hf_id *id, struct hf_slice text);
/*
 * The mask of an id, for places where the id is a secret (remote.h): "~" and 31 digits. A program
 * that knows the id recognizes its mask; nobody can derive the id from it.
 */
void hf__id_mask(const struct hf_id *id, char ret[HF_GRANT_TEXT + 1]);
/* The id that follows from a secret; the secret does not follow from it. */
void hf__id_of_secret(const struct hf_id *secret, struct hf_id *ret);
/* The identity of an owner, for the following. */
void hf__id_of_owner(struct hf_slice owner, struct hf_id *ret);
/* Derives half of an id from the other half and an owner, so that no other owner can use it. */
void hf__id_bind(struct hf_id *id, const struct hf_id *owner);
bool hf__id_is_bound(const struct hf_id *id, const struct hf_id *owner);
bool hf__id_eq(const struct hf_id *a, const struct hf_id *b);
bool hf__id_parse(struct hf_slice text, struct hf_id *ret);

/* How a lock is held, as it is written down. */
enum hf_hold {
    HF_HOLD_EXCLUSIVE = 'x',
    HF_HOLD_SHARED = 's',
    HF_HOLD_INTENT = 'i', /* not yet: it waits for readers to leave */
};

/* An entry of `asked`: a grant that the session should give back. "x/<grant>/<lock name>". */
struct hf_errand_text {
    enum hf_hold kind;
    struct hf_slice grant;
    struct hf_slice name;
};
struct hf_slice hf__errand_print(struct hf_arena *arena, enum hf_hold kind, struct hf_slice grant,
                                 struct hf_slice name);
bool hf__errand_parse(struct hf_slice text, struct hf_errand_text *ret);

/* The same with the operator and the reason, for `revoked`. */
struct hf_slice hf__revocation_print(struct hf_arena *arena, enum hf_hold kind,
                                     struct hf_slice grant, struct hf_slice name,
                                     struct hf_slice by, struct hf_slice reason);
bool hf__revocation_parse(struct hf_slice text, struct hf_errand_text *ret, struct hf_slice *ret_by,
                          struct hf_slice *ret_reason);

#endif
