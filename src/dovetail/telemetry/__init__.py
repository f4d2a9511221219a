"""What operators see: numbers (`metrics`), spans (`tracing`) and events (`events`) of a server or a client.

Nothing here is loaded, and nothing is counted, before somebody asks for it. Start with `metrics.py`.
"""
