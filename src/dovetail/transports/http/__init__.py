"""HTTP transports of all revisions: Streamable HTTP, HTTP+SSE, WebSocket; server and client side."""
