"""What the worker processes of one server share through its store. Loaded only for servers with a store.

Legacy sessions: start with `shared_sessions`. `message_bus` connects the processes, `stored_events` is the
event log, `remote_streams` follows streams of other processes, `replay_buffer` repeats recent notifications.
Tasks: `durable_tasks`, with `task_dispatch` and `task_worker` for ``dovetail worker``. Idempotency:
`idempotent_calls` and `stored_steps`. Leases, heartbeats and detection of dead processes: `process_registry`,
`durable_tasks`.
"""
