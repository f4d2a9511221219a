"""A function as the SDK's FastMCP reads it: a model of its arguments, and one of what it returns."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, RootModel, WithJsonSchema, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import to_json

from .....common.blocks import blocks
from .....common.media import Audio, Image
from .....common.signatures import EMPTY, hints_of, is_async, name_of, parameters_of
from ....types import CallToolResult, TextContent
from ..exceptions import InvalidSignature

_PRIMITIVE: Final = (str, int, float, bool, bytes, type(None))


class StrictJsonSchema(GenerateJsonSchema):
    """Refuses what no schema can be written for."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        raise ValueError(f"JSON schema warning: {kind} - {detail}")


class ArgModelBase(BaseModel):
    """The arguments of a function."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def model_dump_one_level(self) -> dict[str, Any]:
        """The arguments by name, each as it is."""
        return {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}


class FuncMetadata(BaseModel):
    """How a function is called, and how what it returns is written."""

    model_config = ConfigDict(arbitrary_types_allowed=True, defer_build=True)

    arg_model: Annotated[type[ArgModelBase], WithJsonSchema(None)]
    output_schema: dict[str, Any] | None = None
    output_model: Annotated[type[BaseModel], WithJsonSchema(None)] | None = None
    wrap_output: bool = False

    async def call_fn_with_arg_validation(
        self,
        fn: Callable[..., Any],
        fn_is_async: bool,
        arguments_to_validate: dict[str, Any],
        arguments_to_pass_directly: dict[str, Any] | None,
    ) -> Any:
        """Check the arguments and call ``fn``; a plain function runs on the event loop, as theirs does."""
        parsed = self.pre_parse_json(arguments_to_validate)
        # What `model_validate` does, without its detours.
        given: dict[str, Any] = self.arg_model.__pydantic_validator__.validate_python(
            parsed
        ).model_dump_one_level()
        if arguments_to_pass_directly:
            given |= arguments_to_pass_directly
        return await fn(**given) if fn_is_async else fn(**given)

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """JSON that came as a string is taken apart, unless a string is what is wanted."""
        found = dict(data)
        for name, field in self.arg_model.__pydantic_fields__.items():
            key = field.alias or name
            value = found.get(key)
            if type(value) is str and field.annotation is not str:
                found[key] = _parsed(value)
        return found

    def convert_result(self, result: Any) -> Any:
        """The content of a result and, where the function declares it, its data."""
        if isinstance(result, CallToolResult):
            if self.output_model is not None:
                self.output_model.model_validate(result.structuredContent)
            return result
        content = to_content(result)
        if self.output_schema is None or self.output_model is None:
            return content
        model = self.output_model
        value = model.__pydantic_validator__.validate_python(
            {"result": result} if self.wrap_output else result
        )
        return content, model.__pydantic_serializer__.to_python(value, mode="json", by_alias=True)


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, str | int | float) else value


def to_content(result: Any) -> list[Any]:
    """The content blocks of what a tool returned: one per item of a list, JSON with an indentation of two."""
    if result is None:
        return []
    if isinstance(result, blocks()):
        return [result]
    if isinstance(result, Image):
        return [result.to_image_content()]
    if isinstance(result, Audio):
        return [result.to_audio_content()]
    if isinstance(result, list | tuple):
        return [block for item in cast("Sequence[Any]", result) for block in to_content(item)]
    text = result if isinstance(result, str) else to_json(result, fallback=str, indent=2).decode()
    return [TextContent(type="text", text=text)]


def func_metadata(
    func: Callable[..., Any], skip_names: Sequence[str] = (), structured_output: bool | None = None
) -> FuncMetadata:
    """Read a function; ``skip_names`` are parameters that no caller fills.

    Raises:
        InvalidSignature: a parameter cannot be offered, or structured output is insisted on and cannot be.
    """
    name = name_of(func)
    fields: dict[str, Any] = {}
    for parameter in parameters_of(func):
        if parameter.name.startswith("_"):
            raise InvalidSignature(f"Parameter {parameter.name} of {name} cannot start with '_'")
        if parameter.name not in skip_names:
            key, field = _field(parameter)
            fields[key] = field
    model = create_model(f"{name}Arguments", __base__=ArgModelBase, **fields)
    if structured_output is False:
        return FuncMetadata.model_construct(arg_model=model)
    annotation = hints_of(func).get("return", EMPTY)
    if annotation is EMPTY:
        if structured_output:
            raise InvalidSignature(f"Function {name}: return annotation required for structured output")
        return FuncMetadata.model_construct(arg_model=model)
    output, wrapped = _output(annotation, name)
    schema = None if output is None else _schema(output)
    if schema is None:
        if structured_output:
            raise InvalidSignature(
                f"Function {name}: return type {annotation} is not serializable for structured output"
            )
        return FuncMetadata.model_construct(arg_model=model)
    return FuncMetadata.model_construct(
        arg_model=model, output_schema=schema, output_model=output, wrap_output=wrapped
    )


def _field(parameter: inspect.Parameter) -> tuple[str, Any]:
    """A field of the model; a name that pydantic has for itself gets another, and stays what callers say."""
    annotation, default = parameter.annotation, parameter.default
    if annotation is EMPTY:
        shown = {"title": parameter.name, "type": "string"}
        annotation = Annotated[Any, Field(), WithJsonSchema(shown)]
    value: Any = ... if default is EMPTY else default
    name = parameter.name
    if not hasattr(BaseModel, name) and not name.startswith("model_"):
        # Without a default of its own a parameter may have one in its annotation.
        return name, annotation if default is EMPTY else (annotation, value)
    if isinstance(value, FieldInfo):
        value.alias = value.validation_alias = value.serialization_alias = name
        return f"field_{name}", (annotation, value)
    return f"field_{name}", (annotation, Field(value, alias=name))


def _output(annotation: Any, name: str) -> tuple[type[BaseModel] | None, bool]:
    """The model of what is returned, and whether it is the one member ``result`` of it."""
    if typing.get_origin(annotation) in (typing.Final, typing.ClassVar):
        raise InvalidSignature(f"Function {name}: return annotation contains an invalid type qualifier")
    if typing.get_origin(annotation) is Annotated:
        kind, *said = typing.get_args(annotation)
        if isinstance(kind, type) and issubclass(kind, CallToolResult):
            annotation = said[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType) and CallToolResult in typing.get_args(
        annotation
    ):
        raise InvalidSignature(
            f"Function {name}: CallToolResult cannot be used in Union or Optional types. "
            "To return empty results, use: CallToolResult(content=[])"
        )
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return _of_class(cast("type[Any]", annotation), name)
    if annotation is None:
        return _wrapped(annotation, name), True
    if annotation is Any:
        return None, False
    if isinstance(annotation, types.GenericAlias) and typing.get_origin(annotation) is dict:
        key, _ = typing.get_args(annotation) or (str, Any)
        if key is str:
            made = type(f"{name}DictOutput", (RootModel[annotation],), {"__module__": __name__})
            return made, False
    return _wrapped(annotation, name), True


def _of_class(annotation: type[Any], name: str) -> tuple[type[BaseModel] | None, bool]:
    if issubclass(annotation, CallToolResult):
        return None, False
    if issubclass(annotation, BaseModel):
        return annotation, False
    if annotation in _PRIMITIVE:
        return _wrapped(annotation, name), True
    if typing.is_typeddict(annotation) or _is_typed_dict(annotation):
        return _of_typed_dict(annotation), False
    hints = {} if annotation.__module__ == "builtins" else _hints(annotation)
    if not hints or annotation.__module__ == "pathlib":
        return None, False
    fields: dict[str, Any] = {
        key: (kind, getattr(annotation, key, ...))
        for key, kind in hints.items()
        if not key.startswith("_") and typing.get_origin(kind) is not typing.ClassVar
    }
    if not fields:
        return None, False
    config = ConfigDict(from_attributes=True, arbitrary_types_allowed=False)
    try:
        return create_model(annotation.__name__, __config__=config, **fields), False
    except (PydanticUserError, TypeError):
        return None, False


def _is_typed_dict(annotation: Any) -> bool:
    return issubclass(annotation, dict) and "__total__" in dir(cast("Any", annotation))


def _hints(annotation: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotation)
    except (NameError, TypeError):
        return {}


def _of_typed_dict(annotation: Any) -> type[BaseModel]:
    hints = typing.get_type_hints(annotation)
    optional: frozenset[str] = getattr(annotation, "__optional_keys__", frozenset())
    fields: dict[str, Any] = {
        key: (kind, None) if key in optional else (kind, ...) for key, kind in hints.items()
    }
    return create_model(annotation.__name__, **fields)


def _wrapped(annotation: Any, name: str) -> type[BaseModel]:
    # What pydantic cannot read is an error of the author's, and said when the tool is registered.
    fields: dict[str, Any] = {"result": (annotation, ...)}
    return create_model(f"{name}Output", **fields)


def _schema(model: type[BaseModel]) -> dict[str, Any] | None:
    try:
        schema = model.model_json_schema(schema_generator=StrictJsonSchema)
    except (PydanticUserError, TypeError, ValueError):
        return None
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    if name not in schema.get("$defs", {}):
        return schema
    # A type that contains itself: clients want to see an object at the root all the same.
    del schema["$ref"]
    return {**schema["$defs"][name], **schema}


__all__ = ["ArgModelBase", "FuncMetadata", "StrictJsonSchema", "func_metadata", "is_async", "to_content"]
