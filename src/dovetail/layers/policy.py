"""`Policy`: what operators allow, whatever the author wrote.

```python
Policy(disabled=["drop_table"], allow=["cart_*", "fetch"], approve=["pay"], arguments={"fetch": {"url": "https://.+"}})
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ..core.channel import Call, Channel, ChannelAround
from ..drivers.layering import Layer, Respond
from ..errors import ProtocolError
from ..server import Elicit, Server
from ..server.asking.ask import Asking, asking_for
from ..settings import NAME_ECHO
from .log import arguments_of
from .redaction import one_line, redacted

APPROVAL = "dovetail.approval"
"""The key of the question whether a call is approved."""


def _names(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):  # its letters would be the names
        raise TypeError(f"a list of names is wanted, not the text {given!r}")
    return tuple(given)


class Policy(Layer):
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
        self._disabled, self._approve = _names(disabled), _names(approve)
        self._allow = None if allow is None else _names(allow)
        self._arguments = {
            tool: {name: re.compile(pattern) for name, pattern in patterns.items()}
            for tool, patterns in (arguments or {}).items()
        }
        self._server: Server | None = None
        self.refused = 0

    def attach(self, service: Any) -> None:
        if isinstance(service, Server):
            self._server = service
        elif self._approve:
            raise ValueError("approve= asks the user of a client: it belongs to a server")

    async def call_tool(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        problem = self._problem(call)
        if problem is not None:
            self.refused += 1
            raise problem
        server = self._server
        if server is not None and self._approve and _named(call.params.name, self._approve):
            asking = asking_for(server, call, channel)
            asked = await self._approved(call, asking)
            if asked is not None:
                return asked
            # What the handler asks belongs to the same rounds: else the approval would be asked for again.
            channel = ChannelAround(channel, asking)
        return await proceed(call, channel)

    async def list_tools(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """What nobody may call is not in the list."""
        page: Any = await proceed(call, channel)
        if not self._disabled and self._allow is None:
            return page
        if isinstance(page, Raw):
            members = msgspec.json.decode(page)
            members["tools"] = [one for one in members["tools"] if self._is_open(one["name"])]
            return Raw(msgspec.json.encode(members))
        page.tools = [one for one in page.tools if self._is_open(one.name)]
        return page

    def _is_open(self, name: str) -> bool:
        return not _named(name, self._disabled) and (self._allow is None or _named(name, self._allow))

    def _problem(self, call: Call) -> ProtocolError | None:
        name = call.params.name
        data = {"tool": name[:NAME_ECHO]}
        if _named(name, self._disabled):
            return ProtocolError("tool_disabled", data=data)
        if self._allow is not None and not _named(name, self._allow):
            return ProtocolError("tool_not_allowed", data=data)
        for tool, patterns in self._arguments.items():
            wrong = self._wrong(call, patterns) if fnmatchcase(name, tool) else None
            if wrong is not None:
                text = f"the argument {wrong!r} is not one this tool may be called with"
                return ProtocolError("tool_not_allowed", text, data={**data, "argument": wrong})
        return None

    @staticmethod
    def _wrong(call: Call, patterns: Mapping[str, re.Pattern[str]]) -> str | None:
        given: Any = arguments_of(call)
        members = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        for name, pattern in patterns.items():
            value: Any = members.get(name)
            text = value if isinstance(value, str) else None if value is None else one_line({"": value})[4:-1]
            if text is None or pattern.fullmatch(text) is None:
                return name
        return None

    async def _approved(self, call: Call, asking: Asking) -> Struct | None:
        """Ask the user. None: they agreed; a result: the question, to be answered with the next round.

        Raises:
            ProtocolError: they did not, or cannot be asked.
        """
        name = call.params.name
        given = arguments_of(call)
        what = "" if given is UNSET or not given else f" with {one_line(redacted(given))}"
        question: Elicit[Any] = Elicit(
            f"Allow the tool {name!r} to run{what}?", {"type": "object", "properties": {}}, key=APPROVAL
        )
        try:
            answer = await asking.ask_one(question)
        except BaseException:
            if asking.open:
                return asking.result()
            raise
        if answer.action == "accept":
            return None
        self.refused += 1
        raise ProtocolError(
            "tool_not_allowed", "the user did not approve this call", data={"tool": name[:NAME_ECHO]}
        )


def _named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
