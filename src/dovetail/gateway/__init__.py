"""Many servers as one: mounted, behind a proxy, bridged, behind a gateway."""

from .proxy import Proxy

__all__ = ["Proxy"]
