"""`Attempt`: one connection attempt, which executes the steps that `negotiate` decides."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct

from ... import model as m
from ...core.channel import MAX_STDERR_SHOWN
from ...core.connection_states import ConnectionMachine
from ...core.endpoint import Endpoint
from ...errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    DovetailError,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    TransportError,
)
from ...model.meta import IDEMPOTENCY_EXTENSION, SERVER_INFO
from ...settings import Timeouts
from ...wire.revisions import BY_NAME, Revision
from ..client_config import LONG_PROBE
from ..conversation import Conversation
from ..http_client import StatusError
from .negotiate import Outcome, Step, after_initialize, after_probe, first_step, read_supported
from .server_cache import CachedServer

if TYPE_CHECKING:
    from .client_connection import Connections

NEGOTIATION_STEPS: Final = 12
"""Upper bound of steps; a loop of decisions ends here."""

log = logging.getLogger("dovetail.client")

NOT_SENT = frozenset({"refused", "unresolved", "tls", "proxy", "session", "redirect"})
"""Causes that prove that the server did not receive the request."""
_NOT_THIS = frozenset({UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST})
"""Error codes of `initialize` that mean an unsupported revision."""


class Established(Struct, eq=False, kw_only=True):
    """A ready connection, and what the server declared."""

    conversation: Conversation
    revision: Revision
    capabilities: m.ServerCapabilities
    server_info: m.Implementation | None
    instructions: str | None
    declared: m.ClientCapabilities
    """The capabilities declared to the server."""
    offered: set[str] = set()
    """Methods that are known to be supported."""
    runs_once: bool = False
    """Whether the server supports idempotency keys."""


class Attempt:
    """One connection attempt. Create another one to try again."""

    def __init__(self, connections: Connections, machine: ConnectionMachine) -> None:
        self._connections = connections
        self._config = config = connections.config
        self._policy = config.policy
        self._opener = connections.opener
        self._machine = machine
        self._known = config.server_cache
        # A client without modern revisions learns nothing that holds for one with them.
        key = config.target.key
        self._key = key if key is None or config.policy.modern else f"{key} legacy"
        self._label = config.target.label
        self._conversation: Conversation | None = None
        self._transport = "streamable" if self._opener.http else "stream"
        self._tried: list[str] = []
        self._reprobed = False
        self._respawned = False
        self._failure: DovetailError | None = None
        """The last failure, reported when no step is left."""
        self._refused: StatusError | None = None
        """A 401 or 403 to the probe, reported if the fallback fails too."""
        self._missed: DovetailError | None = None
        """The outcome of an inconclusive probe."""
        self._tentative = False
        self._deadline: asyncio.Timeout | None = None

    async def run(self, deadline: asyncio.Timeout) -> Established:
        """Connect and negotiate. ``deadline`` is extended while a user logs in. Call `discard` after an
        error.

        Raises:
            TransportError: the server cannot be reached.
            ProtocolError: no revision is supported by both sides.
        """
        remembered = self._known.get(self._key)
        self._deadline = deadline
        try:
            return await self._climb(remembered)
        except (ProtocolError, StatusError):
            if remembered is None:
                raise
            # The cached result is out of date: negotiate in full.
            self._known.forget(self._key)
            await self.discard()
            self._tried.clear()
            return await self._climb(None)

    async def _climb(self, remembered: CachedServer | None) -> Established:
        self._transport = "streamable" if self._opener.http else "stream"
        if remembered is not None and self._opener.http and self._policy.legacy:
            self._transport = remembered.transport
        self._tentative = remembered is not None and remembered.tentative
        step = first_step(self._policy, None if remembered is None else remembered.era)
        for _ in range(NEGOTIATION_STEPS):
            log.debug("%s: %s %s", self._label, step.action, step.revision or step.reason)
            match step.action:
                case "probe":
                    step = await self._probe(step.revision)
                case "initialize":
                    step = await self._initialize(step)
                case "sse":
                    step = await self._switch_to_sse()
                case "modern" | "legacy":
                    return self._settled
                case _:
                    if not (step.respawn and await self._respawn()):
                        raise self._error(step)
                    step = Step("initialize", self._policy.proposal)
        raise self._error(Step("fail", reason="no agreement was reached"))

    # --- the steps ------------------------------------------------------------------------------------------------

    async def _probe(self, version: str) -> Step:
        conversation = await self._opened()
        self._tried.append(version)
        self._speak(conversation, BY_NAME[version])
        outcome = await self._ask(
            conversation, "server/discover", m.RequestParams(), self._config.discovery_timeout
        )
        if isinstance(outcome, m.DiscoverResult):
            found = Outcome("result", tuple(outcome.supported_versions))
            step = after_probe(self._policy, found, self._tried, http=self._opener.http)
            if step.action == "modern":
                revision = BY_NAME[step.revision]
                meta = outcome.meta if isinstance(outcome.meta, dict) else {}
                info = _implementation(meta.get(SERVER_INFO))
                self._settle(conversation, revision, outcome, self._speak(conversation, revision), info)
            return step
        # Legacy servers are expected to refuse.
        self._missed = self._missed if type(self._failure) is ProtocolError else self._failure
        self._tentative = outcome.kind == "silent" or (outcome.kind == "gone" and self._opener.http)
        if isinstance(self._failure, StatusError) and outcome.status in (401, 403):
            self._refused = self._failure
        return after_probe(self._policy, outcome, self._tried, http=self._opener.http)

    async def _initialize(self, step: Step) -> Step:
        if step.respawn:
            await self._respawn()
        conversation = await self._opened()
        declared = self._speak(conversation, BY_NAME[step.revision])
        params = m.InitializeRequestParams(step.revision, dict(declared), self._config.client_info)
        outcome = await self._ask(conversation, "initialize", params, self._patience())
        if isinstance(outcome, m.InitializeResult):
            found = Outcome("result", (outcome.protocol_version,))
            decision = after_initialize(self._policy, found, http=self._opener.http)
            if decision.action == "legacy":
                revision = BY_NAME[decision.revision]
                await self._initialized(conversation, revision, declared)
                self._settle(conversation, revision, outcome, declared, outcome.server_info)
            return decision
        http = self._opener.http and self._transport != "sse"
        decision = after_initialize(self._policy, outcome, http=http, reprobed=self._reprobed)
        self._reprobed = self._reprobed or decision.action == "probe"
        return decision

    def _patience(self) -> float | None:
        """Return the timeout of `initialize`: an unresponsive process must leave time for a restart."""
        limit = self._config.timeouts.connect
        if limit is None or not self._tried or self._respawned or self._opener.http:
            return limit
        return max(self._config.discovery_timeout, limit * LONG_PROBE)

    async def _switch_to_sse(self) -> Step:
        failure = self._failure
        await self.discard()
        self._transport = "sse"
        try:
            await self._opened()
        except TransportError as error:
            # Neither transport responds: the error of `initialize` is more specific.
            raise self._with_history(self._refused or failure or error) from error
        return Step("initialize", self._policy.proposal)

    async def _respawn(self) -> bool:
        """Start another process after the probe broke the first one. Once, and never over HTTP."""
        if self._respawned or self._opener.http:
            return False
        self._respawned = True
        if self._conversation is not None and self._conversation.link is not None:
            self._conversation.link.abort()  # it is unresponsive: a graceful end would use up the time
        await self.discard()
        return True

    # --- requests
    # -------------------------------------------------------------------------------------------------------------

    async def _opened(self) -> Conversation:
        if self._conversation is None or self._conversation.gone.done():
            await self.discard()
            self._machine.try_advance("restart")
            config = self._config
            limits = config.limits.on_websocket() if config.target.kind == "websocket" else config.limits
            endpoint = Endpoint(self._connections.admission, limits, config.next_id)
            conversation = Conversation(endpoint, self._connections, config.clock, config.on_message)
            conversation.requests.on_late_task = self._connections.came_late
            conversation.deadline = self._deadline
            await self._opener.open(conversation, self._transport)
            self._conversation = conversation
            self._machine.advance("connected")
        return self._conversation

    def _speak(self, conversation: Conversation, revision: Revision) -> m.ClientCapabilities:
        """Use ``revision`` from now on."""
        declared = self._connections.answers.capabilities(revision)
        self._connections.admission.set_capabilities(declared)
        self._establish(conversation, revision, declared)
        return declared

    def _establish(
        self, conversation: Conversation, revision: Revision, declared: m.ClientCapabilities
    ) -> None:
        info: Mapping[str, Any] = msgspec.to_builtins(self._config.client_info)
        conversation.endpoint.establish(revision, declared, info)

    async def _ask(self, conversation: Conversation, method: str, params: Struct, limit: float | None) -> Any:
        """Return the result, or the `Outcome` of a failure."""
        self._failure = None
        try:
            # An idle limit, which pauses while a user logs in.
            return await conversation.request(method, params, Timeouts(idle=limit, total=None), quiet=True)
        except RequestTimeout as error:
            what = f"{self._label} did not answer {method} within {limit:g} s"
            self._failure = RequestTimeout(what, limit="connect")
            return Outcome("silent", detail=error.message)
        except StatusError as error:
            self._failure = error
            return Outcome("status", status=error.status, detail=error.message)
        except TransportError as error:
            self._failure = error
            kind = "garbage" if error.cause == "protocol" else "gone"
            if error.cause in NOT_SENT or (kind == "gone" and self._config.target.every_revision):
                kind = "unreachable"
            return Outcome(kind, status=conversation.requests.last_status, detail=error.message)
        except RemoteProtocolError as error:
            self._failure = error
            # An unreadable response is not an error of the server's method.
            return Outcome("result", None, detail=error.message)
        except ProtocolError as error:
            self._failure = error
            return Outcome(
                "error",
                code=error.code,
                supported=read_supported(error.data),
                status=conversation.requests.last_status,
                detail=error.message,
            )

    # --- completion
    # -----------------------------------------------------------------------------------------------------------

    async def _initialized(
        self, conversation: Conversation, revision: Revision, declared: m.ClientCapabilities
    ) -> None:
        # Declared capabilities stay declared, also with an older revision.
        self._establish(conversation, revision, declared)
        conversation.notify("notifications/initialized", m.NotificationParams())
        # It must be sent first, but a server that does not acknowledge it must not block.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.discovery_timeout):
                await conversation.drain()

    def _settle(
        self,
        conversation: Conversation,
        revision: Revision,
        result: m.DiscoverResult | m.InitializeResult,
        declared: m.ClientCapabilities,
        server_info: m.Implementation | None,
    ) -> None:
        capabilities = m.ServerCapabilities(result.capabilities)
        self._settled = Established(
            conversation=conversation,
            revision=revision,
            capabilities=capabilities,
            server_info=server_info,
            instructions=None if result.instructions is UNSET else result.instructions,
            declared=declared,
            runs_once=capabilities.extension(IDEMPOTENCY_EXTENSION) is not None,
        )
        conversation.deadline = None
        tentative = self._tentative and not revision.modern
        found = CachedServer(revision.era, revision.name, self._transport, tentative)
        self._known.remember(self._key, found)

    async def discard(self) -> None:
        """Close the failed connection and its process."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.close()
            if conversation.link is not None:
                await self._opener.release(conversation.link)

    def _error(self, step: Step) -> DovetailError:
        """Return the error to raise: the original one if it explains the failure."""
        failure = self._refused or self._failure
        disagreed = failure is None or (type(failure) is ProtocolError and failure.code in _NOT_THIS)
        if step.action == "fail" and disagreed:
            return ProtocolError(
                "unsupported_protocol_version", f"{self._label}: {step.reason}{self._history(failure)}"
            )
        if failure is None:
            return TransportError(f"{self._label}: {step.reason}", cause="protocol")
        return self._with_history(failure)

    def _with_history(self, failure: DovetailError) -> DovetailError:
        """Add the outcome of the probe to ``failure``."""
        where = f"{self._label}: " if isinstance(failure, ProtocolError) else ""
        failure.message = f"{where}{failure.message}{self._history(failure)}"
        failure.args = (failure.message,)
        return failure

    def _history(self, failure: DovetailError | None) -> str:
        missed = self._missed
        if missed is None or missed is failure or _status(missed) == _status(failure) != 0:
            return ""
        if failure is not None and missed.message == failure.message:
            return ""
        return f" (before that, to server/discover: {missed.message})"

    def so_far(self) -> str:
        """Return what is known about a server that did not become ready in time."""
        known = self._failure or self._missed
        said = [] if known is None else [known.message]
        conversation = self._conversation
        if conversation is not None:
            unreadable = conversation.endpoint.violations.get("unreadable", 0)
            if unreadable:
                said.append(f"it sent {unreadable} invalid messages")
            process = None if conversation.link is None else conversation.link.process
            if process is not None and (tail := process.stderr_tail.strip()):
                said.append(f"the end of its stderr: {tail[-MAX_STDERR_SHOWN:]}")
        return "; ".join(said)


def _status(error: DovetailError | None) -> int:
    return error.status if isinstance(error, StatusError) else 0


def _implementation(value: Any) -> m.Implementation | None:
    try:
        return msgspec.convert(value, m.Implementation)
    except msgspec.ValidationError:
        return None
