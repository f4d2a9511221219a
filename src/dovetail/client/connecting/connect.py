"""One attempt to connect: do what `negotiate` decides until the era and revision of the server are settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct

from ... import model as m
from ...core.channel import LAST_WORDS
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
"""No ladder has more rungs; a decision that loops ends here."""

log = logging.getLogger("dovetail.client")

NOT_SENT = frozenset({"refused", "unresolved", "tls", "proxy", "session", "redirect"})
"""Causes that prove that the server never took the request up."""
_NOT_THIS = frozenset({UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST})
"""Codes with which servers refuse an `initialize` whose revision they do not speak; others mean what they say."""


class Established(Struct, eq=False, kw_only=True):
    """A connection that is ready for use, and what the server said about itself."""

    conversation: Conversation
    revision: Revision
    capabilities: m.ServerCapabilities
    server_info: m.Implementation | None
    instructions: str | None
    declared: m.ClientCapabilities
    """What we told the server that we can do."""
    offered: set[str] = set()
    """Methods that were found to be offered, so that each is looked up once."""
    runs_once: bool = False
    """The server runs a call with an idempotency key once, however often it is sent."""


class Attempt:
    """Connect once. Run it, use what it returns, make another one for the next try."""

    def __init__(self, connections: Connections, machine: ConnectionMachine) -> None:
        self._connections = connections
        self._config = config = connections.config
        self._policy = config.policy
        self._opener = connections.opener
        self._machine = machine
        self._known = config.server_cache
        # A client that may not speak modern learns nothing that holds for one that may.
        key = config.target.key
        self._key = key if key is None or config.policy.modern else f"{key} legacy"
        self._label = config.target.label
        self._conversation: Conversation | None = None
        self._transport = "streamable" if self._opener.http else "stream"
        self._tried: list[str] = []
        self._reprobed = False
        self._respawned = False
        self._failure: DovetailError | None = None
        """The last failure, and the one to report when the ladder ends."""
        self._refused: StatusError | None = None
        """A 401 or 403 to the probe: reported when the fallback fails too."""
        self._missed: DovetailError | None = None
        """What became of the probe, when it was not answered with a verdict."""
        self._tentative = False
        self._deadline: asyncio.Timeout | None = None

    async def run(self, deadline: asyncio.Timeout) -> Established:
        """Connect and negotiate; ``deadline`` is put off while a user logs in. Whatever it raises, `discard` it then.

        Raises:
            TransportError: the server cannot be reached, or not now.
            ProtocolError: it can, and we do not understand each other.
        """
        remembered = self._known.get(self._key)
        self._deadline = deadline
        try:
            return await self._climb(remembered)
        except (ProtocolError, StatusError):
            if remembered is None:
                raise
            # What we remembered is out of date: ask again from the beginning.
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
        # A plain refusal is what legacy servers are expected to say.
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
        """How long to wait for `initialize`: a process that the probe left deaf must leave time for another."""
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
            # Neither transport answers: what `initialize` was told says more about why.
            raise self._with_history(self._refused or failure or error) from error
        return Step("initialize", self._policy.proposal)

    async def _respawn(self) -> bool:
        """Another process for the one that was lost to a question; once, and never over HTTP."""
        if self._respawned or self._opener.http:
            return False
        self._respawned = True
        if self._conversation is not None and self._conversation.link is not None:
            self._conversation.link.abort()  # it does not listen: asking it to end would take what time is left
        await self.discard()
        return True

    # --- asking ---------------------------------------------------------------------------------------------------

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
        """From here on, say everything in ``revision``."""
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
        """The result, or the `Outcome` that says what came in its place."""
        self._failure = None
        try:
            # An idle limit, which stands still while a user logs in.
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
            # An answer nobody can read is not an error of the server's own making.
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

    # --- the end of the ladder ------------------------------------------------------------------------------------

    async def _initialized(
        self, conversation: Conversation, revision: Revision, declared: m.ClientCapabilities
    ) -> None:
        # What we declared stays declared, whatever older revision was agreed on.
        self._establish(conversation, revision, declared)
        conversation.notify("notifications/initialized", m.NotificationParams())
        # Nothing may overtake it; but a server that never says that it got it must not hold us up.
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
        """Let go of the connection that was not made, and of the process behind it."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.close()
            if conversation.link is not None:
                await self._opener.release(conversation.link)

    def _error(self, step: Step) -> DovetailError:
        """The failure to raise: the original one where it says what happened, ours where we decided."""
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
        """``failure`` with what became of the probe, which may be the better clue."""
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
        """What is known about a server that did not get ready in time."""
        known = self._failure or self._missed
        said = [] if known is None else [known.message]
        conversation = self._conversation
        if conversation is not None:
            unreadable = conversation.endpoint.violations.get("unreadable", 0)
            if unreadable:
                said.append(f"it sent {unreadable} messages that are none")
            process = None if conversation.link is None else conversation.link.process
            if process is not None and (tail := process.stderr_tail.strip()):
                said.append(f"its last words: {tail[-LAST_WORDS:]}")
        return "; ".join(said)


def _status(error: DovetailError | None) -> int:
    return error.status if isinstance(error, StatusError) else 0


def _implementation(value: Any) -> m.Implementation | None:
    try:
        return msgspec.convert(value, m.Implementation)
    except msgspec.ValidationError:
        return None
