"""The client of SDK 1.x over ours: `session`, and the ways to a server."""
