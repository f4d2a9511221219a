"""The ``dovetail`` command: each of its commands is a module with a ``main(command, arguments)``.

`main` has the table of commands, `option_sources` says where options come from.
"""
