"""Client logins: the objects that ``Client(auth=…)`` accepts, and token storage.

Start with `authorizer`, the common part of all logins; the protocol logic is in `auth.core`.
"""
