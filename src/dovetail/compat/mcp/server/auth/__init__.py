"""Tokens of SDK 1.x over `dovetail.auth`: `provider` has the names, `middleware` who calls."""
