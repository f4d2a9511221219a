"""Limits and intervals of the stores, and of what servers keep in them. Users do not need to change them.

Names that end in ``_TIMEOUT``, ``_INTERVAL``, ``_DELAY``, ``_PERIOD`` and ``_LIFETIME`` are seconds.
"""

from __future__ import annotations

from typing import Final

# --- stores ---------------------------------------------------------------------------------------------------

SQLITE_MAX_BATCH: Final = 256
"""Work items in one transaction."""
SQLITE_STORE_BYTES: Final = 4 << 30
"""Default size limit of a SQLite store."""
SQLITE_BUSY_TIMEOUT: Final = 5.0
"""How long a write waits for the lock of another process."""
SQLITE_RETRY_DELAY: Final = 0.01
"""Delay between attempts to set up a new file that another process is setting up too."""
SQLITE_SWEEP_ENTRIES: Final = 500
"""Expired entries that one sweep deletes."""
SQLITE_SWEEP_INTERVAL: Final = 5.0
"""Minimum time between two sweeps."""
MAX_PUBSUB_MESSAGE_BYTES: Final = 16 << 20
"""Size of one published message."""
MAX_PUBSUB_BACKLOG_BYTES: Final = 64 << 20
"""Unsent bytes for one process before it is disconnected."""
PUBSUB_LISTEN_BACKLOG: Final = 128
"""Processes that may connect to a socket before the first is accepted."""
PUBSUB_FOLDER_SETTLE_NS: Final = 100_000_000
"""Age in nanoseconds after which the modification time of the socket folder is reliable."""
REDIS_TIMEOUT: Final = 3.0
"""How long Redis may take to connect and to respond. An operation with its retries takes at most twice that."""
REDIS_MAX_RETRIES: Final = 3
"""Retries of one command after a lost connection."""
REDIS_RETRY_DELAY: Final = 0.1
"""Delay before the first retry. It doubles with each further one."""
REDIS_DEDUPLICATION_PERIOD: Final = 60.0
"""How long Redis stores the result of a command, so that a retried command is applied once."""
REDIS_MAX_STREAM_MESSAGES: Final = 10_000
"""Published messages that Redis retains for processes that lost their connection."""
REDIS_MAX_STREAM_BYTES: Final = 64 << 20
"""Approximate size of the retained messages of one size class."""
REDIS_MIN_STREAM_MESSAGES: Final = 16
"""Retained messages, however large they are."""
REDIS_BLOCK_TIMEOUT: Final = 2.0
"""How long one blocking read of the stream waits for messages."""

MAX_SEND_QUEUE_BYTES: Final = 64 << 20
"""Messages in a send queue; the oldest are dropped beyond that."""
SEND_QUEUE_TIMEOUT: Final = 30.0
"""How long a message waits for a store that is unavailable."""
SEND_QUEUE_RETRY_DELAY: Final = 0.5
"""Delay between attempts to publish a message."""

REPLAY_BUFFER_PERIOD: Final = SEND_QUEUE_TIMEOUT + 15.0
"""How long a process remembers resource changes. It exceeds the longest delivery time of a message."""
MAX_REPLAY_BUFFER_CHANGES: Final = 4096
"""Resource changes that a process remembers."""

# --- state of servers -----------------------------------------------------------------------------------------

