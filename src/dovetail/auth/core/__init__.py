"""The decisions of authorization, without I/O: challenges, scopes, metadata, tokens, flows.

Start with `challenge`, what a server that refuses says, and `resource`, where it says what would help.
"""
