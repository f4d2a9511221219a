"""Legacy sessions that any process serves, whichever opened them: only where the server has a store.

Start with `shared.py`. `mail.py` carries letters between processes, `kept_events.py` is the event log in the store,
`elsewhere.py` the streams that another process writes.
"""
