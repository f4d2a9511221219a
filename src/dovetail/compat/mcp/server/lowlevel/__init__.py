"""The low-level server of SDK 1.x; start with `server`, `bridge` is the way to ours."""

from .server import NotificationOptions, Server

__all__ = ["NotificationOptions", "Server"]
