"""The inspector: a local web page to inspect MCP servers.

`inspector_app.py` is the ASGI application: access control (`page_guard.py`), the files of the page (`page/`), and the
routes of `page_api.py`. `inspector.py` has the state: connections, calls, server requests and messages.
"""

from .inspector import Inspector
from .inspector_app import InspectorApp

__all__ = ["Inspector", "InspectorApp"]
