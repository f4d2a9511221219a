"""Elicitation: a server asks the user, by a form of primitive fields or by sending them to a URL.

The schemas of a form travel as plain dicts, so that every keyword survives; `primitive_schema` reads one
field of such a form into the definition it follows.
"""

from typing import Any, Literal, Self, TypeAlias

from msgspec import UNSET, UnsetType, ValidationError, convert

from .base import Definition, NotificationParams, Number, RequestParams, Result, TaskMetadata

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]


class ElicitRequestParams(RequestParams):
    """One question, in one of two modes; absent means ``form``.

    The schema knows two definitions that no member tells apart for certain; the names
    `ElicitRequestFormParams` and `ElicitRequestURLParams` mean this Struct.
    Build it with `form` or `for_url`.
    """

    message: str
    mode: Literal["form", "url"] | UnsetType = UNSET
    requested_schema: dict[str, Any] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    elicitation_id: str | UnsetType = UNSET
    """In 2025-11-25 only: names the URL question in `ElicitationCompleteNotificationParams`."""
    task: TaskMetadata | UnsetType = UNSET
    """In 2025-11-25 only: run this request as a task."""

    def __post_init__(self) -> None:
        if self.mode == "url":
            if self.url is UNSET:
                raise ValueError("a question in url mode needs `url`")
        elif self.requested_schema is UNSET:
            raise ValueError("a question in form mode needs `requestedSchema`")

    @classmethod
    def form(cls, message: str, requested_schema: dict[str, Any]) -> Self:
        """Ask the user to fill in a flat object of primitive fields."""
        return cls(message, requested_schema=requested_schema)

    @classmethod
    def for_url(cls, message: str, url: str, elicitation_id: str | UnsetType = UNSET) -> Self:
        """Ask the user to do something at ``url``."""
        return cls(message, mode="url", url=url, elicitation_id=elicitation_id)


ElicitRequestFormParams: TypeAlias = ElicitRequestParams
ElicitRequestURLParams: TypeAlias = ElicitRequestParams


class ElicitResult(Result):
    """``content`` comes with ``accept`` in form mode only. Check it against the form before using it."""

    action: ElicitAction
    content: dict[str, Any] | UnsetType = UNSET


class ElicitationCompleteNotificationParams(NotificationParams):
    """The user is done at the URL. In 2025-11-25 only."""

    elicitation_id: str


class StringSchema(Definition, tag_field="type", tag="string"):
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    min_length: int | UnsetType = UNSET
    max_length: int | UnsetType = UNSET
    format: Literal["email", "uri", "date", "date-time"] | UnsetType = UNSET
    default: str | UnsetType = UNSET


class NumberSchema(Definition):
    type: Literal["number", "integer"]
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    minimum: Number | UnsetType = UNSET
    maximum: Number | UnsetType = UNSET
    default: Number | UnsetType = UNSET


class BooleanSchema(Definition, tag_field="type", tag="boolean"):
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    default: bool | UnsetType = UNSET


class TitledOption(Definition, gc=False):
    """A value and the words to show for it."""

    const: str
    title: str


class UntitledSingleSelectEnumSchema(Definition, tag_field="type", tag="string"):
    enum: list[str]
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    default: str | UnsetType = UNSET


class TitledSingleSelectEnumSchema(Definition, tag_field="type", tag="string"):
    one_of: list[TitledOption]
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    default: str | UnsetType = UNSET


class LegacyTitledEnumSchema(Definition, tag_field="type", tag="string"):
    """The only enumeration 2025-06-18 has."""

    enum: list[str]
    enum_names: list[str] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    default: str | UnsetType = UNSET


class UntitledItems(Definition, tag_field="type", tag="string"):
    enum: list[str]


class TitledItems(Definition):
    any_of: list[TitledOption]


class MultiSelect(Definition, kw_only=True):
    """What both multi-select enumerations share."""

    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    min_items: int | UnsetType = UNSET
    max_items: int | UnsetType = UNSET
    default: list[str] | UnsetType = UNSET


class UntitledMultiSelectEnumSchema(MultiSelect, tag_field="type", tag="array"):
    items: UntitledItems


class TitledMultiSelectEnumSchema(MultiSelect, tag_field="type", tag="array"):
    items: TitledItems


SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
EnumSchema: TypeAlias = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema
PrimitiveSchemaDefinition: TypeAlias = StringSchema | NumberSchema | BooleanSchema | EnumSchema


def _definition_of(schema: dict[str, Any]) -> type[PrimitiveSchemaDefinition]:
    match schema.get("type"):
        case "string" if "oneOf" in schema:
            return TitledSingleSelectEnumSchema
        case "string" if "enumNames" in schema:
            return LegacyTitledEnumSchema
        case "string":
            return UntitledSingleSelectEnumSchema if "enum" in schema else StringSchema
        case "number" | "integer":
            return NumberSchema
        case "boolean":
            return BooleanSchema
        case "array":
            items = schema.get("items")
            titled = isinstance(items, dict) and "anyOf" in items
            return TitledMultiSelectEnumSchema if titled else UntitledMultiSelectEnumSchema
        case _:
            raise ValidationError("a form field is a string, number, integer, boolean or array of choices")


def primitive_schema(schema: dict[str, Any]) -> PrimitiveSchemaDefinition:
    """Read one field of a form.

    Raises:
        msgspec.ValidationError: the field is none of the primitives a form may hold. Refuse the form.
    """
    return convert(schema, _definition_of(schema))
