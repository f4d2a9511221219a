"""The ``dovetail`` command."""
