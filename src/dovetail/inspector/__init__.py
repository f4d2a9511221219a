"""The inspector: a page on this machine to look at servers with.

`app.py` is the ASGI application: who may ask (`guard.py`), the page's files (`page/`), and the routes of `api.py`.
`inspector.py` holds what the page shows: connections, calls, questions, and every frame of the wire.
"""

from .inspector import Inspector
from .inspector_app import InspectorApp

__all__ = ["Inspector", "InspectorApp"]
