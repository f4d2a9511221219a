"""Input requests that a handler can send, and the decoded answers.

A `Question` has its request and decodes the result. `client_requests` sends it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypedDict, TypeVar, Unpack

import msgspec
from msgspec import UNSET

from ... import model as m
from ...core.input_request_checks import broken_tool_loop
from ...core.input_rounds import PreparedInput, prepare_input
from ...errors import RemoteProtocolError
from ...wire.fallback_decoding import explain
from .elicitation_forms import FORMS_KEPT, Form, form_of

QUESTION_LENGTH: Final = 1024
"""Characters of an elicitation message up to which its form is cached."""


SAMPLE_TOKENS: Final = 1024
"""The default of ``max_tokens`` for sampling."""

A = TypeVar("A", covariant=True)
T = TypeVar("T")

Messages = str | m.SamplingMessage | Mapping[str, Any] | Sequence[str | m.SamplingMessage | Mapping[str, Any]]
Preferences = m.ModelPreferences | Mapping[str, Any] | str | Sequence[str]


class Accepted(Generic[T]):
    """The user accepted; ``data`` has the values of the form."""

    __slots__ = ("data",)
    action: Literal["accept"] = "accept"

    def __init__(self, data: T) -> None:
        self.data = data

    def __repr__(self) -> str:
        return f"Accepted({self.data!r})"


class Declined:
    """The user did not accept: ``action`` is "decline" (an explicit no) or "cancel" (dismissed without an answer)."""

    __slots__ = ("action",)
    data: ClassVar[None] = None

    def __init__(self, action: Literal["decline", "cancel"]) -> None:
        self.action: Literal["decline", "cancel"] = action

    def __repr__(self) -> str:
        return f"Declined({self.action!r})"


class Sampled:
    """The result of sampling. ``content`` is always a list of blocks; ``text`` joins the text blocks."""

    __slots__ = ("content", "model", "role", "stop_reason")

    def __init__(self, result: m.CreateMessageResult) -> None:
        content = result.content
        self.content: list[m.SamplingMessageContentBlock] = (
            content if isinstance(content, list) else [content]
        )
        self.model = result.model
        self.role = result.role
        self.stop_reason: str | None = None if result.stop_reason is UNSET else result.stop_reason

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, m.TextContent))

    def __repr__(self) -> str:
        return f"Sampled({self.text!r}, model={self.model!r}, stop_reason={self.stop_reason!r})"


class Question(Generic[A]):
    """One input request. Two with the same ``key`` in one call are the same request."""

    method: str

    def __init__(self, request: m.InputRequest, key: str | None) -> None:
        self.put: PreparedInput = prepare_input(request)
        self.key = key

    @property
    def request(self) -> m.InputRequest:
        return self.put.request

    def rewritten(self, rewrite: Callable[[Any], Any]) -> Self:
        """A copy of this request with other params."""
        changed, request = copy.copy(self), self.put.request
        changed.put = prepare_input(msgspec.structs.replace(request, params=rewrite(request.params)))
        return changed

    def read(self, result: Any) -> A:
        """Convert the decoded ``result`` for the handler.

        Raises:
            RemoteProtocolError: of kind ``invalid_params``; the answer does not fit the request.
        """
        raise NotImplementedError


class Elicit(Question["Accepted[T] | Declined"], Generic[T]):
    """Ask the user to fill in a form: a flat type, a JSON Schema, a list of choices, or None for consent."""

    method = "elicitation/create"

    def __init__(self, message: str, schema: type[T] | Any = None, *, key: str | None = None) -> None:
        # A handler that runs again sends the same form again: cache it.
        usual = isinstance(schema, type) and type(message) is str and len(message) <= QUESTION_LENGTH
        self._form: Form
        self._form, self.put = (_made_once if usual else _made)(message, schema)
        self.key = key

    def read(self, result: m.ElicitResult) -> Accepted[T] | Declined:
        if result.action != "accept":
            return Declined(result.action)
        content = {} if isinstance(result.content, msgspec.UnsetType) else result.content
        try:
            return Accepted(self._form.read(content))
        except (ValueError, TypeError) as error:
            raise unfitting(self.method, error) from None


def _made(message: str, schema: Any) -> tuple[Form, PreparedInput]:
    form = form_of(schema)
    return form, prepare_input(m.ElicitRequest(m.ElicitRequestParams(message, requested_schema=form.schema)))


_made_once = functools.lru_cache(maxsize=FORMS_KEPT)(_made)


class ElicitUrl(Question["Accepted[None] | Declined"]):
    """Ask the user to visit a URL: for secrets, payments, or consent on another site."""

    method = "elicitation/create"

    def __init__(self, message: str, url: str, *, key: str | None = None) -> None:
        params = m.ElicitRequestParams(message=message, mode="url", url=url)
        super().__init__(m.ElicitRequest(params), key)

    def read(self, result: m.ElicitResult) -> Accepted[None] | Declined:
        return Accepted(None) if result.action == "accept" else Declined(result.action)


class SampleOptions(TypedDict, total=False):
    """Options of `Sample` and of ``ctx.sample``; options that are None are not sent."""

    max_tokens: int
    """The maximum number of tokens of the answer; 1024 by default."""
    system: str | None
    """The system prompt."""
    temperature: float | None
    """The randomness of the model."""
    tools: Sequence[m.Tool | Mapping[str, Any]] | None
    """Tools that the model can call."""
    tool_choice: Literal["auto", "required", "none"] | None
    """Whether the model can, must or must not call a tool."""
    model_preferences: Preferences | None
    """The preferred models: a name, a list of names, or `ModelPreferences`; the client decides."""
    stop_sequences: Sequence[str] | None
    """Texts that end the answer."""
    include_context: Literal["none", "thisServer", "allServers"] | None
    """The context that the client adds to the messages."""
    metadata: Mapping[str, Any] | None
    """Options of the model's provider."""
    key: str | None
    """The key that identifies the request when the handler runs again; by default its position."""


