"""HTTP server side: every revision on one URL, HTTP+SSE, WebSocket.

Start with `app`; then `stateless_handler` (2026-07-28) and `session_handler` (sessions).
"""
