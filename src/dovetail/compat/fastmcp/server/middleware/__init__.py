"""What stands around the requests of a server."""

from .middleware import CallNext, Middleware, MiddlewareContext

__all__ = ["CallNext", "Middleware", "MiddlewareContext"]
