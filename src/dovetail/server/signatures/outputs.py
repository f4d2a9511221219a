"""The declared output of a tool: its schema, and the check of returned values.

The canonical schema is the plain one, whatever its root; the codec wraps it for older revisions. A value is encoded as
JSON and decoded again as the declared type. This finds wrong fields whatever class the value has.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ... import extras
from ...errors import RegistrationError
from ...model import CallToolResult, ContentBlock, ResourceContents, Result
from ..media import Media
from . import pydantic_models, validation_errors
from .annotation_schemas import Schemas, decoder_of
from .parameters import MISSING, Signature, is_union
from .plain_types import UNWRITABLE, encode
from .validation_errors import ReturnError

if TYPE_CHECKING:
    from ...json_schema.validation import Validator

_BLOCKS: tuple[Any, ...] = typing.get_args(ContentBlock)
_CONTENT: tuple[Any, ...] = (*_BLOCKS, ResourceContents, Media)


class Output(Struct, frozen=True, eq=False):
    """A declared output."""

    name: str
    schema: dict[str, Any]
    checked: Callable[[Any], bytes]
    """Encodes a value; raises msgspec's exceptions, or `ReturnError`, for a value that does not fit."""
    text: bool = False
    """The declared type is a plain string, which is sent as text too."""

    def write(self, value: Any) -> bytes:
        """Encode ``value`` as JSON that fits the schema.

        Raises:
            ReturnError: names the field that does not fit; for the server's log, not for the peer.
        """
        try:
            return self.checked(value)
        except ReturnError:
            raise
        except UNWRITABLE as error:
            raise ReturnError(self.name, [validation_errors.read(str(error), self.schema)]) from error


def output_of(signature: Signature, given: Any, structured: bool | None) -> Output | None:
    """The output of a function, or None if it returns only content."""
    if isinstance(given, dict):
        return raw_output(signature.name, typing.cast("dict[str, Any]", given))
    annotation = given if given is not None else _declared(signature.returns)
    if structured is False or annotation is MISSING:
        if structured is True:
            raise RegistrationError(f"{signature.name!r} must say what it returns: annotate the result")
        return None
    try:
        return typed_output(signature.name, annotation, signature.locals)
    except RegistrationError:
        if structured is True or given is not None:
            raise
        return None  # an annotation for type checkers only: the value is shown as content


def typed_output(name: str, annotation: Any, scope: dict[str, Any] | None = None) -> Output:
    """An output declared as a type."""
    schemas = Schemas(scope, mode="output")
    node = schemas.prepare(annotation)
    schema = schemas.document(node.schema)
    if any(pydantic_models.is_foreign(part) for part in _parts(annotation)):
        return Output(name, schema, pydantic_models.Adapter(annotation).encode)
    check: Callable[[bytes], Any] | None = None

    def write(value: Any) -> bytes:
        nonlocal check
        written = encode(value)
        if check is None:
            check = decoder_of(node.type)
        check(written)
        return written

    return Output(name, schema, write, text=annotation is str)


def raw_output(name: str, schema: dict[str, Any]) -> Output:
    """An output declared as a JSON Schema."""
    validator = raw_validator(schema, f"the output schema of {name!r}", object_root=False)

    def write(value: Any) -> bytes:
        written = encode(value)
        if found := validator.problem(msgspec.json.decode(written)):
            raise ReturnError(name, [found])
        return written

    return Output(name, schema, write)


def raw_validator(schema: dict[str, Any], what: str, *, object_root: bool) -> Validator:
    """The validator of a hand-written JSON Schema.

    Raises:
        RegistrationError: the schema is not usable; the text says why.
        DovetailError: jsonschema-rs is not installed; the text has the command to install it.
    """
    from ...json_schema.problem import SchemaError  # loaded with the first raw schema
    from ...json_schema.validation import Validator

    if not extras.installed("jsonschema_rs"):
        raise extras.missing("jsonschema_rs", what)
    try:
        if object_root and schema.get("type") != "object":
            raise SchemaError('its root must say "type": "object"')
        return Validator(schema)
    except SchemaError as error:
        raise RegistrationError(f"{what} cannot be used: {error}", kind="tool_schema_invalid") from error


def is_content(value: Any) -> bool:
    """Whether ``value`` is a content block, or is converted to one."""
    return isinstance(value, _CONTENT)


def _declared(annotation: Any) -> Any:
    """The part of a return annotation that describes data; `MISSING` if it describes content or nothing."""
    if annotation in (MISSING, None, Any, object, type(None), typing.NoReturn) or _says_nothing(annotation):
        return MISSING
    if any(_is(part, _CONTENT) or _is(part, CallToolResult) for part in _parts(annotation)):
        return MISSING
    members = typing.get_args(annotation) if is_union(annotation) else (annotation,)
    # Other results, such as an InputRequired, are intermediate and never reach the output check.
    data = tuple(member for member in members if not _is(member, Result))
    if len(data) == len(members):
        return annotation
    return typing.Union[data] if data else MISSING  # noqa: UP007


def _says_nothing(annotation: Any) -> bool:
    """Whether the type promises no structure: a list of anything may be a list of content blocks."""
    if (typing.get_origin(annotation) or annotation) not in (list, tuple, Sequence, Iterable):
        return False
    return all(member in (Any, object, ...) for member in typing.get_args(annotation))


def _is(part: Any, classes: Any) -> bool:
    return isinstance(part, type) and issubclass(part, classes)


def _parts(annotation: Any) -> Iterator[Any]:
    """The annotation and all its parts."""
    yield annotation
    for argument in typing.get_args(annotation):
        yield from _parts(argument)
