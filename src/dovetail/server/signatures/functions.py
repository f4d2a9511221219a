"""A prepared function: its schema, the decoder of its arguments, and the callable.

`decode` turns the arguments of a request into keywords for `call`. For most signatures this is one C call: all
parameters are the fields of one Struct, created with the first call. Details of an error are computed only after a
decode has failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import NODEFAULT, UNSET, Raw, UnsetType
from msgspec.structs import asdict, replace

from ...errors import ProtocolError, RegistrationError
from ...json_schema.problem import Problem
from ...model import PromptArgument
from ...shapes import is_list, is_object
from ..registry.uri_templates import UriTemplate
from . import custom_types, validation_errors
from .annotation_schemas import Node, Schemas, decoder_of, object_schema
from .objects import Field
from .outputs import Output, output_of, raw_output, raw_validator
from .parameters import Signature, read_signature
from .validation_errors import InvalidArguments

if TYPE_CHECKING:
    from ...json_schema.validation import Validator

Members = dict[str, Raw]

_EMPTY: Final = b"{}"
_FLOAT_REFUSED: Final = ("got `float`", "valid integer")
"""The messages with which msgspec and pydantic refuse ``1.0`` for an integer."""
_UNREADABLE: Final = Problem("", "the arguments cannot be read")


class Prepared:
    """The common part of prepared functions.

    Raises:
        RegistrationError: a parameter cannot be offered to clients; the text names it, and what to change.
    """

    def __init__(self, signature: Signature) -> None:
        schemas = Schemas(signature.locals)
        fields = signature.parameters
        nodes = [_node(field, signature.name, schemas) for field in fields]
        self.signature = signature
        self.name = signature.name
        self.description = signature.docstring.summary
        schema = object_schema(fields, nodes, signature.docstring, closed=True)
        self.input_schema: dict[str, Any] = schemas.document(schema)
        """The descriptions of the arguments. Only tools send them."""
        self._types = {field.key: node.type for field, node in zip(fields, nodes, strict=True)}


class Function(Prepared):
    """The function of a tool."""

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        self._decode = self._decode_first
        if any(field.key != field.name for field in signature.parameters):
            self._decode = self._decoder()  # report colliding names at registration
        self.output: Output | None = None
        """Checks and encodes the return value; None without a declared output."""
        self.structured = True
        """Whether an object becomes structured content without a declared schema."""
        self.text = True
        """Whether structured content is repeated as a text block."""
        self.takes_uploads = False
        """Whether a parameter is an `Upload`."""
        self.on_coerced: Callable[[], None] | None = None
        """Called when arguments fit only after coercion; None refuses them: see `json_schema.coercion`."""

    @property
    def output_schema(self) -> dict[str, Any] | None:
        return None if self.output is None else self.output.schema

    def decode(self, arguments: Raw | UnsetType) -> dict[str, Any]:
        """Decode the arguments to keywords for the function, without the context.

        Raises:
            InvalidArguments: names every argument that is wrong, missing or unknown.
        """
        try:
            return asdict(self._decode(_EMPTY if arguments is UNSET else arguments))  # pyright: ignore[reportArgumentType]
        except (ValueError, RecursionError) as error:
            return self._decode_again(arguments, error)

    def _decode_first(self, arguments: bytes | Raw) -> Any:
        self._decode = self._decoder()
        return self._decode(arguments)

    def _decoder(self) -> Any:
        """Decodes all arguments, including defaults, in one call."""
        types = [self._types[field.key] for field in self.signature.parameters]
        try:
            struct = custom_types.struct_of("Arguments", self.signature.parameters, types, closed=True)
        except ValueError as error:
            raise RegistrationError(f"the names of the parameters of {self.name!r}: {error}") from None
        return decoder_of(struct)

    def _decode_again(self, arguments: Raw | UnsetType, error: Exception) -> dict[str, Any]:
        """The slow path: accept null for an omitted argument and ``1.0`` for an integer, else raise the details."""
        members = _members(arguments, self.name)
        if not members or any(words in str(error) for words in _FLOAT_REFUSED):
            whole = _without_fractions(msgspec.json.decode(msgspec.json.encode(members)))
            try:
                return asdict(self._decode(msgspec.json.encode(whole)))
            except (ValueError, RecursionError):
                pass
        if self.on_coerced is not None and (coerced := self._coerced(members)) is not None:
            self.on_coerced()
            return coerced
        raise InvalidArguments(self.name, self._problems(members)) from None

    def _coerced(self, members: Members) -> dict[str, Any] | None:
        """The keywords with texts such as ``"5"`` coerced to the declared types; None if they still do not fit."""
        from ...json_schema.coercion import coerce  # needed only after a failed decode

        try:
            value, count = coerce(msgspec.json.decode(msgspec.json.encode(members)), self.input_schema)
            return asdict(self._decode(msgspec.json.encode(_without_fractions(value)))) if count else None
        except (ValueError, RecursionError):
            return None

    def fitting(self, values: dict[str, Any], found: Problem, validator: Validator) -> dict[str, Any]:
        """The arguments after coercion, for a schema that validates all of them together.

        Raises:
            InvalidArguments: they still do not fit.
        """
        if self.on_coerced is not None:
            from ...json_schema.coercion import coerce  # needed only after a failed decode

            coerced, count = coerce(values, self.input_schema)
            if count and validator.problem(coerced) is None:
                self.on_coerced()
                return coerced
        raise InvalidArguments(self.name, [found])

    def _problems(self, members: Members) -> list[Problem]:
        found = validation_errors.unknown((name for name in members if name not in self._types), self._types)
        for field in self.signature.parameters:
            if field.key in members:
                found += self._trial(members[field.key], field.key)
            elif field.required:
                found.append(Problem(field.key, "is required"))
        return found or [_UNREADABLE]

    def _trial(self, raw: Raw, name: str) -> list[Problem]:
        """The problems of one argument, if any."""
        try:
            msgspec.json.decode(raw, type=self._types[name], dec_hook=custom_types.hook)
        except RecursionError:
            return [Problem(name, "nests too deeply")]
        except ValueError as error:
            return [validation_errors.read(str(error), self.input_schema, f".{name}")]
        return []


class RawFunction(Function):
    """A tool with a hand-written JSON Schema; its handler takes the arguments as one dict, or as ``**arguments``."""

    def __init__(self, signature: Signature, input_schema: dict[str, Any]) -> None:
        context, taken = signature.context_parameter, signature.taken
        if len(signature.parameters) + (taken is not None) != 1:
            raise RegistrationError(
                f"the handler of {signature.name!r} must take the arguments as one dict, or as **arguments"
            )
        super().__init__(replace(signature, parameters=()))
        self.input_schema = input_schema
        self._parameter = signature.parameters[0].name if taken is None else None
        what = f"the input schema of {signature.name!r}"
        self._validator = raw_validator(input_schema, what, object_root=True)
        self._taken = {name for name in (*(taken or ()), context) if name is not None}
        if taken is not None and (lost := self._taken.intersection(input_schema.get("properties", ()))):
            raise RegistrationError(
                f"the handler of {signature.name!r} has {min(lost)!r} itself, so no argument of that name can "
                f"reach its **arguments: take the arguments as one dict, or the Context by its place (ctx: Context, /)"
            )

    def decode(self, arguments: Raw | UnsetType) -> dict[str, Any]:
        """The validated arguments: as keywords, or as one dict under the name of the parameter."""
        try:
            values: Any = {} if isinstance(arguments, UnsetType) else msgspec.json.decode(arguments)
        except (ValueError, RecursionError):
            raise InvalidArguments(self.name, [_UNREADABLE]) from None
        if values is None:
            values = {}
        if not is_object(values):
            raise _no_object(self.name)
        if found := self._validator.problem(values):
            values = self.fitting(values, found, self._validator)
        if self._parameter is not None:
            return {self._parameter: values}
        if lost := self._taken.intersection(values):
            raise InvalidArguments(self.name, validation_errors.unknown(sorted(lost), ()))
        return values


class PromptFunction(Prepared):
    """The function of a prompt: its arguments are strings."""

    def __init__(self, function: Any, *, name: str | None = None) -> None:
        super().__init__(read_signature(function, name=name))
        self.arguments = [_prompt_argument(p, self.input_schema) for p in self.signature.parameters]

    def decode(self, arguments: Mapping[str, str] | UnsetType) -> dict[str, Any]:
        """The keywords for `call`, without the context; absent arguments get their defaults in `call`."""
        given: Mapping[str, str] = {} if isinstance(arguments, UnsetType) else arguments
        fields = self.signature.parameters
        missing = [field.key for field in fields if field.required and field.key not in given]
        if missing:
            raise ProtocolError(
                "prompt_argument_missing",
                f"Missing required arguments: {', '.join(missing)}",
                data={"missing": missing},
            )
        found = validation_errors.unknown((name for name in given if name not in self._types), self._types)
        values: dict[str, Any] = {}
        for field in fields:
            if field.key not in given:
                if field.factory is not NODEFAULT:
                    values[field.name] = field.factory()
                continue
            try:
                values[field.name] = _from_text(given[field.key], self._types[field.key])
            except ValueError as error:
                found.append(validation_errors.read(str(error), self.input_schema, f".{field.key}"))
        if found:
            raise InvalidArguments(self.name, found, "invalid_prompt_arguments")
        return values


class ResourceFunction(Prepared):
    """The reader of a resource or a resource template; its arguments are the variables of the URI.

    Raises:
        RegistrationError: the variables differ from the parameters, or the template is invalid.
    """

    def __init__(self, function: Any, template: str | None = None, *, name: str | None = None) -> None:
        signature = read_signature(function, name=name)
        self.template = None if template is None else UriTemplate(template)
        _check_variables(signature, self.template)
        super().__init__(signature)

    def decode(self, values: Mapping[str, str]) -> dict[str, Any]:
        """The keywords for `call`, from the variables in a URI."""
        try:
            return {name: _from_text(text, self._types[name]) for name, text in values.items()}
        except ValueError:
            raise ProtocolError("resource_not_found") from None


def prepare_tool(
    function: Any,
    *,
    name: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Any = None,
    structured: bool | None = None,
) -> Function:
    """Prepare a tool. The schemas of a tool with an ``input_schema`` are sent unchanged.

    ``output_schema`` is a JSON Schema or a type; without it the return annotation decides. ``structured=False``
    returns content only; ``True`` insists on an output schema.

    Raises:
        RegistrationError: the signature or a schema cannot be offered to a client; the text says what to change.
    """
    if isinstance(function, Function):
        return function  # it was prepared by its creator
    if input_schema is not None:
        prepared = RawFunction(read_signature(function, name=name, may_be_open=True), dict(input_schema))
        if output_schema is not None:
            prepared.output = raw_output(prepared.name, dict(output_schema))
        return prepared
    signature = read_signature(function, name=name)
    if "dovetail.server.handles" in sys.modules:  # otherwise no parameter is a `Handle`
        from ..handles import with_handles

        signature = with_handles(signature)
    with_files = None
    if "dovetail.server.uploads" in sys.modules:  # otherwise no parameter is an `Upload`
        from ..uploads import with_uploads

        with_files = with_uploads(signature)
    signature = with_files or signature
    prepared = Function(signature)
    prepared.takes_uploads = with_files is not None
    prepared.structured = structured is not False
    prepared.output = output_of(signature, output_schema, structured)
    return prepared


def _node(field: Field, name: str, schemas: Schemas) -> Node:
    try:
        return schemas.prepare(field.annotation)
    except RegistrationError as error:
        raise RegistrationError(f"{name!r}, parameter {field.name!r}: {error.message}") from error


def _members(arguments: Raw | UnsetType, name: str) -> Members:
    """The arguments by name, as raw JSON; absent and null count as an empty object."""
    if isinstance(arguments, UnsetType):
        return {}
    try:
        return msgspec.json.decode(arguments, type=Members | None) or {}
    except msgspec.ValidationError:
        raise _no_object(name) from None
    except (ValueError, RecursionError):
        raise InvalidArguments(name, [_UNREADABLE]) from None


def _no_object(name: str) -> InvalidArguments:
    """A malformed request, on every revision: the model cannot correct it."""
    problem = Problem("", "the arguments must be an object")
    return InvalidArguments(name, [problem], kind="invalid_params")


def _without_fractions(value: Any) -> Any:
    """``value`` with ``1.0`` written as ``1``: in JSON they are the same number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_list(value):
        return [_without_fractions(item) for item in value]
    return {name: _without_fractions(item) for name, item in value.items()} if is_object(value) else value


