"""A plain function, prepared once: its schema, the decoder of its arguments, and how to call it.

`decode` turns the arguments of a request into keywords for `call`. For most signatures it is one call into C:
all parameters are the fields of one Struct. What went wrong is worked out only when something did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import asdict

from ...errors import ProtocolError, RegistrationError
from .. import validators
from ..registering.uri_templates import UriTemplate
from . import arguments as args
from . import parameters as signatures
from . import problems
from .outputs import Output, output_of, raw_output
from .parameters import Parameter, Signature
from .problems import InvalidArguments, Problem
from .schemas import Schemas

__all__ = [
    "Function", "InvalidArguments", "PromptFunction", "RawFunction", "ResourceFunction", "prepare_prompt",
    "prepare_raw", "prepare_resource", "prepare_tool",
]  # fmt: skip

_EMPTY: Final = b"{}"
_FLOAT_REFUSED: Final = ("got `float`", "valid integer")
"""How msgspec and pydantic refuse ``1.0`` for an integer."""
_UNREADABLE: Final = Problem("", "the arguments cannot be read")


class Prepared:
    """What all prepared functions share."""

    def __init__(self, signature: Signature, description: str | None, title: str | None) -> None:
        schemas = Schemas(signature.locals)
        nodes = args.nodes_of(signature, schemas)
        self.name = signature.name
        self.title = title
        self.description = description or signature.docstring.summary
        self.parameters: tuple[Parameter, ...] = signature.parameters
        self.input_schema: dict[str, Any] = args.input_schema(signature.parameters, nodes, schemas)
        """What the arguments mean. Only tools send it."""
        self.is_async = signature.is_async
        self.context_parameter = signature.context_parameter
        """The keyword under which `call` wants the context, if it wants one."""
        self.call: Callable[..., Any] = signature.call
        """The function itself; takes keywords only."""
        self._nodes = nodes
        self._types = {p.wire_name: node.type for p, node in zip(signature.parameters, nodes, strict=True)}


class Function(Prepared):
    """A tool's function."""

    def __init__(
        self, signature: Signature, description: str | None = None, title: str | None = None
    ) -> None:
        super().__init__(signature, description, title)
        self._decode = args.decoder(signature.parameters, self._nodes)
        self.output: Output | None = None
        """Checks and writes what the function returns; None when nothing was declared."""
        self.structured = True
        """Whether an object becomes structured content though no schema was declared."""

    @property
    def output_schema(self) -> dict[str, Any] | None:
        return None if self.output is None else self.output.schema

    def decode(self, arguments: Raw | UnsetType) -> dict[str, Any]:
        """The keywords for `call`, without the context.

        Raises:
            InvalidArguments: naming every argument that is wrong, missing or unknown.
        """
        try:
            return asdict(self._decode(_EMPTY if arguments is UNSET else arguments))  # pyright: ignore[reportArgumentType]
        except (ValueError, RecursionError) as error:
            return self._decode_again(arguments, error)

    def _decode_again(self, arguments: Raw | UnsetType, error: Exception) -> dict[str, Any]:
        """The slow path: forgive a null, and ``1.0`` for an integer; or else say what is wrong."""
        members = args.members(arguments, self.name)
        if not members or any(words in str(error) for words in _FLOAT_REFUSED):
            try:
                return asdict(self._decode(args.integral(members)))
            except (ValueError, RecursionError):
                pass
        raise InvalidArguments(self.name, self._problems(members)) from None

    def _problems(self, members: dict[str, Raw]) -> list[Problem]:
        found = [problems.unknown(name, self._types) for name in members if name not in self._types]
        for parameter in self.parameters:
            name = parameter.wire_name
            if name in members:
                found += args.trial(members[name], self._types[name], self.input_schema, name)
            elif parameter.required:
                found.append(Problem(name, "is required"))
        return found or [_UNREADABLE]


class RawFunction(Function):
    """A tool with a JSON Schema of its own; its handler takes the arguments as one dict."""

    def __init__(
        self,
        signature: Signature,
        input_schema: dict[str, Any],
        description: str | None = None,
        title: str | None = None,
    ) -> None:
        if len(signature.parameters) != 1:
            raise RegistrationError(f"the handler of {signature.name!r} must take the arguments as one dict")
        super().__init__(signature._replace(parameters=()), description, title)
        self.input_schema = input_schema
        self._parameter = signature.parameters[0].name
        self._validate = validators.compile_schema(input_schema, f"the input schema of {signature.name!r}")

    def decode(self, arguments: Raw | UnsetType) -> dict[str, Any]:
        """One keyword: the arguments as a dict that fits the schema."""
        try:
            values: Any = {} if isinstance(arguments, UnsetType) else msgspec.json.decode(arguments)
        except (ValueError, RecursionError):
            raise InvalidArguments(self.name, [_UNREADABLE]) from None
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise args.no_object(self.name)
        if found := self._validate(values):
            raise InvalidArguments(self.name, found)
        return {self._parameter: values}


