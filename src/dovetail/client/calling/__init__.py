"""Calls and what comes of them: `calls` makes one that survives, the others are what people call.

Start with `calls`.
"""
