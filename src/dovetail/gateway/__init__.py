"""Many servers as one: mounted, behind a proxy, bridged, behind a gateway."""

from .clients import Clients
from .config import ConfigError
from .gateway import Gateway
from .proxy import Proxy

__all__ = ["Clients", "ConfigError", "Gateway", "Proxy"]