class Sample(Question[Sampled]):
    """Request a completion from the client's model."""

    method = "sampling/createMessage"

    def __init__(self, messages: Messages, **options: Unpack[SampleOptions]) -> None:
        unknown = options.keys() - SampleOptions.__annotations__
        if unknown:
            raise TypeError(f"Sample takes no option {', '.join(sorted(unknown))}")
        given: dict[str, Any] = {"max_tokens": SAMPLE_TOKENS, **options}
        key = given.pop("key", None)
        params = m.CreateMessageRequestParams(
            messages=_messages(messages), max_tokens=given.pop("max_tokens")
        )
        if (fault := broken_tool_loop(params.messages)) is not None:
            raise ValueError(f"these messages cannot be sent: {fault}")
        for name, value in given.items():
            if value is not None:
                member, convert = _MEMBERS.get(name, (name, None))
                setattr(params, member, value if convert is None else convert(value))
        super().__init__(m.CreateMessageRequest(params), key)

    def read(self, result: m.CreateMessageResult) -> Sampled:
        return Sampled(result)


class Roots(Question[list[m.Root]]):
    """Request the folders that the client exposes as roots."""

    method = "roots/list"

    def __init__(self, *, key: str | None = None) -> None:
        super().__init__(m.ListRootsRequest(), key)

    def read(self, result: m.ListRootsResult) -> list[m.Root]:
        return result.roots


def unfitting(method: str, error: Exception) -> RemoteProtocolError:
    """The error for an answer of the wrong type. It names the location, never the value."""
    # The message of pydantic repeats the input after its first line. msgspec does so for enumerations.
    text = explain(error) if isinstance(error, msgspec.ValidationError) else str(error)
    reason = text.splitlines()[0] if text else type(error).__name__
    return RemoteProtocolError("invalid_params", f"the response to {method} is not valid: {reason}")


def _messages(messages: Messages) -> list[m.SamplingMessage]:
    if isinstance(messages, str | m.SamplingMessage | Mapping):
        messages = [messages]
    return [_message(message) for message in messages]


def _message(message: str | m.SamplingMessage | Mapping[str, Any]) -> m.SamplingMessage:
    if isinstance(message, str):
        return m.SamplingMessage(role="user", content=m.TextContent(message))
    if isinstance(message, m.SamplingMessage):
        return message
    if isinstance(message.get("content"), str):
        return m.SamplingMessage(role=message["role"], content=m.TextContent(message["content"]))
    return msgspec.convert(message, m.SamplingMessage)


def _preferences(preferences: Preferences) -> m.ModelPreferences:
    if isinstance(preferences, m.ModelPreferences):
        return preferences
    if isinstance(preferences, Mapping):
        return msgspec.convert(preferences, m.ModelPreferences)
    names = [preferences] if isinstance(preferences, str) else preferences
    return m.ModelPreferences(hints=[m.ModelHint(name=name) for name in names])


_MEMBERS: Final[dict[str, tuple[str, Callable[[Any], Any] | None]]] = {
    "system": ("system_prompt", None),
    "tools": ("tools", lambda tools: msgspec.convert(list(tools), list[m.Tool])),
    "tool_choice": ("tool_choice", lambda mode: m.ToolChoice(mode=mode)),
    "model_preferences": ("model_preferences", _preferences),
    "stop_sequences": ("stop_sequences", list),
    "metadata": ("metadata", dict),
}
"""Options whose names differ in the protocol."""
