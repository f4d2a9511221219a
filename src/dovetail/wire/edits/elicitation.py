"""Questions to the user on the two legacy revisions that have them."""

from __future__ import annotations

import secrets
from typing import Any, cast

from msgspec import UNSET
from msgspec.structs import replace

from ...errors import LocalProtocolError
from ...model import ElicitRequestParams

Schema = dict[str, Any]


def with_elicitation_id(params: ElicitRequestParams) -> ElicitRequestParams:
    """2025-11-25 wants a name on every URL question. Give one yourself to announce its completion later."""
    if params.mode == "url" and params.elicitation_id is UNSET:
        return replace(params, elicitation_id=secrets.token_urlsafe(16))
    return params


def plain_form(params: ElicitRequestParams) -> ElicitRequestParams:
    """The form as 2025-06-18 knows it: titled choices become ``enum`` with ``enumNames``.

    Raises:
        LocalProtocolError: (``capability_not_supported``) URL questions and multiple choice do not exist
        there.
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
