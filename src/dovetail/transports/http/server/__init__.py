"""The server's side of HTTP: every revision on one URL, the HTTP+SSE pair, WebSocket.

Start with `app`; then `stateless_handler` (2026-07-28) and `session_handler` (sessions).
"""
