"""Servers from an OpenAPI description: `Server.from_openapi` and `Server.from_fastapi`.

Start with `build_server`. `operations` reads a description, `operation_arguments` builds requests from arguments,
`api_calls` sends them.
"""

from .route_map import Route as Route

__all__ = ["Route"]
