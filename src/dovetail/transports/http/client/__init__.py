"""HTTP client: links, requests to one origin, and a pool of HTTP/1.1 connections.

Start with `link`.
"""
