"""What people do with servers beside running them: lock and compare, install, diagnose, begin a new one.

Each command of the command line is a module with a ``main(command, arguments)``; `cli.main` has the table.
"""