class PromptFunction(Prepared):
    """A prompt's function: its arguments arrive as strings."""

    def __init__(
        self, signature: Signature, description: str | None = None, title: str | None = None
    ) -> None:
        super().__init__(signature, description, title)
        self.arguments = [args.prompt_argument(p, self.input_schema) for p in signature.parameters]
        self._names = {p.wire_name: p.name for p in signature.parameters}

    def decode(self, arguments: Mapping[str, str] | UnsetType) -> dict[str, Any]:
        """The keywords for `call`, without the context; what is absent has a default there.

        Raises:
            ProtocolError: ``prompt_argument_missing`` or ``invalid_prompt_arguments``.
        """
        given: Mapping[str, str] = {} if isinstance(arguments, UnsetType) else arguments
        missing = [p.wire_name for p in self.parameters if p.required and p.wire_name not in given]
        if missing:
            raise ProtocolError(
                "prompt_argument_missing",
                f"Missing required arguments: {', '.join(missing)}",
                data={"missing": missing},
            )
        found: list[Problem] = []
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name not in self._types:
                found.append(problems.unknown(name, self._types))
                continue
            try:
                values[self._names[name]] = args.from_text(text, self._types[name])
            except ValueError as error:
                found.append(problems.read(str(error), self.input_schema, f".{name}"))
        if found:
            raise InvalidArguments(self.name, found, "invalid_prompt_arguments")
        return self._with_factories(values)

    def _with_factories(self, values: dict[str, Any]) -> dict[str, Any]:
        for parameter in self.parameters:
            if parameter.factory is not None and parameter.name not in values:
                values[parameter.name] = parameter.factory()
        return values


class ResourceFunction(Prepared):
    """A resource's function: its arguments are the variables of its URI."""

    def __init__(
        self,
        signature: Signature,
        template: UriTemplate | None,
        description: str | None = None,
        title: str | None = None,
    ) -> None:
        _check_variables(signature, template)
        super().__init__(signature, description, title)
        self.template = template

    def decode(self, values: Mapping[str, str]) -> dict[str, Any]:
        """The keywords for `call`, from what the template found in a URI.

        Raises:
            ProtocolError: ``resource_not_found``: a value of the wrong type names nothing that exists.
        """
        try:
            return {name: args.from_text(text, self._types[name]) for name, text in values.items()}
        except ValueError:
            raise ProtocolError("resource_not_found") from None


def prepare_tool(
    function: Any,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    output_schema: Any = None,
    structured: bool | None = None,
    exclude: Collection[str] = (),
) -> Function:
    """Prepare a tool. ``output_schema`` is a JSON Schema or a type; without it the return annotation decides.

    ``structured=False`` returns content only; ``True`` insists on an output schema.

    Raises:
        RegistrationError: the signature cannot be offered to a client; the text says what to change.
    """
    signature = signatures.read(function, name=name, exclude=exclude)
    prepared = Function(signature, description, title)
    prepared.structured = structured is not False
    prepared.output = output_of(signature, output_schema, structured)
    return prepared


def prepare_raw(
    handler: Any,
    *,
    input_schema: dict[str, Any],
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    output_schema: dict[str, Any] | None = None,
    exclude: Collection[str] = (),
) -> RawFunction:
    """Prepare a tool whose schemas are given as they are; they go out untouched.

    Raises:
        RegistrationError: a schema is invalid, or refers to something outside itself.
    """
    signature = signatures.read(handler, name=name, exclude=exclude)
    prepared = RawFunction(signature, input_schema, description, title)
    if output_schema is not None:
        prepared.output = raw_output(prepared.name, output_schema)
    return prepared


def prepare_prompt(
    function: Any,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    exclude: Collection[str] = (),
) -> PromptFunction:
    """Prepare a prompt. Raises RegistrationError like `prepare_tool`."""
    return PromptFunction(signatures.read(function, name=name, exclude=exclude), description, title)


def prepare_resource(
    function: Any,
    template: UriTemplate | str | None = None,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    exclude: Collection[str] = (),
) -> ResourceFunction:
    """Prepare the reader of one resource, or with a template of a family of them.

    Raises:
        RegistrationError: the variables are not exactly the parameters, or the template is invalid.
    """
    signature = signatures.read(function, name=name, exclude=exclude)
    if isinstance(template, str):
        template = UriTemplate(template)
    return ResourceFunction(signature, template, description, title)


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
