"""Forms and addresses that SDK 1.x asks users for, checked on both ways."""

from __future__ import annotations

import types
import typing
from typing import Any, Generic, Literal

from pydantic import BaseModel
from typing_extensions import TypeVar

from ..types.base import Closed
from .session import ServerSession

ElicitSchemaModelT = TypeVar("ElicitSchemaModelT", bound=BaseModel)
_PRIMITIVE = (str, int, float, bool)


class AcceptedElicitation(Closed, Generic[ElicitSchemaModelT]):
    """The user agreed, and this is what they filled in."""

    action: Literal["accept"] = "accept"
    data: ElicitSchemaModelT


class DeclinedElicitation(Closed):
    """The user said no."""

    action: Literal["decline"] = "decline"


class CancelledElicitation(Closed):
    """The user closed the form without an answer."""

    action: Literal["cancel"] = "cancel"


class AcceptedUrlElicitation(Closed):
    """The user agreed to visit the address."""

    action: Literal["accept"] = "accept"


ElicitationResult = AcceptedElicitation[ElicitSchemaModelT] | DeclinedElicitation | CancelledElicitation
UrlElicitationResult = AcceptedUrlElicitation | DeclinedElicitation | CancelledElicitation


def _check(schema: type[BaseModel]) -> None:
    """A form is flat.

    Raises:
        TypeError: a field is no plain value.
    """
    for name, field in schema.model_fields.items():
        if not _is_plain(field.annotation):
            raise TypeError(
                f"Elicitation schema field '{name}' must be a primitive type {_PRIMITIVE}, a sequence of strings "
                "(list[str], etc.), or Optional of these types. Nested models and complex types are not allowed."
            )


def _is_plain(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return all(one is type(None) or _is_plain(one) for one in typing.get_args(annotation))
    if origin is Literal:
        return True
    if origin in (list, set, tuple, frozenset) or annotation in _PRIMITIVE:
        return origin is None or all(one in (str, ...) for one in typing.get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, str | int | float)


async def elicit_with_validation(
    session: ServerSession, message: str, schema: type[ElicitSchemaModelT], related_request_id: Any = None
) -> ElicitationResult[ElicitSchemaModelT]:
    """Ask the user to fill in a form made of a flat model, and check what comes back."""
    _check(schema)
    answer = await session.elicit(message, schema.model_json_schema(), related_request_id)
    if answer.action == "accept":
        return AcceptedElicitation[Any](data=schema.model_validate(answer.content or {}))
    return DeclinedElicitation() if answer.action == "decline" else CancelledElicitation()


async def elicit_url(
    session: ServerSession, message: str, url: str, elicitation_id: str, related_request_id: Any = None
) -> UrlElicitationResult:
    """Ask the user to visit ``url``."""
    answer = await session.elicit_url(message, url, elicitation_id, related_request_id)
    if answer.action == "accept":
        return AcceptedUrlElicitation()
    return DeclinedElicitation() if answer.action == "decline" else CancelledElicitation()
