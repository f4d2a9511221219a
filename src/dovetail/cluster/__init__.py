"""What the processes of one server share through its store; loaded only where the server has one.

Legacy sessions: start with `shared_sessions`. `message_bus` connects the processes, `stored_events` is the event log,
`remote_streams` follows the streams of other processes. Tasks: `durable_tasks`; `task_dispatch` and `task_worker` are
for ``dovetail worker``. Calls that run once: `idempotency`; their steps: `stored_steps`.
"""
