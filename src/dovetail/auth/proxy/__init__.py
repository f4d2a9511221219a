"""OAuth proxy: an authorization server for MCP clients, for a provider without client registration.

Start with `oauth_proxy` (what ``Server(auth=…)`` accepts); `proxy_login` handles the browser, `issued_tokens`
the tokens of clients, `provider` the identity provider, `sealed_records` the encrypted store entries. Logic
without I/O is in `auth.core`.
"""