STORE_PROBE_INTERVAL: Final = 5.0
"""Interval of the readiness probe of a server's store."""
LEASE_LIFETIME: Final = 10.0
"""How long a worker holds a lease without renewing it. It renews three times in that period."""
IDEMPOTENT_RESULT_LIFETIME: Final = 86_400.0
"""How long the result of a call with an idempotency key is stored."""
MAX_IDEMPOTENCY_KEY_LENGTH: Final = 128
"""Characters of an idempotency key."""
MAX_IDEMPOTENT_RESULTS_PER_PRINCIPAL: Final = 25_000
"""Stored results that one process keeps for one principal."""
MAX_IDEMPOTENT_BYTES_PER_PRINCIPAL: Final = 64 << 20
"""Size of the stored results that one process keeps for one principal."""
MAX_IDEMPOTENT_RESULTS: Final = 50_000
"""Stored results that one process keeps."""
MAX_IDEMPOTENT_BYTES: Final = 512 << 20
"""Size of the stored results that one process keeps."""
IDEMPOTENT_ENTRIES_DIVISOR: Final = 2
"""Stored results use at most this fraction (1/n) of a store's entries."""
IDEMPOTENT_BYTES_DIVISOR: Final = 16
"""Stored results use at most this fraction (1/n) of a store's bytes; several processes may share the store."""
ENTRY_OVERHEAD_BYTES: Final = 512
"""Estimated overhead of one stored entry."""
OWNER_GROUPS: Final = 4096
"""Number of groups into which owners are hashed for accounting."""
IDEMPOTENCY_POLL_INTERVAL: Final = 1.0
"""Interval at which a duplicate call polls the first one, in case its notification is lost."""
DISCONNECTED_CALL_GRACE_PERIOD: Final = 10.0
"""How long an idempotent call keeps running after its connection is lost, if no client repeats it."""
STEP_POLL_INTERVAL: Final = 0.05
"""Interval at which a call polls a step that another run of the same call executes."""
TASK_HEARTBEAT_INTERVAL: Final = LEASE_LIFETIME / 3
"""Interval of the heartbeats of running tasks, and of polling a task that runs in another worker."""
TASK_REDELIVERY_DELAY: Final = 1.5 * LEASE_LIFETIME
"""Delay before the task of a dead worker is delivered again. Its lease has expired by then."""
TASK_QUEUE_LIFETIME: Final = 60.0
"""How long a queue remembers a delivered task."""
MAX_WORKER_TASKS: Final = 32
"""Default number of tasks that one ``dovetail worker`` runs concurrently."""
HEARTBEATS_PER_TASK_SCAN: Final = 3
"""Heartbeats between two scans for tasks of dead workers."""
SESSION_WRITE_ATTEMPTS: Final = 16
"""Attempts to write a session that other processes write at the same time."""
STORED_EVENT_LIFETIME: Final = 600.0
"""How long the events of a legacy session are stored for replay."""
EVENT_WRITE_DELAY: Final = 0.005
"""How long events of a general stream are collected before they are written."""
MAX_UNWRITTEN_EVENT_BYTES: Final = 16 << 20
"""Events that wait to be written; further events are not stored."""
MAX_STORED_EVENT_BYTES_PER_SESSION: Final = 64 << 20
"""Events of one session that one process stores within `STORED_EVENT_LIFETIME`."""
MAX_STORED_EVENT_BYTES: Final = 512 << 20
"""Events of all sessions that one process stores within `STORED_EVENT_LIFETIME`."""
MAX_UNSTORED_EVENTS: Final = 100_000
"""Events of one stream that a client may have received, but that were not stored when the process was killed."""
MAX_QUEUED_MESSAGES: Final = 100_000
"""Messages that wait to be sent to other workers."""
WORKER_RESPONSE_TIMEOUT: Final = 15.0
"""How long another worker may take to respond to a message."""
WORKER_PROBE_DELAY: Final = 1.0
"""Wait time after which a process checks whether the other worker is still alive."""
BYTES_PER_SLOT: Final = 64 << 10
"""Bytes of a stored entry that one quota slot covers."""
SLOT_LIFETIME: Final = 30 * 86_400.0
"""A slot expires if its entry is not written for this long."""
MAX_HANDLE_SLOTS_PER_OWNER: Final = 2000
"""Quota slots for the handles of one owner."""
MAX_HANDLE_SLOTS: Final = 200_000
"""Quota slots for all handles."""
MAX_STATE_SLOTS_PER_OWNER: Final = 2000
"""Quota slots for the ``ctx.state`` of one principal or session."""
MAX_STATE_SLOTS: Final = 200_000
"""Quota slots for all ``ctx.state``."""
MAX_TASK_SLOTS_PER_PRINCIPAL: Final = 2000
"""Quota slots for the large tasks of one principal."""
MAX_ANONYMOUS_TASK_SLOTS: Final = 10_000
"""Quota slots for the large tasks of all clients without a principal."""
MAX_TASK_SLOTS: Final = 20_000
"""Quota slots for all large tasks."""
STATE_WRITE_ATTEMPTS: Final = 16
"""Attempts to write a ``ctx.state`` key that others write at the same time."""
STORED_SESSIONS_FACTOR_PER_PRINCIPAL: Final = 10
"""A store keeps this many times the sessions of one principal that one process keeps in memory."""
STORED_SESSIONS_FACTOR: Final = 100
"""A store keeps this many times the sessions that one process keeps in memory.

Of one address without a principal it keeps twice as many as one process.
"""
SLOTS_PER_BUCKET: Final = 256
"""Slots in one bucket of a quota."""
MAX_BUCKET_SCANS: Final = 8
"""Buckets that are searched for a free slot. With more buckets, a few free slots may be missed."""
RANDOM_SLOT_TRIES: Final = 3
"""Random slots that are tried before buckets are searched."""
