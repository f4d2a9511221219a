"""Answering what runs an author's code: ``tools/call``, ``prompts/get``, ``resources/read`` and own methods.

Each has one exception boundary, and nothing leaves it but results and `DovetailError`s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec import UNSET, Raw, Struct

from .. import model as m
from ..core.channel import Call, Channel
from ..core.principal import Principal
from ..core.rights import at, hidden
from ..errors import NAME_ECHO, URI_ECHO, ProtocolError
from ..middleware.health import Health
from ..settings import Limits
from ..wire.dialects import Dialect
from . import current_call
from .composition import Composition
from .context import Context
from .execution import Lifespan, resumed
from .failures import Failures, unreadable
from .input_requests.client_requests import InputRequired, asking_for
from .registry.component_tables import Register, Registered, RegisteredResource
from .registry.custom_methods import RegisteredMethod
from .registry.uri_checks import not_there
from .signatures.returns import prompt_messages, resource_contents, tool_result, without_system, writable

if TYPE_CHECKING:
    from .pipeline import Pipeline
    from .protocol_methods import Handler
    from .server import Server


class Answering:
    """The part of a `Server` that runs handlers."""

    register: Register
    dialect: Dialect
    health: Health
    limits: Limits
    composition: Composition | None
    methods: dict[str, Handler]
    pipeline: Pipeline
    _lifespan: Lifespan | None

    def __init__(
        self, page_size: int | None, ttl_ms: int, cache_scope: m.CacheScope, *, mask_errors: bool
    ) -> None:
        if page_size is not None and page_size < 1:
            raise ValueError(f"a page has 1 entry or more, not {page_size}")
        if ttl_ms < 0 or cache_scope not in ("public", "private"):
            raise ValueError(
                f"what is kept is kept for 0 ms or more, public or private: not {ttl_ms}, {cache_scope!r}"
            )
        self.page_size = page_size or self.limits.page_size
        self.ttl_ms = ttl_ms
        self.cache_scope: m.CacheScope = cache_scope
        self.failures = Failures(mask=mask_errors)
        self.json_mime_type = "text/plain" if self.dialect.json_as_plain_text else "application/json"

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        """Answer one admitted call: await it. Raises only `DovetailError`s (and lets cancellation through)."""
        enter, session, lifespan = self.pipeline.enter, call.session, self._lifespan
        monitor = self.health.monitor
        if monitor.asleep:
            monitor.wake()
        if (session is not None and session.phase == "paused") or (
            lifespan is not None and not lifespan.running
        ):
            return self._respond(call, channel)
        if enter is not None:
            return enter(call, channel)
        handler = self.methods.get(call.method)
        if handler is None:
            return self._respond(call, channel)
        return handler(call, channel)  # nearly every call: no coroutine stands between

    async def _respond(self, call: Call, channel: Channel) -> Struct | Raw:
        """`respond` where something may come first."""
        if self._lifespan is not None and not self._lifespan.running:
            await cast("Server", self).start()
        session = call.session
        if session is not None and session.phase == "paused" and call.method != "ping":
            await resumed(session)
        if self.pipeline.enter is not None:
            return await self.pipeline.enter(call, channel)
        return await self.find_handler(call.method)(call, channel)

    def find_handler(self, method: str) -> Handler:
        """What answers requests for ``method``.

        Raises:
            ProtocolError: nothing does.
        """
        handler = self.methods.get(method)
        if handler is None:
            raise ProtocolError("method_not_found", data={"method": method})
        return handler

    async def call_tool(self, call: Call, channel: Channel) -> Struct | Raw:
        """``tools/call``: every way it can end is a result or a `DovetailError`."""
        params = call.params
        tool = self.register.tools.entries.get(params.name)
        if tool is None or (tool.rights and hidden(tool.rights, call.principal)):
            return await self._elsewhere(call, channel, "tool")
        function = tool.function
        try:
            if tool.context_parameter is None and params.request_state is UNSET and not current_call.wanted:
                value = await tool.call(**function.decode(params.arguments))
                return _needs_context() if type(value) is InputRequired else tool_result(value, function)
            # From here on the handler may ask, or claims to have asked.
            value = await self._converse(tool, partial(function.decode, params.arguments), call, channel)
            return value if type(value) is m.InputRequiredResult else tool_result(value, function)
        except BaseException as error:  # noqa: BLE001  the one boundary for tools
            return self.failures.of_tool(error, tool.name, call)

    async def get_prompt(self, call: Call, channel: Channel) -> Struct | Raw:
        """``prompts/get``."""
        params = call.params
        prompt = self.register.prompts.entries.get(params.name)
        if prompt is None or (prompt.rights and hidden(prompt.rights, call.principal)):
            return await self._elsewhere(call, channel, "prompt")
        try:
            value = await self._converse(
                prompt, partial(prompt.function.decode, params.arguments), call, channel
            )
            if type(value) is m.InputRequiredResult:
                return value
            keeps_system = call.codec.dialect.system_role and not call.revision.modern
            if not isinstance(value, m.GetPromptResult):
                messages = prompt_messages(value, prompt.name, bare=keeps_system)
                value = m.GetPromptResult(messages, description=prompt.definition.description)
            writable(value, prompt.name, "prompt_render_failed")
            return value if keeps_system else without_system(value)
        except BaseException as error:  # noqa: BLE001  the one boundary for prompts
            self.failures.raise_other(
                error, f"prompt {prompt.name!r}", call, {"prompt": prompt.name}, "prompt_render_failed"
            )

    async def _elsewhere(self, call: Call, channel: Channel, what: str) -> Struct | Raw:
        """Have it answered by whoever is mounted here and has it.

        Raises:
            ProtocolError: nobody has it.
        """
        found = None if self.composition is None else await self.composition.respond(call, channel)
        if found is None:
            name = call.params.name[:NAME_ECHO]
            raise ProtocolError(f"{what}_not_found", f"Unknown {what}: {name}", data={what: name})
        return found

    async def read(self, call: Call, channel: Channel) -> Struct | Raw:
        """``resources/read``."""
        uri = call.params.uri
        if self.composition is not None and self.register.find_resource(uri) is None:
            found = await self.composition.respond(call, channel)
            if found is not None:
                return found
        entry, arguments = self._find(uri, call.principal)
        try:
            value = await self._converse(entry, arguments.copy, call, channel)
            if type(value) is m.InputRequiredResult:
                return value
            return self._contents(entry, uri, value)
        except BaseException as error:  # noqa: BLE001  the one boundary for resources
            kind = unreadable(
                error, "internal_error" if entry.function.template is None else "template_render_failed"
            )
            self.failures.raise_other(error, f"resource {entry.name!r}", call, {"uri": uri[:URI_ECHO]}, kind)

    async def run_method(self, method: RegisteredMethod, call: Call, channel: Channel) -> Struct | Raw:
        """A method of the author's own."""
        if method.rights and hidden(method.rights, call.principal):
            raise ProtocolError("method_not_found", data={"method": call.method})
        function = method.function
        try:
            value = await self._converse(method, function.keywords(call.params), call, channel)
            if isinstance(value, m.Result):
                return writable(value, method.name, "internal_error")
            members: dict[str, Any] = {**function.write(value)}
            if method.row.cacheable and call.revision.modern:
                members = {"ttlMs": self.ttl_ms, "cacheScope": self.cache_scope, **members}
            return call.codec.prepare(members)
        except BaseException as error:  # noqa: BLE001  the one boundary for methods of the author's own
            what = f"method {method.name!r}"
            self.failures.raise_other(error, what, call, {"method": method.name})

    async def read_resource(self, uri: str, context: Context) -> list[m.ResourceContents]:
        """Read a resource on behalf of the handler that has ``context``.

        Raises:
            ProtocolError: of kind ``resource_not_found``, or of another that says what is wrong with ``uri``. What
                the reader raises comes out as it is.
        """
        entry, arguments = self._find(uri, context.principal)
        parameter = entry.context_parameter
        if parameter is not None:
            arguments[parameter] = context
        return self._contents(entry, uri, await entry.call(**arguments)).contents

    def _find(self, uri: str, principal: Principal | None) -> tuple[RegisteredResource, dict[str, Any]]:
        found = self.register.find_resource(uri)
        if found is None or (found[0].rights and hidden(at(found[0].rights, uri, found[1]), principal)):
            raise not_there(uri, self.limits.max_uri_length)
        return found

    def _contents(self, entry: RegisteredResource, uri: str, value: Any) -> m.ReadResourceResult:
        if isinstance(value, m.ReadResourceResult):
            result = writable(value, uri, "internal_error")
        else:
            result = m.ReadResourceResult(
                resource_contents(value, uri, entry.mime_type, json_mime_type=self.json_mime_type)
            )
        if result.ttl_ms is UNSET:
            result.ttl_ms = self.ttl_ms if entry.ttl_ms is None else entry.ttl_ms
        if result.cache_scope is UNSET:
            result.cache_scope = entry.cache_scope or self.cache_scope
        if entry.rights:
            result.cache_scope = "private"
        return result

    async def _converse(
        self, entry: Registered, decode: Callable[[], dict[str, Any]], call: Call, channel: Channel
    ) -> Any:
        """Run a handler that may ask: its value, or the `InputRequiredResult` that asks."""
        parameter = entry.context_parameter
        if parameter is None and call.params.request_state is UNSET and not current_call.wanted:
            value = await entry.call(**decode())
            return _needs_context() if type(value) is InputRequired else value
        server: Any = self
        asking = asking_for(server, call, channel)
        context = Context(server, call, channel, asking)
        before = current_call.context.set(context) if current_call.wanted else None
        try:
            while True:
                arguments = decode()
                if parameter is not None:
                    arguments[parameter] = context
                try:
                    value = await entry.call(**arguments)
                except asyncio.CancelledError:
                    raise
                except BaseException:
                    # With questions open, what the handler made of it does not count.
                    if not asking.open or call.client_cancelled:
                        raise
                    return asking.result()
                if asking.open:
                    return asking.result()
                if type(value) is not InputRequired:
                    return value
                required = await asking.take(value)
                if required is not None:
                    return required
        finally:
            context.close()
            if before is not None:
                current_call.context.reset(before)

    def context(self, call: Call, channel: Channel) -> Context:
        """A context for ``call``, for handlers of methods added with `add_method`."""
        server = cast("Server", self)
        return Context(server, call, channel, asking_for(server, call, channel))


def _needs_context() -> NoReturn:
    raise TypeError("a handler that returns InputRequired needs a Context, to read the answers from")
