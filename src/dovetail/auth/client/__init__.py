"""How a client logs in: the objects that ``Client(auth=…)`` takes, and where tokens are kept.

Start with `authorizer`, which all of them share; what they decide stands in `auth.core`.
"""
