"""Tools that run as tasks, in all three designs of the protocol.

Start with `task_runner`, which runs them; `task_methods` answers ``tasks/*``. The state machine is `core.task_machine`.
"""
