"""Content, definitions and questions in an older form, and the refusal of what has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

from msgspec import UNSET
from msgspec.structs import replace

from ... import model as m
from ...errors import LocalProtocolError

Schema = dict[str, Any]


def refuse(message: str, kind: str = "internal_error") -> Callable[[Any], NoReturn]:
    """An edit for what cannot be said in any form."""

    def convert(value: Any) -> NoReturn:
        raise LocalProtocolError(kind, message)

    return convert


def audio_to_resource(block: m.AudioContent) -> m.EmbeddedResource:
    """Audio as the blob of an embedded resource, which every revision has."""
    contents = m.ResourceContents("embedded:audio", mime_type=block.mime_type, blob=block.data)
    return m.EmbeddedResource(contents, annotations=block.annotations)


def audio_message_to_text(value: m.SamplingMessage | m.CreateMessageResult) -> Any:
    """Sampling has no embedded resources: a note takes the place of the audio."""
    content = value.content
    if isinstance(content, m.AudioContent):
        return replace(value, content=m.TextContent(f"[audio: {content.mime_type}]"))
    return value


def link_to_text(block: m.ResourceLink) -> m.TextContent:
    """A link as words: the model can still name the resource."""
    name = block.name if block.title is UNSET else block.title
    return m.TextContent(f"{name} ({block.uri})", annotations=block.annotations)


def title_to_annotations(tool: m.Tool) -> m.Tool:
    """Before tools had titles, their annotations had."""
    if tool.title is UNSET:
        return tool
    annotations = {} if tool.annotations is UNSET else tool.annotations
    return replace(tool, annotations={"title": tool.title, **annotations})


def without_last_modified(value: Any) -> Any:
    """Leave out the one annotation that came later."""
    annotations = value.annotations
    if annotations is UNSET or "lastModified" not in annotations:
        return value
    others = {name: hint for name, hint in annotations.items() if name != "lastModified"}
    return replace(value, annotations=others or UNSET)


# --- questions to the user, on the two legacy revisions that have them ---------------------------------------


def with_elicitation_id(params: m.ElicitRequestParams) -> m.ElicitRequestParams:
    """2025-11-25 wants a name on every URL question. Give one yourself to announce its completion later."""
    if params.mode == "url" and params.elicitation_id is UNSET:
        import secrets  # it takes time to load

        return replace(params, elicitation_id=secrets.token_urlsafe(16))
    return params


def plain_form(params: m.ElicitRequestParams) -> m.ElicitRequestParams:
    """The form as 2025-06-18 knows it: titled choices become ``enum`` with ``enumNames``.

    Raises:
        LocalProtocolError: (``capability_not_supported``) URL questions and multiple choice do not exist there.
    """
    if params.mode == "url":
        raise LocalProtocolError("capability_not_supported", "URL questions exist since 2025-11-25")
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
            f"the field {name!r} is a multiple choice, which exists since 2025-11-25",
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
        # Only yes-or-no fields had defaults; others would be taken for something else.
        schema = {key: value for key, value in schema.items() if key != "default"}
    return schema


# --- sampling with one block per message, before 2025-11-25 ----------------------------------------------------


def one_block_messages(params: m.CreateMessageRequestParams) -> m.CreateMessageRequestParams:
    """Split every message of several blocks into as many messages of the same role.

    Raises:
        LocalProtocolError: (``capability_not_supported``) the model is offered tools.
    """
    if params.tools or params.tool_choice is not UNSET:
        raise LocalProtocolError("capability_not_supported", "tools in sampling exist since 2025-11-25")
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
    """Join the texts of a result of several blocks; anything else among them has no older form.

    Raises:
        LocalProtocolError: (``internal_error``) the result holds several blocks that are not all text.
    """
    if not isinstance(result.content, list):
        return result
    content = result.content
    if len(content) == 1:
        return replace(result, content=content[0])
    texts = [block.text for block in content if isinstance(block, m.TextContent)]
    if len(texts) != len(content):
        raise LocalProtocolError(
            "internal_error", "a sampling result of several blocks exists since 2025-11-25"
        )
    return replace(result, content=m.TextContent("\n".join(texts)))
