"""Tools that run as tasks: `work` runs them, `task_methods` answers for them in all three designs.

Start with `work`; the state machine itself is `core.task_machine`.
"""
