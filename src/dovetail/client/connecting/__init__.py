"""Connections of a client: `targets` and `connectors` (transports), `negotiate` (decisions) and `connect`
(attempts).

Start with `client_connection`, which creates and maintains connections.
"""
