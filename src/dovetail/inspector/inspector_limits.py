"""The bounds of the inspector that nobody turns."""

from typing import Final

FRAMES_KEPT: Final = 120_000
"""Frames of all connections together; the oldest make room."""
FRAME_BYTES: Final = 256 << 20
"""Bytes of them."""
FRAMES_TRIMMED: Final = 4_000
"""How many go at once, so that making room costs nothing."""
REQUESTS_OPEN: Final = 10_000
"""Requests whose answers are waited for, to know how long they took."""
ROWS_SENT: Final = 5_000
"""Frames that a page is told of at once."""
NEWS_WAITING: Final = 5_000
"""What a page that does not listen may miss before it has to look at everything anew."""
NEWS_PAUSE: Final = 0.03
"""Seconds in which news are gathered before they are sent: a page draws no faster."""
NEWS_BYTES: Final = 32 << 20
"""Bytes of it."""
STREAMS: Final = 16
"""Pages that listen at once."""
MESSAGE_SIZE: Final = 256 << 20
"""The largest message a server may send us."""
HEADER_SIZE: Final = 32 << 10
"""Bytes of the headers of a request: its URL has the arguments of a completion."""
BODY_SIZE: Final = 64 << 20
"""The largest request of the page: files travel as arguments."""
CONNECTIONS: Final = 32
CALLS_KEPT: Final = 500
RESULT_BYTES: Final = 256 << 20
"""Bytes of results that are kept."""
CALLS_RUNNING: Final = 200
"""Calls that are under way at once: an app may make as many as it likes."""
LOGS_KEPT: Final = 5_000
LOG_SIZE: Final = 10_000
"""Characters of one of them; all of it is on the wire."""
LOG_BYTES: Final = 8 << 20
"""Bytes of them for one connection."""
UPDATES_COUNTED: Final = 1_000
"""Resources of one connection whose updates are counted."""
NAME_SIZE: Final = 1_000
"""Characters of a method, an id, a header or a URI that a server has made up."""
HEADERS_KEPT: Final = 64
"""Headers of one head."""
QUESTIONS: Final = 100
"""Questions that may wait for an answer."""
QUESTION_BYTES: Final = 64 << 20
"""Bytes of them."""
SHOWN_TEXT: Final = 100_000
"""Characters of one text that the page gets unless it asks for all of it."""
SHOWN_MEDIA: Final = 16 << 20
"""Characters of one picture or sound."""
SHOWN_ITEMS: Final = 1_000
"""Items of one array, or members of one object."""
SHOWN_TOTAL: Final = 2 << 20
"""Characters of all of it, pictures aside."""
SHOWN_DEPTH: Final = 60
APPS_KEPT: Final = 32
"""Documents of MCP Apps that wait to be fetched by their frame."""
APP_BYTES: Final = 64 << 20
"""Bytes of them."""
CONFIRMATIONS: Final = 32
"""Commands that wait for somebody to say yes."""
METRICS_SIZE: Final = 4 << 20
METRICS_SECONDS: Final = 5.0
HEARTBEAT: Final = 15.0
"""Seconds after which a silent stream says that it is there."""
LAST_WORDS_SECONDS: Final = 0.5
LAST_WORDS_SHOWN: Final = 4_000
"""Seconds that we wait for a program's last words, and characters of them that are shown."""
FLUSH_SECONDS: Final = 1.0
"""Seconds that connections have to close."""
SESSIONS_SHOWN: Final = 200
"""Sessions that are listed, the newest first."""
FILES_LOOK: Final = 0.05
"""Seconds between two looks at the files of a project."""
FILES_WATCHED: Final = 2_000
"""Files that are looked at; a folder with more is not a project of one server."""
FOLDERS_WATCHED: Final = 8
"""Levels of folders in which they are looked for."""
