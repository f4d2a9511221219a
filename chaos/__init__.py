"""Real faults injected into live servers: ``python -m chaos``. `scenarios.py` has what is done, `site.py` to whom."""
