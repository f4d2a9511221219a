"""Telemetry of a server or a client: metrics (`metrics`), spans (`tracing`) and events (`events`).

The modules are imported only when they are used. Start with `metrics.py`.
"""
