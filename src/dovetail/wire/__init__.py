"""How it is written: bytes in, typed values out, and back. Pure functions; no I/O, no clock, no session.

`frames` is the envelope, `methods` and `revisions` are the tables, `codec` reads and writes what is inside,
`edits` is what older revisions do not know, `dialects` what other projects say differently. `lines`, `sse`
and `headers` are the framings; `seal` makes tokens that can be trusted when they come back.
"""
