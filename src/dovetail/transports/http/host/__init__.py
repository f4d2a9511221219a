"""What runs the server's side: granian, uvicorn or the event loop itself, processes, signals. Start with `serving`.

A host is a module with a class `Host` (one process, see `process.Host`) and a function `run_workers` (several). It uses
the front door of the HTTP server it is named after, and nothing else of it.
"""
