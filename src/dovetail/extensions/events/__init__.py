"""The events extension (SEP-3415, experimental): clients receive events of a server or of its backends.

`server_events` has `Events`, for servers; start reading there. `client_events` has `EventsClient`, for clients.
`webhook_receiver` checks what a server posts to a callback URL. Nothing here is loaded before it is used.
"""
