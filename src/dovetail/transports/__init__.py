"""Transports connect peers: stdio, TCP, HTTP, WebSocket.

A transport moves bytes and knows no method, revision or session.
"""
