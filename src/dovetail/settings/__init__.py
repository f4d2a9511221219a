"""Every number a user may turn, as frozen structs with safe defaults, and the bounds nobody turns, as constants.

Sizes are bytes, times are seconds. A buffer, table or wait anywhere in the package takes its bound from here.
"""

from __future__ import annotations

from typing import Final

from .options import HttpOptions as HttpOptions
from .options import Limits as Limits
from .options import Reconnect as Reconnect
from .options import TaskOptions as TaskOptions
from .options import Timeouts as Timeouts
from .options import check_kinds as check_kinds

# --- messages ---------------------------------------------------------------------------------------------------

NAME_ECHO: Final = 128
URI_ECHO: Final = 1024
"""Characters of a name, and of a URI, that a peer sent and that come back in an error."""
LONGEST_ID: Final = 1024
LONGEST_EVENT_ID: Final = 1024
"""Characters of an id or a progress token, and of an event id: they are kept in tables and come back."""
SHALLOW_BYTES: Final = 4096
SHALLOW_DEPTH: Final = 8
"""How far a message that is nested too deeply is searched for its id, in bytes and in levels."""
REWRITTEN_BYTES: Final = 4 << 10
"""Bytes up to which a message is written again to see whether a key came twice; parts of longer ones are counted."""
REREAD_BYTES: Final = 256 << 10
REREAD_VALUES: Final = 16 << 10
"""Bytes from which on a broken message is not worth reading a second time in full, unless it has few values in it."""
DEEPEST_RESOURCE: Final = 64
"""Levels above a resource whose subscribers are looked for."""
CODECS_KEPT: Final = 64
DECODERS_KEPT: Final = 256
BATCH_DECODERS_KEPT: Final = 8
SEAL_KEYS_KEPT: Final = 64
"""What is worth making once."""
OWN_TOKENS_KEPT: Final = 1024
OWN_TOKEN_LENGTH: Final = 1024
"""Sealed tokens, and their characters, that the process which made them knows again without opening them."""
META_KEPT: Final = 256
META_KEPT_BYTES: Final = 1 << 10
META_KEPT_DEPTH: Final = 8
"""How many ``_meta`` of all clients together are judged only once, and how long and how deep each may be."""
LONGEST_BAGGAGE: Final = 8192
"""Characters of one member of a trace context: W3C Baggage has everybody pass on so many. Longer ones are left out."""
SHORTEST_KEY: Final = 16
"""Bytes that a secret to seal with has at least."""

# --- client -------------------------------------------------------------------------------------------------

PROBE_SECONDS: Final = 3.0
"""How long a server may be silent about `server/discover` before it is taken for a legacy one."""
LONG_PROBE: Final = 0.1
SHORT_PROBE: Final = 1 / 3
"""The parts of the connect limit that this is at least, and at most: there must be time for `initialize`, and again
for a second process, should the first have gone deaf."""
NEGOTIATION_STEPS: Final = 12
"""No ladder has more rungs; a decision that loops ends here."""
VERSIONS_READ: Final = 64
"""Versions that are read of what a server says it supports: those we might know are few."""
KNOWN_SERVERS_KEPT: Final = 1024
TENTATIVE_SECONDS: Final = 300.0
"""Until a server that was silent about the probe is probed again."""
LABEL_LENGTH: Final = 120
"""Characters of a command that a message shows."""
LAST_WORDS: Final = 1000
"""Characters of a server's stderr that a message shows."""
DRAIN_POLL: Final = 0.01
"""Between two looks whether the calls of a client that closes have ended."""
CALL_REPEATS: Final = 2
"""How often one call is repeated by itself after a loss."""
REFUSAL_REPEATS: Final = 5
"""How often one call is repeated that the server refused, and told when to come back."""
SHED_SECONDS: Final = 5.0
"""The longest wait before a server that sheds load is asked again."""
LIST_PAGES: Final = 1000
LIST_ENTRIES: Final = 1_000_000
"""Entries of one list, all pages together."""
CACHE_ENTRIES: Final = 1024
CACHE_BYTES: Final = 64 << 20
CALLBACKS_RUNNING: Final = 10_000
"""Async callbacks at once; a server that notifies faster than they end has its news dropped."""
URL_ELICITATIONS: Final = 16
"""Entries of one URLElicitationRequired error that are put before the user."""
QUESTION_TTL: Final = 3_600_000
QUESTION_POLL: Final = 500
"""Milliseconds the answer to a question that was asked as a task is kept at most; those between two looks at it."""
TASK_POLL: Final = 0.5
"""Between two looks at a task, unless its server names another time between the next two."""
SHORTEST_TASK_POLL: Final = 0.02
LONGEST_TASK_POLL: Final = 30.0
TASK_GOODBYE: Final = 0.5
"""Seconds a caller who stops waiting for a task is held up until the server has heard of it."""
SAMPLER_ANSWER: Final = 16 << 20
"""The largest answer of a model's provider."""
SAMPLER_SECONDS: Final = 120.0
SYNC_CLOSE_SECONDS: Final = 10.0
"""How long closing a synchronous client waits for its thread."""
UNREACHED_SECONDS: Final = 3.0
"""For how long a call is repeated in any case where nobody listens: as long as that takes with the usual waits."""

