"""Conversion of content, definitions and input requests to older revisions, and refusal where that is
impossible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

from msgspec import UNSET
from msgspec.structs import replace

from ... import model as m
from ...errors import LocalProtocolError

Schema = dict[str, Any]


def refuse(message: str, kind: str = "internal_error") -> Callable[[Any], NoReturn]:
    """Return an edit that refuses a value without an older form."""

    def convert(value: Any) -> NoReturn:
        raise LocalProtocolError(kind, message)

    return convert


def audio_to_resource(block: m.AudioContent) -> m.EmbeddedResource:
    """Convert audio to the blob of an embedded resource, which every revision has."""
    contents = m.ResourceContents("embedded:audio", mime_type=block.mime_type, blob=block.data)
    return m.EmbeddedResource(contents, annotations=block.annotations)


def audio_message_to_text(value: m.SamplingMessage | m.CreateMessageResult) -> Any:
    """Replace audio with a text note: sampling has no embedded resources."""
    content = value.content
    if isinstance(content, m.AudioContent):
        return replace(value, content=m.TextContent(f"[audio: {content.mime_type}]"))
    return value


def link_to_text(block: m.ResourceLink) -> m.TextContent:
    """Convert a link to text, so that the model can still name the resource."""
    name = block.name if block.title is UNSET else block.title
    return m.TextContent(f"{name} ({block.uri})", annotations=block.annotations)


def title_to_annotations(tool: m.Tool) -> m.Tool:
    """Move the title of a tool to its annotations, where older revisions have it."""
    if tool.title is UNSET:
        return tool
    annotations = {} if tool.annotations is UNSET else tool.annotations
    return replace(tool, annotations={"title": tool.title, **annotations})


def without_last_modified(value: Any) -> Any:
    """Remove ``lastModified``, an annotation of later revisions."""
    annotations = value.annotations
    if annotations is UNSET or "lastModified" not in annotations:
        return value
    others = {name: hint for name, hint in annotations.items() if name != "lastModified"}
    return replace(value, annotations=others or UNSET)


# --- input requests, on the two legacy revisions that have them ---------------------------------------------


def with_elicitation_id(params: m.ElicitRequestParams) -> m.ElicitRequestParams:
    """Add the id that 2025-11-25 requires in URL elicitation.

    Set one yourself to announce its completion later.
    """
    if params.mode == "url" and params.elicitation_id is UNSET:
        import secrets  # imported late because it loads slowly

        return replace(params, elicitation_id=secrets.token_urlsafe(16))
    return params


def plain_form(params: m.ElicitRequestParams) -> m.ElicitRequestParams:
    """Convert a form to 2025-06-18: titled choices become ``enum`` with ``enumNames``.

    Raises:
        LocalProtocolError: (``capability_not_supported``) URL elicitation and multiple choice do not exist
            there.
    """
    if params.mode == "url":
        raise LocalProtocolError(
            "capability_not_supported", "URL elicitation requires revision 2025-11-25 or later"
        )
    if params.requested_schema is UNSET:
        return params
    properties = params.requested_schema.get("properties")
    if not isinstance(properties, dict):
        return params
    plain = {name: _plain_field(name, field) for name, field in cast("Schema", properties).items()}
    if plain == properties:
        return params
    return replace(params, requested_schema={**params.requested_schema, "properties": plain})


def _plain_field(name: str, field: Any) -> Any:
    if not isinstance(field, dict):
        return field
    schema = cast("Schema", field)
    if schema.get("type") == "array":
        raise LocalProtocolError(
            "capability_not_supported",
            f"form field {name!r}: multiple choice requires revision 2025-11-25 or later",
        )
    options = schema.get("oneOf")
    if isinstance(options, list):
        choices = [
            cast("Schema", option) for option in cast("list[Any]", options) if isinstance(option, dict)
        ]
        schema = {key: value for key, value in schema.items() if key != "oneOf"}
        schema["enum"] = [choice.get("const") for choice in choices]
        schema["enumNames"] = [str(choice.get("title", choice.get("const"))) for choice in choices]
    if "default" in schema and schema.get("type") != "boolean":
        # Only boolean fields had defaults; others could be misread.
        schema = {key: value for key, value in schema.items() if key != "default"}
    return schema


# --- sampling with one block per message, before 2025-11-25 -------------------------------------------------


def one_block_messages(params: m.CreateMessageRequestParams) -> m.CreateMessageRequestParams:
    """Split messages of several blocks into messages of one block with the same role.

    Raises:
        LocalProtocolError: (``capability_not_supported``) the request offers tools to the model.
    """
    if params.tools or params.tool_choice is not UNSET:
        raise LocalProtocolError(
            "capability_not_supported", "tools in sampling require revision 2025-11-25 or later"
        )
    if params.tools is not UNSET:
        params = replace(params, tools=UNSET)
    if not any(isinstance(message.content, list) for message in params.messages):
        return params
    messages = [piece for message in params.messages for piece in _split(message)]
    return replace(params, messages=messages)


def _split(message: m.SamplingMessage) -> list[m.SamplingMessage]:
    if not isinstance(message.content, list):
        return [message]
    return [replace(message, content=block) for block in message.content]


def one_block_result(result: m.CreateMessageResult) -> m.CreateMessageResult:
    """Join the texts of a result with several blocks. Other blocks have no older form.

    Raises:
        LocalProtocolError: (``internal_error``) the result has several blocks that are not all text.
    """
    if not isinstance(result.content, list):
        return result
    content = result.content
    if len(content) == 1:
        return replace(result, content=content[0])
    texts = [block.text for block in content if isinstance(block, m.TextContent)]
    if len(texts) != len(content):
        raise LocalProtocolError(
            "internal_error", "a sampling result with several blocks requires revision 2025-11-25 or later"
        )
    return replace(result, content=m.TextContent("\n".join(texts)))
