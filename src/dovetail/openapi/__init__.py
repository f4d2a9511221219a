"""Servers made of a description of an HTTP API: `Server.from_openapi` and `Server.from_fastapi`.

Start with `building`; `operations` reads a description, `arguments` makes requests of arguments, `calling` sends them.
"""

from .route_map import Route as Route

__all__ = ["Route"]
