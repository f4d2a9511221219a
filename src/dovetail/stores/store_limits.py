"""The bounds of stores, and of what servers keep in them, that nobody needs to turn."""

from __future__ import annotations

from typing import Final

STORE_BATCH: Final = 256
"""Changes that one transaction takes."""
SQLITE_STORE_BYTES: Final = 4 << 30
"""What a store in a file holds unless told otherwise."""
SQLITE_BUSY_SECONDS: Final = 5.0
"""How long another process may hold the lock of the file."""
SQLITE_LOOK: Final = 0.01
"""How often a new file is tried that another process is about to set up."""
SQLITE_SWEEP: Final = 500
SQLITE_SWEEP_SECONDS: Final = 5.0
"""Entries whose time is over that are taken away at once, and how often that is done."""
BUS_MESSAGE: Final = 16 << 20
"""Bytes of one piece of news between processes."""
BUS_BACKLOG: Final = 64 << 20
"""Bytes that may wait for one process before it is cut off."""
BUS_QUEUE: Final = 128
"""Processes that may connect to one before it has taken the first."""
BUS_SETTLED: Final = 100_000_000
"""Nanoseconds after which a folder of sockets that did not change is as it was."""
REDIS_SECONDS: Final = 3.0
"""How long Redis may take to connect, and to answer; all that is tried again takes twice as long at most."""
REDIS_REPEATS: Final = 3
"""How often one command is sent again after a lost connection."""
REDIS_REPEAT_SECONDS: Final = 0.1
"""Before the first of them; each next waits twice as long."""
REDIS_REMEMBERED: Final = 60.0
"""For which Redis remembers what it did, so that a command that is sent again is done once."""
REDIS_NEWS: Final = 10_000
REDIS_NEWS_BYTES: Final = 64 << 20
REDIS_NEWS_LEAST: Final = 16
"""Pieces of news kept for processes that were cut off for a while: so many small ones, about so many bytes of each
size of larger ones, but never fewer than the last."""
REDIS_LISTEN_SECONDS: Final = 2.0
"""How long one look for news waits for some."""

OUTBOX_BYTES: Final = 64 << 20
"""Bytes of news that wait for a store."""
NEWS_SECONDS: Final = 30.0
NEWS_PAUSE: Final = 0.5
"""How long news waits for a store that is away, and between two attempts."""

RECENT_SECONDS: Final = NEWS_SECONDS + 15.0
RECENT_NEWS: Final = 4096
"""For which a process remembers what has changed, longer than a letter may be on its way; and so many things of it."""

# --- what servers keep ----------------------------------------------------------------------------------------

STORE_LOOK: Final = 5.0
"""Seconds between two looks whether the store of a server takes and gives."""
LEASE_SECONDS: Final = 10.0
"""For which a worker holds what it works on, without a sign of life; it gives three in that time."""
ONCE_SECONDS: Final = 86_400.0
"""For which the result of a call with an idempotency key is kept."""
ONCE_KEY: Final = 128
"""Characters of such a key."""
ONCE_OWN: Final = 25_000
ONCE_BYTES: Final = 64 << 20
ONCE_ALL: Final = 50_000
ONCE_ALL_BYTES: Final = 512 << 20
"""How many such results one process keeps, and how many bytes of them: of one principal, and of all."""
ONCE_PART_ENTRIES: Final = 2
ONCE_PART_BYTES: Final = 16
"""The part of a store's entries, and of its bytes, that they take at most: several processes may share the bytes."""
SHARE_OVERHEAD: Final = 512
"""Bytes that an entry takes beside its own."""
SHARE_GROUPS: Final = 4096
"""Owners are counted in so many groups."""
ONCE_LOOK: Final = 1.0
"""Between two looks at such a call, for those who wait without being told."""
ONCE_GRACE: Final = 10.0
"""For which such a call goes on when its connection is lost and nobody has asked for it again."""
STEP_LOOK: Final = 0.05
"""Between two looks at a step that another run of the same call is at."""
TASK_LOOK: Final = LEASE_SECONDS / 3
"""Seconds between two signs of life for tasks, and between two looks at one that runs elsewhere."""
QUEUE_REDELIVERY: Final = 1.5 * LEASE_SECONDS
"""Seconds after which the task of a dead worker is delivered again: its lease has run out by then."""
QUEUE_MEMORY: Final = 60.0
"""For which a queue remembers a task that was delivered."""
WORKER_TASKS: Final = 32
"""Tasks that one ``dovetail worker`` runs at once, unless told otherwise."""
TASK_LOOKS: Final = 3
"""How many signs of life are given between two looks for tasks whose worker is dead."""
SESSION_ATTEMPTS: Final = 16
"""Attempts to write what is kept of a session while other processes write it too."""
EVENT_SECONDS: Final = 600.0
"""For which the events of a legacy session are kept for those who come back for them."""
EVENTS_PAUSE: Final = 0.005
"""Seconds for which events of a general stream wait to be written."""
EVENTS_WAITING: Final = 16 << 20
"""Bytes of events on their way to the store; more are not kept."""
EVENTS_BYTES: Final = 64 << 20
EVENTS_ALL_BYTES: Final = 512 << 20
"""What one process keeps of events in `EVENT_SECONDS`: of one session, and of all."""
EVENTS_UNKEPT: Final = 100_000
"""Events of one stream that may have reached a client, but not the store, when their process is killed."""
LETTERS_WAITING: Final = 100_000
"""Letters on their way to other processes."""
LETTER_SECONDS: Final = 15.0
LETTER_LOOK: Final = 1.0
"""How long a process may take to answer a letter, and when it is first asked whether it still lives."""
PLACE_BYTES: Final = 64 << 10
PLACE_SECONDS: Final = 30 * 86_400.0
"""What is kept takes a place for each of so many bytes, and counts no more when it was not written for so long."""
HANDLES_OWN: Final = 2000
HANDLES_ALL: Final = 200_000
"""Places of handles that one owner has, and all."""
STATE_OWN: Final = 2000
STATE_ALL: Final = 200_000
"""The same of ``ctx.state``, whose owners are principals and sessions."""
TASKS_OWN: Final = 2000
TASKS_NOBODYS: Final = 10_000
TASKS_ALL: Final = 20_000
"""The same of large tasks: one principal's, those of all who are none, and all."""
STATE_ATTEMPTS: Final = 16
"""Attempts to write one key of it while others write the same."""
SESSIONS_KEPT: Final = 10
"""Sessions of one principal that a store keeps for each that one process may have in memory."""
SESSIONS_ALL_KEPT: Final = 100
"""The same of everybody's. Of one address without a principal there may be twice as many as a process has."""
PLACE_DRAWER: Final = 256
PLACE_DRAWERS: Final = 8
"""Drawers that are looked into: where there are more, a few places may be left when somebody is refused."""
PLACE_TRIES: Final = 3
"""Places tried blindly before all that are taken are looked at."""
