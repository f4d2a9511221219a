"""Calls of a client: retries, caching, tools, tasks and skills. Start with `calls`."""
