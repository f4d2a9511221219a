"""What handlers raise, catch or return when they ask the client: small, because every server loads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...errors import CapabilityError, ProtocolError
from ...model import InputRequest, Result


class InputNotSupported(CapabilityError):
    """The client did not declare the capability that an input request needs."""


class InputRejected(ProtocolError):
    """The client answered an input request with an error: the user refused, or the client failed."""


class InputRequired(Result):
    """Returned by a handler that manages the rounds itself, instead of ``await ctx.elicit(…)``.

    ``requests`` are input requests by key: ``Elicit(…)``, ``Sample(…)``, or dictionaries as on the wire. The client
    answers all of them. Then the handler runs again. It finds the answers, as plain dictionaries, in
    ``ctx.input_responses`` under the same keys, and ``state`` in ``ctx.request_state``.
    """

    requests: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    state: Any = None

    def __post_init__(self) -> None:
        self.requests = {key: _request(request) for key, request in self.requests.items()}


def _request(request: Any) -> InputRequest:
    from .request_kinds import Question  # loaded with the first question

    if isinstance(request, Question):
        return request.request
    if isinstance(request, Mapping):
        return msgspec.convert(request, InputRequest)
    return request
