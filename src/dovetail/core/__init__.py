"""Protocol decisions as state machines without I/O and without a clock: admission, sessions, tasks,
subscriptions.

Start with `channel`, then `admit`.
"""
