/*
 * Deliberate bugs, for the simulator to catch: a checker that cannot fail
 * proves nothing. Only the program built by `make sim-mutants` has them; in
 * every other build HF_BUG is the constant 0 and the compiler drops the branch.
 */
#ifndef HF_FORMAT_MUTANT_H
#define HF_FORMAT_MUTANT_H

/* X(constant, name on the command line, what it does wrong) */
#define HF_MUTANTS_LIST(X)                                                                         \
    X(LEASE_FROM_ANSWER, "lease-from-answer", "a lease is counted from the answer")                \
    X(NO_LATE_CHECK, "no-late-check", "a grant that comes too late is kept")                       \
    X(TAKE_WITHOUT_VERSION, "take-without-version", "a takeover does not check the version")       \
    X(END_WITHOUT_VERSION, "end-without-version", "a session is ended whatever its version")       \
    X(RENEW_AFTER_RELEASE, "renew-after-release", "renewals go on after the release")              \
    X(NO_MARGIN, "no-margin", "the holder subtracts no margin")                                    \
    X(COMPARE_HIGH, "compare-high", "expires is compared with the high end of store time")         \
    X(WRITE_LOW, "write-low", "expires is written from the low end of store time")                 \
    X(TAKE_LIVE_SESSION, "take-live-session", "a takeover does not end the session first")         \
    X(SHORT_OBSERVATION, "short-observation", "an observation is a tenth too short")               \
    X(RELEASE_ANY, "release-any", "a release does not check the grant")                            \
    X(FROM_RESEND, "from-resend", "validity is counted from a resend")                             \
    X(VERSION_ALONE, "version-alone", "an observation is keyed by the version alone")              \
    X(STALE_READS, "stale-reads", "sessions are read without consistency")                         \
    X(OR_MINE, "or-mine", "an acquire also succeeds on a grant of the same owner")                 \
    X(ONE_ID, "one-id", "an attempt uses one grant id for all its tries")                          \
    X(SHARED_KEEPS_TTL, "shared-keeps-ttl", "a shared acquire leaves the ttl standing")            \
    X(READER_KEEPS_GUID, "reader-keeps-guid", "a fail-open reader renews without a new guid")      \
    X(READER_BACKDATES, "reader-backdates", "a late fail-open reader sets the clock back")         \
    X(JOIN_SHORTENS, "join-shortens", "a fail-open reader comes in with a shorter lease")          \
    X(ANY_WRITER, "any-writer", "a renewal that was overtaken counts as its own lost copy")        \
    X(MOVED_IS_LOST, "moved-is-lost", "a renewal that was overtaken counts as a loss")             \
    X(LEASE_SHRINKS, "lease-shrinks", "a renewal by grant may shorten the lease")                  \
    X(EXPIRY_SHRINKS, "expiry-shrinks", "a renewal by grant may set the expiry back")              \
    X(GIVE_BACK_ANY, "give-back-any", "a lease that ended here is given back at any version")      \
    X(FROM_MEMORY, "from-memory", "a repeated call is answered without asking the store")          \
    X(RENEW_RELEASED, "renew-released", "a renewal revives a lock that was released elsewhere")    \
    X(FORCE_ROBS, "force-robs", "a forced release also takes the lock from the next holder")       \
    X(READER_GROWS, "reader-grows", "a fail-open reader's lease grows beyond the record's")        \
    X(SESSION_IS_OURS, "session-is-ours", "a session is taken for one that nobody else serves")    \
    X(ASKED_FREES, "asked-frees",                                                                  \
      "what a session is asked for is freed by a service that does not know it")                   \
    X(NO_VERIFY, "no-verify", "a lock is granted to a session that may have ended elsewhere")      \
    X(WAKES_DEAD, "wakes-dead", "a session that has expired is renewed by another service")        \
    X(NO_RECHECK, "no-recheck", "a renewed session is taken for a lock that is still held")        \
    X(OLD_RENEWAL, "old-renewal", "a call is answered by a renewal that was sent before it")       \
    X(NO_GRAVE, "no-grave", "a late copy of its creation brings back a session that was ended")

enum hf_mutant {
    HF_BUG_NONE,
#define HF_MUTANT_ENUM(constant, name, wrong) HF_BUG_##constant,
    HF_MUTANTS_LIST(HF_MUTANT_ENUM)
#undef HF_MUTANT_ENUM
        HF_MUTANT_COUNT
};

#ifdef HF_MUTANTS
extern enum hf_mutant hf__mutant;
#define HF_BUG(constant) (hf__mutant == HF_BUG_##constant)
#else
#define HF_BUG(constant) 0
#endif

#endif
