"""The commands around logging in: ``dovetail login``, ``logout``, ``whoami``, ``doctor auth``, and ``--auth``."""
