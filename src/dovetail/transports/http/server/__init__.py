"""The server's side of HTTP: every revision on one URL, the HTTP+SSE pair, WebSocket.

Start with `app`; then `modern` (2026-07-28) and `legacy` (sessions).
"""
