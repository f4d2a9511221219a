"""Drivers run calls: ``duplex`` on a lasting connection, ``exchange`` for a single request, and pools for
blocking code."""
