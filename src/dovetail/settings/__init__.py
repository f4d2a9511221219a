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
REREAD_BYTES: Final = 256 << 10
REREAD_VALUES: Final = 16 << 10
"""Bytes from which on a broken message is not worth reading a second time in full, unless it has few values in it."""
CODECS_KEPT: Final = 64
DECODERS_KEPT: Final = 256
BATCH_DECODERS_KEPT: Final = 8
SEAL_KEYS_KEPT: Final = 64
"""What is worth making once."""

# --- client -------------------------------------------------------------------------------------------------

LONG_PROBE: Final = 0.1
SHORT_PROBE: Final = 1 / 3
"""The parts of the connect limit that this is at least, and at most: there must be time for `initialize`, and again
for a second process, should the first have gone deaf."""
LAST_WORDS: Final = 1000
"""Characters of a server's stderr that a message shows."""
SHED_SECONDS: Final = 5.0
"""The longest wait before a server that sheds load is asked again."""
CACHE_ENTRIES: Final = 1024
CACHE_BYTES: Final = 64 << 20
CALLBACKS_RUNNING: Final = 10_000
"""Async callbacks at once; a server that notifies faster than they end has its news dropped."""
SAMPLER_SECONDS: Final = 120.0
SYNC_CLOSE_SECONDS: Final = 10.0
"""How long closing a synchronous client waits for its thread."""

# --- testing ------------------------------------------------------------------------------------------------


# --- problems of values and schemas ---------------------------------------------------------------------------------


# --- Server -----------------------------------------------------------------------------------------------------------

LONGEST_DESCRIPTION: Final = 10_000
"""Characters of a description above which a note is logged, or the registration refused where the dialect says so."""
ANNOTATION_DEPTH: Final = 64
ANNOTATIONS_KEPT: Final = 1024
"""Levels of an annotation; annotations and classes that are remembered once they were taken apart, for all tools."""
FORMS_KEPT: Final = 256
QUESTION_LENGTH: Final = 1024
"""Types whose forms are made once, as are questions of at most so many characters that are asked again and again."""
MATCHED_URI_LENGTH: Final = 8192
"""Characters of a URI that templates are tried on; a longer one matches nothing."""
HINTS: Final = 3
"""Unknown arguments of one call for which the name that was probably meant is looked for."""
NAME_SHOWN: Final = 40
"""Characters of an unknown argument's name that come back, and that are compared with the known ones."""
STORE_FULL_MS: Final = 60_000
"""When a peer is asked to come back for which there is no room in the store."""
RETRY_AFTER_MS: Final = 1000
"""When a peer that was refused for want of room is asked to come back."""
SESSION_STATE_SECONDS: Final = 86_400.0
"""How long the state of a legacy session is kept after it was set."""
NEWS_WAITING: Final = 10_000
"""Pieces of news on their way to other processes; a store that takes none makes the oldest go."""
WATCH_SECONDS: Final = 0.1
"""Between two looks at what is watched, at least; what changes in that time is told once."""
SKILL_FILES: Final = 512
SKILL_BYTES: Final = 16 << 20
"""What one skill may hold, by the extension."""

# --- Stores -----------------------------------------------------------------------------------------------------------

SCAN_PAGE: Final = 100
"""Entries of one page of `Store.scan`."""

# --- Command line -----------------------------------------------------------------------------------------------------


# --- HTTP client ----------------------------------------------------------------------------------------------------

ANSWER_HEAD: Final = 128 << 10
"""Bytes of a head, of trailers, or of anything else in an answer that brings no body."""
ERROR_EXCERPT: Final = 64 << 10
"""Bytes that are read of an answer whose status says it all."""
CONNECTION_KEPT: Final = 15.0
CONNECTIONS_SPARE: Final = 1000
HEADS_KEPT: Final = 64
"""Seconds an unused connection is kept, how many per origin; and how many heads of requests, to be sent again."""
REDIRECTS: Final = 3
CHALLENGES: Final = 3
"""How often one request is repeated because the authorization was renewed."""
SHORTEST_RETRY: Final = 0.1
"""Seconds between two attempts, even if the server wants none: it must not make us spin."""
GOODBYE: Final = 2.0
"""Seconds the server gets to take note of the end of the session."""
TURN_BYTES: Final = 16 << 10
"""Bytes of event streams and frames that are taken apart in one turn of the loop: a few thousand of the smallest."""
TURN_MESSAGES: Final = 500
"""Messages of one frame or one piece of an event stream that are dealt with in one turn of the loop."""
HEADER_NAME_KEPT: Final = 256
"""Characters of a name up to which its headers are kept to be sent again: a gateway is told names by its clients."""
# --- what is read of texts that others wrote ------------------------------------------------------------


# --- authorization ------------------------------------------------------------------------------------------

LONGEST_TOKEN: Final = 16 << 10
"""Characters of an Authorization header; a longer one is refused unread."""

# --- HTTP server ------------------------------------------------------------------------------------------

INITIALIZE_SECONDS: Final = 30.0
"""Seconds a client has to begin, and a session to be used after ``initialize``."""
HTTP_TICK: Final = 1.0
"""Seconds between two looks of an app at what takes too long."""
HTTP_FLUSH: Final = 1.0
"""Seconds clients have to take the last bytes of their streams, and connections to close."""
HTTP_BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""

# --- strangers ----------------------------------------------------------------------------------------------

BUSY_SECONDS: Final = 5.0
"""When a peer is asked to come back that found others holding too much."""

# --- streams and processes --------------------------------------------------------------------------------------------

GRACE_SECONDS: Final = 1.5
"""For calls to finish once the input has ended. Clients send SIGTERM about two seconds after that."""
TEARDOWN_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 1.0
"""For what is left after the last connection; for a peer to take the last bytes, and cancelled handlers to give in."""
STREAM_CHUNK: Final = 64 << 10
"""Bytes that are read at once, and that may wait to be written unless the link says otherwise: what a pipe holds."""
