"""Authorization logic without I/O: challenges, scopes, metadata, tokens, flows.

Start with `challenge` (the ``WWW-Authenticate`` header), `resource` (its metadata) and `flow` (the client's
logins).
"""
