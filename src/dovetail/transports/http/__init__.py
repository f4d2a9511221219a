"""HTTP in every form the revisions know: Streamable HTTP, HTTP+SSE, WebSocket; server and client side."""
