"""Composition of servers: mounting, proxies, bridges, gateways and transforms.

Start with `mounting` (servers in one process), `proxy` and `remote` (upstream servers), `gateway` (a file of
servers) and `transform_chain` (lists and calls). An *upstream* is a server that a proxy calls; a
*downstream client* is a client of the proxy.
"""

from .clients import Clients
from .gateway import Gateway
from .gateway_config import ConfigError
from .proxy import Proxy

__all__ = ["Clients", "ConfigError", "Gateway", "Proxy"]
