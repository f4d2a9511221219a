"""Providers that are ready to use."""
