"""In front of a provider that registers no clients: an authorization server of our own that logs users in there.

Start with `proxy`, what ``Server(auth=…)`` takes; `login` is the way of a browser, `tokens` what clients get in the
end, `provider` the other side, `vault` where everything lies. What is decided without I/O stands in `auth.core`.
"""
