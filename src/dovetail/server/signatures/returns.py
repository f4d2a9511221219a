"""Converts return values to results. `docs/design/conversions.md` has the tables.

A string becomes text, content blocks stay as they are, and data becomes JSON. Wrong values raise `ReturnError`, which
tells the author what is wrong.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET

from ... import model as m
from ...json_schema.problem import Problem
from ...shapes import is_list, is_object
from ...wire.dialects.contents import LINK, LINK_TYPE
from ...wire.dialects.dialect import VENDOR
from ...wire.frames import encode as write_message
from ..media import Media
from . import validation_errors
from .functions import Function
from .outputs import Output, is_content
from .plain_types import UNWRITABLE, encode
from .validation_errors import ReturnError

JSON = "application/json"
TEXT = "text/plain"
BINARY = "application/octet-stream"
_ROLES = ("user", "assistant", "system")

R = TypeVar("R")


def tool_result(value: Any, function: Function) -> Any:
    """The result for a tool that returned ``value``; a complete result is returned unchanged.

    Raises:
        ReturnError: the value does not fit the declared output, or JSON cannot represent it.
    """
    output = function.output
    if not function.text:
        return _without_text(value, function)
    if output is None:
        if type(value) is str:
            if not value.isascii():
                writable(value, function.name)
            return m.CallToolResult([m.TextContent(value)])
        return _undeclared(value, function)
    if output.text and type(value) is str:
        if not value.isascii():
            writable(value, function.name)
        return m.CallToolResult([m.TextContent(value)], structured_content=value)
    return _declared(value, output)


def resource_contents(
    value: Any, uri: str, mime_type: str | None = None, *, json_mime_type: str = JSON
) -> list[m.ResourceContents]:
    """The contents of the resource ``uri``, from the return value of its function.

    ``mime_type`` is that of the registration; ``json_mime_type`` is the default for data.

    Raises:
        ReturnError: JSON cannot represent the value.
    """
    items = _items(value)
    several = any(
        isinstance(item, m.ResourceContents | m.ResourceLink | Media | bytes | bytearray) for item in items
    )
    return [_contents(item, uri, mime_type, json_mime_type) for item in (items if several else [value])]


def prompt_messages(value: Any, name: str = "prompt", *, bare: bool = False) -> list[m.PromptMessage]:
    """Convert the return value of a prompt to messages; with ``bare``, strings in dicts stay strings.

    Raises:
        ReturnError: (kind ``prompt_render_failed``) a dict is not a message, a role is invalid, or JSON cannot
        represent it.
    """
    several = isinstance(value, list | tuple)
    messages = [_message(item, name, bare=bare) for item in (_items(value) if several else [value])]
    if any(message.role not in _ROLES for message in messages):
        raise ReturnError(
            name, [Problem("role", f"must be one of {', '.join(_ROLES)}")], "prompt_render_failed"
        )
    return messages


def writable(value: R, name: str, kind: str | None = None) -> R:
    """Return ``value`` after a trial encoding, so that an object that JSON cannot represent is reported as the author's
    error.
    """
    try:
        write_message(value)
    except UNWRITABLE as error:
        raise ReturnError(name, [validation_errors.read(str(error), {})], kind) from error
    return value


def without_system(result: m.GetPromptResult) -> m.GetPromptResult:
    """The same prompt without the system role, for older peers: such messages become leading user messages."""
    if all(message.role != "system" for message in result.messages):
        return result
    first = [
        m.PromptMessage("user", message.content) for message in result.messages if message.role == "system"
    ]
    rest = [message for message in result.messages if message.role != "system"]
    return msgspec.structs.replace(result, messages=first + rest)


# Tools


def _without_text(value: Any, function: Function) -> Any:
    """The result of a tool registered with ``text=False``: only structured content, if there is any."""
    output = function.output
    result = _undeclared(value, function) if output is None else _declared(value, output)
    explicit = isinstance(value, m.Result) or (isinstance(value, tuple) and _content_and_data(value)[0])
    if not explicit and result.structured_content is not UNSET:
        result.content = []
    return result


def _declared(value: Any, output: Output) -> Any:
    if isinstance(value, m.Result):
        _check_result(value, output)
        return writable(value, output.name)
    content, data = _content_and_data(value) if isinstance(value, tuple) else (None, value)
    written = output.write(data)
    return m.CallToolResult(
        [m.TextContent(_text(written))] if content is None else writable(content, output.name),
        structured_content=msgspec.json.decode(written),
    )


def _check_result(result: m.Result, output: Output) -> None:
    if not isinstance(result, m.CallToolResult) or result.is_error is True:
        return
    if result.structured_content is UNSET:
        raise ReturnError(output.name, [Problem("", "its output schema requires structured content")])
    output.write(result.structured_content)


def _undeclared(value: Any, function: Function) -> Any:
    if value is None:
        return m.CallToolResult([])
    name = function.name
    if isinstance(value, m.Result):
        return writable(value, name)
    if is_content(value):
        return m.CallToolResult([writable(block(value), name)])
    content, data = _content_and_data(value)
    if content is not None:
        data = msgspec.json.decode(_write(data, name))
        return m.CallToolResult(writable(content, name), structured_content=data)
    if any(map(is_content, items := _items(value))):
        return m.CallToolResult(writable([_block_of(item, name) for item in items], name))
    written = _write(value, name)
    result = m.CallToolResult([m.TextContent(_text(written))])
    if function.structured and written[:1] == b"{":
        result.structured_content = msgspec.json.decode(written)
    return result


def _items(value: Any) -> Sequence[Any]:
    """The items of a list or tuple; none for any other value."""
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def _content_and_data(value: Any) -> tuple[list[m.ContentBlock] | None, Any]:
    """Split a return value: ``(blocks, data)`` has both; any other value is data."""
    if isinstance(value, tuple) and len(items := _items(value)) == 2:  # pyright: ignore[reportUnknownArgumentType]
        first, data = items
        blocks: list[Any] = first if is_list(first) else [first]
        if blocks and all(map(is_content, blocks)) and not is_content(data) and not isinstance(data, str):
            return [block(one) for one in blocks], data
    return None, cast("Any", value)


def block(value: Any) -> m.ContentBlock:
    """Convert a value to a content block."""
    if isinstance(value, Media):
        return value.content()
    if isinstance(value, m.ResourceContents):
        return m.EmbeddedResource(value)
    return value


def _block_of(value: Any, name: str) -> m.ContentBlock:
    """The content block of one item in a mixed list."""
    if isinstance(value, str):
        return m.TextContent(value)
    return block(value) if is_content(value) else m.TextContent(_text(_write(value, name)))


# Resources


def _contents(value: Any, uri: str, mime_type: str | None, json_mime_type: str) -> m.ResourceContents:
    if isinstance(value, str):
        text = value if value.isascii() else writable(value, uri, "internal_error")
        return m.ResourceContents(uri, mime_type=mime_type or TEXT, text=text)
    if isinstance(value, bytes | bytearray):
        return m.ResourceContents(uri, mime_type=mime_type or BINARY, blob=b64encode(value).decode("ascii"))
    if isinstance(value, m.ResourceContents):
        return writable(value, uri, "internal_error")
    if isinstance(value, m.EmbeddedResource):
        return writable(value.resource, uri, "internal_error")
    if isinstance(value, m.ResourceLink):
        link = msgspec.to_builtins(writable(value, uri, "internal_error"))
        del link["type"]
        return m.ResourceContents(uri, mime_type=LINK_TYPE, text=value.uri, meta={VENDOR + LINK: link})
    if isinstance(value, Media):
        contents = value.contents(uri)
        contents.mime_type = mime_type or contents.mime_type
        return contents
    text = msgspec.json.format(_write(value, uri, "internal_error"), indent=2).decode()
    return m.ResourceContents(uri, mime_type=mime_type or json_mime_type, text=text)


# Prompts


def _message(value: Any, name: str, *, bare: bool) -> m.PromptMessage:
    if isinstance(value, str):
        return m.PromptMessage("user", m.TextContent(value))
    if isinstance(value, m.PromptMessage):
        content: Any = value.content
        if isinstance(content, str | Media | m.ResourceContents):
            return m.PromptMessage(value.role, _block_of(content, name))
        return value
    if is_content(value):
        return m.PromptMessage("user", block(value))
    if isinstance(value, dict):
        return _message_of(cast("dict[str, Any]", value), name, bare=bare)
    return m.PromptMessage("user", m.TextContent(_text(_write(value, name, "prompt_render_failed"))))


def _message_of(value: dict[str, Any], name: str, *, bare: bool) -> m.PromptMessage:
    """Convert a dict to a message; its content may be a string or any block, its annotations apply to the content."""
    content: Any = value.get("content")
    if isinstance(content, str):
        content = m.TextContent(content, meta={VENDOR + "bare": True} if bare else UNSET)
    if is_content(content):
        content = msgspec.to_builtins(block(content))
    if "annotations" in value and is_object(content):
        content = {"annotations": value["annotations"], **content}
    try:
        return msgspec.convert({**value, "content": content}, m.PromptMessage)
    except msgspec.ValidationError as error:
        raise ReturnError(name, [validation_errors.read(str(error), {})], "prompt_render_failed") from error


# JSON


def _write(value: Any, name: str, kind: str | None = None) -> bytes:
    try:
        return encode(value)
    except UNWRITABLE as error:
        raise ReturnError(name, [validation_errors.read(str(error), {})], kind) from error


def _text(written: bytes) -> str:
    """JSON as text; a string is shown without quotes."""
    return msgspec.json.decode(written, type=str) if written[:1] == b'"' else written.decode()