# --- testing ------------------------------------------------------------------------------------------------

RERUN_RUNS: Final = 100
"""Runs of one handler that `testing.rerun` goes through."""

# --- problems of values and schemas ---------------------------------------------------------------------------------

MOST_PROBLEMS: Final = 10
"""Things that are said to be wrong with one value; more would not help anybody."""
VALUES_SHOWN: Final = 20
"""Allowed values that are named when none of them was given."""
ALTERNATIVES_SHOWN: Final = 4
"""Members of a union for which it is said why a value does not fit."""
REASON_LENGTH: Final = 1000
"""Characters of a reason why a value or a schema cannot be used."""

# --- Server -----------------------------------------------------------------------------------------------------------

STATE_LIFETIME: Final = 3600.0
"""Seconds for which the state of an unanswered question is good."""
LONGEST_DESCRIPTION: Final = 10_000
"""Characters of a description above which a note is logged, or the registration refused where the dialect says so."""
ANNOTATION_DEPTH: Final = 64
ANNOTATIONS_KEPT: Final = 1024
"""Levels of an annotation; annotations and classes that are remembered once they were taken apart, for all tools."""
SAMPLE_TOKENS: Final = 1024
"""Tokens a client's model is asked for at most, unless the handler says otherwise."""
FORMS_KEPT: Final = 256
QUESTION_LENGTH: Final = 1024
"""Types whose forms are made once, as are questions of at most so many characters that are asked again and again."""
PAGES_KEPT: Final = 512
"""Encoded pages per list; a peer that asks for every page size makes the cache start over, not grow."""
MATCHED_URI_LENGTH: Final = 8192
"""Characters of a URI that templates are tried on; a longer one matches nothing."""
HINTS: Final = 3
"""Unknown arguments of one call for which the name that was probably meant is looked for."""
NAME_SHOWN: Final = 40
"""Characters of an unknown argument's name that come back, and that are compared with the known ones."""
HANDLER_QUEUE: Final = 100
"""Calls that wait for a handler with a ``limit``, unless its ``queue`` says otherwise; one more is refused."""
STORE_FULL_MS: Final = 60_000
"""When a peer is asked to come back for which there is no room in the store."""
RETRY_AFTER_MS: Final = 1000
"""When a peer that was refused for want of room is asked to come back."""
SHORTEST_TASK_TTL_MS: Final = 1000
"""Milliseconds a task is kept even if less was asked for: whoever creates it has to be able to look."""
HANDLE_SECONDS: Final = 3600.0
"""How long a value is kept under a handle unless told otherwise."""
SESSION_STATE_SECONDS: Final = 86_400.0
"""How long the state of a legacy session is kept after it was set."""
KEPT_BYTES: Final = 1 << 20
"""Bytes of one value that a handler keeps, as JSON."""
NEWS_WAITING: Final = 10_000
"""Pieces of news on their way to other processes; a store that takes none makes the oldest go."""
TASK_GRACE: Final = 60.0
"""Seconds beyond its time to live for which a task is known to be unfinished."""
WATCH_SECONDS: Final = 0.1
"""Between two looks at what is watched, at least; what changes in that time is told once."""
WATCHED_FILES: Final = 10_000
"""Files of one folder that are watched."""
LONGEST_REASON: Final = 1024
"""Characters of the reason for which a task is cancelled."""
TASK_DEPENDENCIES: Final = 32
"""Tasks that one may wait for."""
TASK_NOTES: Final = 1.0
"""Seconds after which other workers can see what a task says of itself."""
TASK_CANCEL_SECONDS: Final = 5.0
"""Seconds cancelled work of tasks gets to give in when the server stops."""
SKILL_FILES: Final = 512
SKILL_BYTES: Final = 16 << 20
"""What one skill may hold, by the extension."""
SKILL_DEPTH: Final = 16
"""Levels of folders that are searched for skills, and that one skill may have."""
COMPLETIONS: Final = 100
"""Values in one answer to ``completion/complete``, by the specification."""

