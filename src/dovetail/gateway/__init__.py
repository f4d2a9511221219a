"""Many servers as one: mounted, behind a proxy, bridged, behind a gateway."""

from .clients import Clients
from .gateway import Gateway
from .gateway_config import ConfigError
from .proxy import Proxy

__all__ = ["Clients", "ConfigError", "Gateway", "Proxy"]
