"""The wire format: convert bytes to typed values and back. Pure functions without I/O, clock or session.

`frames` decodes the JSON-RPC envelope. `methods` and `revisions` are tables. `codec` decodes and encodes
params and results. `edits` downgrades values for older revisions, and `dialects` converts the formats of
other projects. `lines`, `sse` and `headers` are the framings; `seal` creates tamper-proof tokens.
"""