# --- Stores -----------------------------------------------------------------------------------------------------------

MEMORY_STORE_ENTRIES: Final = 10_000
MEMORY_STORE_BYTES: Final = 256 << 20
"""What a store in memory holds unless told otherwise."""
SCAN_PAGE: Final = 100
"""Entries of one page of `Store.scan`."""

# --- Command line -----------------------------------------------------------------------------------------------------

NAMES_LISTED: Final = 10
"""Names that a message lists at most."""

# --- HTTP client ----------------------------------------------------------------------------------------------------

ANSWER_HEAD: Final = 128 << 10
"""Bytes of a head, of trailers, or of anything else in an answer that brings no body."""
READ_AHEAD: Final = 256 << 10
"""Bytes of an answer that wait for their reader before the socket is stopped."""
REPEATED_HEADER: Final = 32 << 10
"""Characters of a header that comes again and again; joining them costs the square of that."""
INFLATED_PIECE: Final = 64 << 10
"""Bytes that a packed answer is unpacked to at a time."""
INFLATED_FREELY: Final = 4 << 20
INFLATION: Final = 200
"""How many times its size a packed answer may become, once it has become that many bytes."""
CHECKED_AT_ONCE: Final = 1000
"""Values in a structured result above which it is checked beside the event loop."""
ERROR_EXCERPT: Final = 64 << 10
"""Bytes that are read of an answer whose status says it all."""
CONNECTION_KEPT: Final = 15.0
CONNECTIONS_SPARE: Final = 1000
HEADS_KEPT: Final = 64
"""Seconds an unused connection is kept, how many per origin; and how many heads of requests, to be sent again."""
NEXT_ADDRESS: Final = 0.25
"""Seconds before the next address of a host is tried beside the first (RFC 8305)."""
REDIRECTS: Final = 3
CHALLENGES: Final = 3
"""How often one request is repeated because the authorization was renewed."""
LONGEST_RETRY_AFTER: Final = 86_400
"""Seconds; what a server asks for beyond them is cut."""
LONGEST_SESSION_ID: Final = 8 << 10
"""Characters; it goes with every request, and servers limit what they read of a head."""
STREAM_RETRY: Final = 1.0
"""Seconds before a broken stream is resumed, when the server named none."""
SHORTEST_RETRY: Final = 0.1
"""Seconds between two attempts, even if the server wants none: it must not make us spin."""
LONGEST_RETRY: Final = 60.0
STREAM_RESUMES: Final = 10
"""Resumptions of one stream that bring nothing, before it is given up."""
UNATTENDED_POST: Final = 30.0
"""Seconds the server gets to take a message that nobody waits for; it must not hold a connection for ever."""
UNATTENDED_PAUSES: Final = (0.1, 0.5, 2.0)
"""Seconds after which such a message is sent again when the connection broke, or the server was short of something."""
GOODBYE: Final = 2.0
"""Seconds the server gets to take note of the end of the session."""
TURN_BYTES: Final = 16 << 10
"""Bytes of event streams and frames that are taken apart in one turn of the loop: a few thousand of the smallest."""
TURN_MESSAGES: Final = 500
"""Messages of one frame or one piece of an event stream that are dealt with in one turn of the loop."""
WEBSOCKET_PING: Final = 30.0
"""Seconds between two pings, and those a server has to answer one."""
WEBSOCKET_CLOSING: Final = 1.0
"""Seconds the server gets to answer our close frame."""
HEADER_NAME_KEPT: Final = 256
"""Characters of a name up to which its headers are kept to be sent again: a gateway is told names by its clients."""
HEAD_KEPT_BYTES: Final = 8 << 10
"""How long a head is kept to be sent again."""
PIECE_OVERHEAD: Final = 64
"""Bytes that a piece of a body takes beside its content."""
# --- what is read of texts that others wrote ------------------------------------------------------------

EVENT_LINES: Final = 64 << 10
"""Lines of one event of an event stream."""

# --- authorization ------------------------------------------------------------------------------------------

CHALLENGE_LENGTH: Final = 16 << 10
"""Characters that are read of one WWW-Authenticate header."""
CHALLENGES_READ: Final = 16
"""Challenges that are read of one answer."""
LONGEST_TOKEN: Final = 16 << 10
"""Characters of an Authorization header; a longer one is refused unread."""
LONGEST_TIMER: Final = 31_536_000.0
"""Seconds; no stream lives that long, whatever its token says."""

