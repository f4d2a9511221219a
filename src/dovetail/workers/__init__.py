"""What any process of a server can go on with, whichever began it: only where the server has a store.

Legacy sessions: start with `shared.py`. `mail.py` carries letters between processes, `kept_events.py` is the event log
in the store, `elsewhere.py` the streams that another process writes. Tasks: `durable.py`, and
`spreading.py` and `worker.py` for ``dovetail worker``. Calls: `once.py`; their steps: `steps.py`.
"""
