"""The commands ``dovetail login``, ``logout`` and ``whoami``, and the option ``--auth``."""
