"""Run servers written for FastMCP and the official SDK on their own, installed library, with Dovetail around it.

Start reading in `intercept` (where the original opens a transport) and `memory_session` (one session of the original
per downstream session). `versions` has everything that differs between the originals. For clients: `install`,
`streams`.
"""

from .client_transports import install as install
from .client_transports import streams as streams
from .versions import CompatError as CompatError
