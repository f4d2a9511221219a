"""The commands around logging in: ``dovetail login``, ``logout``, ``whoami``, and ``--auth``."""
