/*
 * Leader election: of all that run this, one leads; the others know who.
 * Usage: leader STORE-URL MY-ADDRESS [SECONDS]
 */
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void changed(void *user, enum hf_leadership state, const struct hf_lock_info *info)
{
    const char *me = user;
    switch (state) {
    case HF_LEADER_SELF: printf("%s: I lead\n", me); break;
    case HF_LEADER_LOST: printf("%s: I do not lead any more\n", me); break;
    case HF_LEADER_OTHER:
        printf("%s: the leader is %.*s\n", me, (int)info->data_size,
               info->data ? (const char *)info->data : "");
        break;
    case HF_LEADER_ENDED: printf("%s: I do not run any more\n", me); break;
    case HF_LEADER_NONE: printf("%s: nobody leads\n", me); break;
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct hf_error error;
    struct hf_client *client;
    struct hf_election *election;
    struct hf_client_options options = {.size = sizeof options, .lease_ms = 2000};
    options.store_url = argc > 1 ? argv[1] : "memory:";
    options.owner = argc > 2 ? argv[2] : "localhost:1";
    long seconds = argc > 3 ? strtol(argv[3], NULL, 10) : 1;
    if (hf_client_new(&options, &client, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    struct hf_elect_options campaign = {.size = sizeof campaign, .changed = changed};
    campaign.data = options.owner;
    while (options.owner[campaign.data_size]) campaign.data_size++;
    campaign.user = (void *)options.owner;
    if (hf_elect(client, "cluster-leader", &campaign, &election, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        hf_client_close(client, 0);
        return 1;
    }
    for (long i = 0; i < seconds * 10; i++) {
        struct timespec tick = {.tv_nsec = 100000000};
        nanosleep(&tick, NULL);
        /* What only a leader does goes here, with hf_election_token() to fence it. */
        if (hf_election_is_leader(election)) continue;
    }
    hf_election_resign(election, NULL);
    return hf_client_close(client, 0);
}
