"""Proof that anyone can repeat: `python -m bench`, `python -m bench.interop`, `python -m bench.soak`."""