# --- HTTP server ------------------------------------------------------------------------------------------

USUAL_HEADS: Final = 256
"""Combinations of headers remembered as good, so that the usual request costs one look-up."""
INITIALIZE_SECONDS: Final = 30.0
"""Seconds a client has to begin, and a session to be used after ``initialize``."""
PING_SECONDS: Final = 30.0
"""Seconds the client of a quiet session has to answer our ping."""
CRASH_REPORTS: Final = 20
"""Reports of abnormal ends that are kept; the oldest go."""
SESSION_STREAMS: Final = 8
"""General streams of one legacy session; the oldest makes room."""
ENDED_SLICE: Final = 14_400.0
"""Seconds; what is known of ended sessions is given up for so much time at once, when the last of it has expired."""
PREFLIGHT_NAMES: Final = 64
"""Header names read of a CORS preflight."""
HTTP_TICK: Final = 1.0
"""Seconds between two looks of an app at what takes too long."""
HTTP_FLUSH: Final = 1.0
"""Seconds clients have to take the last bytes of their streams, and connections to close."""
HTTP_BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""
HTTP_INTERRUPTED: Final = 1.0
"""Seconds calls get to finish after SIGINT: somebody sits there and waits."""
HTTP_MARGIN: Final = 5.0
"""Seconds for what comes with the drain, and again for what comes after it; then the process ends regardless."""
USUAL_HEAD_BYTES: Final = 4 << 10
"""How large a combination of headers is remembered."""
QUERY_MEMBERS: Final = 256
"""Members of a query that are taken apart for a handler; with more it is 400."""

# --- strangers ----------------------------------------------------------------------------------------------

VIOLATIONS: Final = 8
"""Messages that are none which a peer on TCP or a WebSocket may send; with one more it is hung up on."""
BUSY_SECONDS: Final = 5.0
"""When a peer is asked to come back that found others holding too much."""
INTRODUCTION_BYTES: Final = 256 << 10
"""Bytes of ``initialize``; what is read of it costs twenty times its size."""
CLIENT_INFO_BYTES: Final = 4096
"""Bytes of a client's description of itself that are kept for as long as it is connected; of more, its names are."""
NAME_KEPT: Final = 200
"""Characters of each of those."""
KEPT_CAPABILITIES: Final = 2048
"""Bytes of a client's capabilities. They are kept as well, over HTTP in the id of the session, which travels in a
header: many peers take 8 KiB at most."""

# --- streams and processes --------------------------------------------------------------------------------------------

GRACE_SECONDS: Final = 1.5
"""For calls to finish once the input has ended. Clients send SIGTERM about two seconds after that."""
DRAIN_SECONDS: Final = 5.0
"""For calls to finish after SIGTERM."""
INTERRUPT_SECONDS: Final = 0.4
"""From SIGINT to the end, come what may."""
TEARDOWN_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 1.0
"""For what is left after the last connection; for a peer to take the last bytes, and cancelled handlers to give in."""
STREAM_CHUNK: Final = 64 << 10
"""Bytes that are read at once, and that may wait to be written unless the link says otherwise: what a pipe holds."""
TURN_LINES: Final = 100
"""Lines of one peer that are dealt with before others get their turn: some milliseconds of the shortest calls."""
SKIPPED_SIZES: Final = 8
"""How many times the size limit of an oversized line is read over before the peer is given up."""
CONNECT_SECONDS: Final = 30.0
TCP_CONNECTIONS: Final = 1000
TCP_IDLE_SECONDS: Final = 300.0
KEEPALIVE_SECONDS: Final = 60
KEEPALIVE_INTERVAL: Final = 15
KEEPALIVE_PROBES: Final = 4
"""After how much silence the kernel asks whether the peer is still there, how often and how many times."""
CHILD_GRACE: Final = 2.0
"""For a child to end after its stdin was closed, and again after SIGTERM."""
STDERR_KEPT: Final = 8 << 10
"""Bytes of a child's stderr kept to explain a failure."""
STATUS_SECONDS: Final = 0.3
"""To wait for the exit status of a child once its stdout has ended, so that the error can name it."""
IDLE_THREAD_SECONDS: Final = 30.0
"""After which a worker thread without work ends."""
ID_ATTEMPTS: Final = 1000
"""How often a generator of ids may come up with one that is taken."""
READ_IN_TURN: Final = 256 << 10
"""Bytes of a large message that are read from a host before others get their turn."""
TLS_SECONDS: Final = 10.0
"""What a client has for its handshake."""
