"""The list of attacks: what each needs of the service, and how much it may cost others."""
import bodies
import connections
import greed
import malformed
import tables
import tokens

MIB = 1 << 20
# By how much the service may grow during an attack.
MEMORY_MOST = 128 * MIB
CONNECTIONS_MEMORY_MOST = 256 * MIB  # 10,000 connections have 16 KiB each
ANSWERS_MEMORY_MOST = 256 * MIB + MEMORY_MOST  # all answers that are being sent have 256 MiB,
BODIES_MEMORY_MOST = 512 * MIB + MEMORY_MOST   # all bodies that are being received 512 MiB
P50_RATIO_MOST = 2
P99_RATIO_MOST = 3

# How the service is started for an attack, beside what all have.
SETTINGS = {
    "usual": {},
    "rate": {"options": ["--rate", "600", "--rate-per-caller", "400"]},
    "patient": {"timeout": "30s"},
    "unread log": {"stalled_log": True},
    "tables": {"tables": True},
}


class Attack:
    def __init__(self, run, name=None, memory=MEMORY_MOST, p50=None, joins=True, setting="usual",
                 p99=P99_RATIO_MOST):
        self.run, self.name = run, name or run.__name__.replace("_", "-")
        self.memory, self.setting = memory, setting
        self.p50, self.p99 = p50, p99  # how many times the quiet one others' may be
        self.joins = joins  # whether others must get new connections, too


ATTACKS = [
    Attack(malformed.chunked),
    Attack(malformed.pipelined),
    Attack(malformed.oversized),
    Attack(malformed.json_bodies),
    Attack(malformed.invalid_utf8),
    Attack(malformed.header_flood),
    Attack(tokens.repeated_claims),
    Attack(tokens.token_flood),
    Attack(tokens.unknown_keys),
    Attack(connections.churn),
    Attack(connections.walk_outs, p99=6),  # 200 requests at once are 200 requests before the next one
    Attack(connections.slow_senders),
    # 900 MB at once: more than this machine writes and reads in a second, whoever does it.
    Attack(connections.long_looks, memory=ANSWERS_MEMORY_MOST, p99=20),
    Attack(connections.slow_readers, memory=ANSWERS_MEMORY_MOST),
    Attack(connections.idle),
    Attack(connections.half_open),
    Attack(connections.all_connections, memory=CONNECTIONS_MEMORY_MOST, joins=False),
    Attack(bodies.one_byte_short),
    Attack(bodies.unfinished),
    Attack(greed.sessions),
    Attack(greed.waiters),
    Attack(greed.streams),
    Attack(connections.streams_1000, p50=P50_RATIO_MOST),
    Attack(connections.streams_9000, p50=P50_RATIO_MOST, memory=CONNECTIONS_MEMORY_MOST, joins=False),
    Attack(greed.names),
    Attack(tokens.strangers, setting="rate"),
    Attack(tokens.rate_of_one, setting="rate"),
    Attack(bodies.unfinished_everywhere, memory=BODIES_MEMORY_MOST, setting="patient"),
    Attack(connections.greedy_readers, memory=ANSWERS_MEMORY_MOST, setting="patient"),
    Attack(tokens.unread_log, setting="unread log"),
    Attack(tables.dear_scans, setting="tables"),
    # A file has one writer, and what is being written is not interrupted: 2.5 MB take it several ms.
    Attack(tables.long_writes, setting="tables", p99=150),
    Attack(tables.whole_tables, setting="tables", p99=50),
    Attack(tables.dear_requests, setting="tables", p99=80),
]