def _from_text(text: str, kind: Any) -> Any:
    """Decode a string as ``kind``: a string, number or boolean, or JSON for other types.

    Raises:
        ValueError: it does not fit; the message is msgspec's.
    """
    if kind is str or kind is Any:
        return text
    try:
        return msgspec.convert(text, kind, strict=False, dec_hook=custom_types.hook)
    except ValueError as error:
        try:
            return msgspec.json.decode(text, type=kind, dec_hook=custom_types.hook)
        except msgspec.ValidationError as second:
            raise (second if text[:1] in ("{", "[") else error) from None
        except (ValueError, RecursionError):
            raise error from None


def _prompt_argument(field: Field, schema: dict[str, Any]) -> PromptArgument:
    """The definition of one argument of a prompt."""
    own: dict[str, Any] = schema["properties"][field.key]
    words: str = own.get("description", "")
    if "$ref" in own or own.get("type") in ("object", "array"):
        words = f"{words} (JSON)".strip()
    return PromptArgument(
        field.key, title=own.get("title", UNSET), description=words or UNSET, required=field.required
    )


def _check_variables(signature: Signature, template: UriTemplate | None) -> None:
    text = "a fixed URI" if template is None else repr(template.text)
    wanted = {p.name for p in signature.parameters}
    given = set[str]() if template is None else set(template.variables)
    if wanted != given:
        raise RegistrationError(
            f"the variables of {text} ({', '.join(sorted(given)) or 'none'}) must be exactly the parameters "
            f"of {signature.name!r} ({', '.join(sorted(wanted)) or 'none'})"
        )
    optional = () if template is None else template.optional
    if bare := [p.name for p in signature.parameters if p.required and p.name in optional]:
        raise RegistrationError(f"{', '.join(bare)} may be absent from the query of {text}: give a default")
