"""The client's side of HTTP: links, one origin's requests, and a pool of HTTP/1.1 connections.

Start with `link`.
"""
