"""`Proxy`: a server that forwards all requests to an upstream server of any revision and transport."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from ..client.client_config import ClientOptions
from ..model import Implementation
from ..model.meta import SKILLS_EXTENSION
from ..server.server import Server
from ..wire.revisions import REVISIONS, Revision
from .mounting import mount
from .remote import UPSTREAMS_KEPT, RemoteProvider, Sharing
from .upstream import Upstream

_SKILLS = ("skills/list", "skills/get", "resources/directory/read")
_UNSAID = "dovetail-proxy"


class Proxy(Server):
    """A `Server` with the tools, resources and prompts of ``target``, which is any target of a `Client`.

    ```python
    Proxy("https://example.com/mcp").run("stdio")
    server.mount(Proxy(["npx", "some-server"]), prefix="other")
    ```

    Lists, calls, server-to-client requests, progress, logs, subscriptions and tasks are forwarded between all
    combinations of revisions. A server of 2026-07-28 gets one connection per downstream principal. An older server
    does not say which call its requests belong to, so it gets one connection per downstream legacy session. Clients
    of 2026-07-28 have no session: those without a principal share one connection, and a server-to-client request is
    refused while several of them call. ``connections="principal"`` or ``"session"`` overrides this, up to
    ``max_connections``. Only the headers in ``forward_headers`` are forwarded, and never a token.
    ``forward_methods`` are extension methods, ``["acme/do"]``, or with their capability,
    ``{"acme/do": "extensions.com.acme/do"}``. ``timeout`` (seconds) limits an upstream call; ``middleware`` runs
    around all calls; ``required`` makes the start fail without the upstream. Other options are those of a
    `Client`; ``auth`` may also be a function of the principal, or a `TokenExchange`.
    """

    def __init__(
        self,
        target: Any,
        name: str | None = None,
        *,
        connections: Sharing = "auto",
        timeout: float | None = None,
        forward_headers: Iterable[str] = (),
        forward_methods: Mapping[str, str | None] | Iterable[str] = (),
        required: bool = False,
        max_connections: int = UPSTREAMS_KEPT,
        revisions: Sequence[str | Revision] = REVISIONS,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Set the upstream server.

        Args:
            target: The upstream server: anything that a `Client` accepts.
            name: The name of the proxy; by default that of the upstream server.
            connections: "principal" opens one upstream connection per principal, "session" one per legacy
                session. "auto" is "session" if the upstream server is legacy, else "principal".
            timeout: Seconds that one upstream call can take. ``None``: no limit.
            forward_headers: Names of HTTP headers to forward.
            forward_methods: Extension methods to forward, with or without the capability that declares each.
            required: Whether the proxy fails to start without the upstream server.
            max_connections: Upstream connections at the same time.
            revisions: The protocol revisions that the proxy serves.
            options: Options of `Client`.
        """
        # Middleware runs around downstream calls; upstream calls are the same ones.
        middleware = options.pop("middleware", ())
        super().__init__(name or _UNSAID, middleware=middleware, revisions=revisions)
        self.remote = RemoteProvider(
            target,
            options,
            name=name,
            connections=connections,
            timeout=timeout,
            forward_headers=forward_headers,
            forward_methods=forward_methods,
            max_connections=max_connections,
        )
        self._named, self._required = name is not None, required
        self._quoted = False
        mount(self, self.remote, None)
        self.dispatcher.answer({"tools/call": self.remote.respond})  # the only provider
        self.lifecycle.add(start=self._offer_upstream)

    def _offer_upstream(self) -> None:
        """Offer the capabilities of the upstream, once it is connected."""
        first = self.remote.first
        if first is None:
            if self._required and self.remote.problem is not None:
                raise self.remote.problem
            return
        self._introduce(first)

    async def replace(self, target: Any, **options: Unpack[ClientOptions]) -> None:
        """Switch to the server at ``target`` with further options. Downstream clients stay connected.

        Running calls end at the previous server. All clients are notified that the lists changed.

        Raises:
            DovetailError: the new server cannot be reached; nothing has changed.
        """
        await self.remote.replace(target, **options)
        if self.remote.first is not None:
            self._introduce(self.remote.first)

    def _introduce(self, first: Upstream) -> None:
        """Take over the name and the capabilities of the upstream."""
        info, instructions = self.dispatcher.info, self.instructions
        if not self._named:
            info = first.client.server_info or Implementation(_UNSAID, "0.0.0")
        if instructions is None or self._quoted:
            instructions = first.client.instructions
            self._quoted = True
        self.dispatcher.introduce(info, instructions)
        self._offer_skills(first)

    def _offer_skills(self, first: Upstream) -> None:
        found = first.client.server_capabilities.extension(SKILLS_EXTENSION)
        if found is not None:
            self.dispatcher.answer(dict.fromkeys(_SKILLS, self.remote.respond))
            self.dispatcher.add_capability(f"extensions.{SKILLS_EXTENSION}", found)
