"""`Policy`: rules of the operator about which tools may be called, and with which arguments.

```python
Policy(disabled=["drop_table"], allow=["cart_*", "fetch"], approve=["pay"], arguments={"fetch": {"url": "https://.+"}})
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, cast

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import ChannelWrapper
from ..drivers.middleware_chain import Component, Middleware, Next, Request
from ..errors import NAME_ECHO, ProtocolError, ToolError
from ..model import CallToolResult, TextContent
from ..server import Server
from ..server.confirmation import Confirmation
from ..server.input_requests.client_requests import Asking, asking_for
from ..settings import check_kinds
from ..settings.parameter_kinds import MAPPING, NAMES, or_none
from .sensitive_data import one_line, redacted

APPROVAL = "dovetail.approval"
"""The key of the elicitation request that approves a call."""


class Policy(Middleware):
    """Refuse tools that are switched off, not allowed, called with the wrong arguments, or not approved.

    Names may have wildcards (``cart_*``). ``disabled`` tools are refused as disabled (-32035 in erlmcp's dialect),
    tools not in ``allow`` as not allowed (1005; -32037). ``arguments`` are patterns by tool and argument: each argument
    named must be there and match as a whole. For ``approve`` the user is asked through elicitation before the tool
    runs; a client that cannot be asked is refused.
    """

    def __init__(
        self,
        *,
        disabled: Sequence[str] = (),
        allow: Sequence[str] | None = None,
        approve: Sequence[str] = (),
        arguments: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Set the rules. Tool names can contain wildcards (``cart_*``).

        Args:
            disabled: Tools that are switched off.
            allow: Tools that can be called; all others are refused. ``None``: all tools.
            approve: Tools that the user must approve, through an elicitation request, before each call.
            arguments: Regular expressions by tool and argument; each named argument must be present and match
                completely.
        """
        check_kinds(
            {
                "disabled": NAMES,
                "allow": or_none(NAMES),
                "approve": NAMES,
                "arguments": or_none(MAPPING),
            },
            locals(),
        )
        self._disabled, self._approve = tuple(disabled), tuple(approve)
        self._allow = None if allow is None else tuple(allow)
        self._arguments = {
            tool: {name: re.compile(pattern) for name, pattern in patterns.items()}
            for tool, patterns in (arguments or {}).items()
        }
        self._server: Server | None = None
        self.refused = 0

    guards_names = True

    def attach(self, service: Any) -> None:
        if isinstance(service, Server):
            self._server = service
        elif self._approve:
            raise ValueError("approve= needs a server: it sends an elicitation request to the client")

    def admits(self, component: Component) -> bool:
        if component.kind != "tool":
            return True
        disabled = component.is_named(partial(_named, patterns=self._disabled))
        return not disabled and (
            self._allow is None or component.is_named(partial(_named, patterns=self._allow))
        )

    async def call_tool(self, request: Request, call_next: Next) -> Struct | Raw:
        component = request.component
        problem = self._problem(request, component)
        if problem is not None:
            self.refused += 1
            raise problem
        server = self._server
        approve = self._approve and component.is_named(partial(_named, patterns=self._approve))
        if server is not None and approve and not (request.resumed or request.repeated):
            asking = asking_for(server.dispatcher, request.call, request.channel)
            asked = await self._approved(server, request, asking)
            if asked is not None:
                return asked
            # Input requests of the handler belong to the same rounds: otherwise the approval would be
            # requested again.
            request = replace(request, channel=ChannelWrapper(request.channel, asking))
        return await call_next(request)

    async def list_tools(self, request: Request, call_next: Next) -> Struct | Raw:
        """On a client: remove tools that may not be called from the list. A server uses `admits`."""
        page: Any = await call_next(request)
        if self._server is None:
            page.tools = [one for one in page.tools if self.admits(Component(one.name, "tool"))]
        return page

    def _problem(self, request: Request, component: Component) -> ProtocolError | None:
        data = {"tool": request.name[:NAME_ECHO]}
        if component.is_named(partial(_named, patterns=self._disabled)):
            return ProtocolError("tool_disabled", data=data)
        if self._allow is not None and not component.is_named(partial(_named, patterns=self._allow)):
            return ProtocolError("tool_not_allowed", data=data)
        for tool, patterns in self._arguments.items():
            named = component.is_named(partial(_named, patterns=(tool,)))
            wrong = self._wrong(request, patterns) if named else None
            if wrong is not None:
                text = f"the policy does not allow this value of the argument {wrong!r}"
                return ProtocolError("tool_not_allowed", text, data={**data, "argument": wrong})
        return None

    @staticmethod
    def _wrong(request: Request, patterns: Mapping[str, re.Pattern[str]]) -> str | None:
        given: Any = request.arguments
        members = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        for name, pattern in patterns.items():
            value: Any = members.get(name)
            text = value if isinstance(value, str) else None if value is None else one_line({"": value})[4:-1]
            if text is None or pattern.fullmatch(text) is None:
                return name
        return None

    async def _approved(self, server: Server, request: Request, asking: Asking) -> Struct | None:
        """Request approval. Return None if the user agreed, or the input request for the next round.

        Raises:
            ProtocolError: the user declined, or the client cannot be asked.
        """
        name, given = request.name, request.arguments
        what = "" if given is UNSET or not given else f" with {one_line(redacted(given))}"
        question = f"Allow the tool {name!r} to run{what}?"
        try:
            if await Confirmation(server, request.call, asking, question).ask(APPROVAL):
                return None
        except ToolError as error:  # it names the link that the user has to open
            return CallToolResult([TextContent(error.message)], is_error=True)
        except BaseException:
            if asking.open:
                return asking.result()
            raise
        self.refused += 1
        raise ProtocolError(
            "tool_not_allowed", "the user did not approve this call", data={"tool": name[:NAME_ECHO]}
        )


def _named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
