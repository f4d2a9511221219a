"""``dovetail stub TARGET -o client.py``: write a typed client of a server as a Python module.

The module has a dataclass for each object schema and a class with a method for each tool and prompt. Text of the server
is written as string literals and docstrings only: no name, type or statement is copied from it unchecked.
"""

from __future__ import annotations

import argparse
import asyncio
import keyword
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET

from .. import model as m
from ..json_schema.references import definition_name, resolved
from ..shapes import is_list, is_object
from ..telemetry.terminal_sanitizer import log_to_stderr, printable
from .atomic_files import write_atomically
from .call import client_of, client_parser
from .output import Printer
from .progress_bar import ProgressSteps

MAX_DEPTH: Final = 16
"""Levels of a schema that become types; deeper values are Any."""
_SCALARS: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
_PLAIN: Final = (str, int, bool)
_IMPORTED: Final = (
    "Any", "Literal", "ToolResult", "UNSET", "UnsetType", "dataclass", "dovetail", "msgspec", "overload",
)  # fmt: skip
_RESERVED: Final = frozenset({*_IMPORTED, "bool", "dict", "float", "int", "list", "str"})
"""Names that annotations of the module use: no field, parameter or method hides them."""
_HEAD: Final = '''"""{title}

Written by `dovetail stub`: do not edit. `dovetail stub TARGET -o FILE --check` reports whether it is current.
"""

# ruff: noqa
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import dovetail
import msgspec
from dovetail.client import ToolResult
from msgspec import UNSET, UnsetType

'''
_HELPERS: Final = '''
def _sent(**arguments: Any) -> dict[str, Any]:
    """The arguments that are set, as JSON values."""
    return {name: msgspec.to_builtins(value) for name, value in arguments.items() if value is not UNSET}

'''


def main(command: str, arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    log_to_stderr()
    parser = client_parser("stub", "Write a typed client of a server as a Python module.")
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="the module to write; - is stdout (the default)"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if the module is out of date"
    )
    options = parser.parse_args(list(arguments))
    if options.check and options.output == "-":
        parser.error("--check needs the module to compare: -o FILE")
    text = asyncio.run(_generate(options))
    if options.output == "-":
        sys.stdout.write(text)
        return 0
    before = None
    if os.path.exists(options.output):
        with open(options.output, encoding="utf-8") as file:
            before = file.read()
    if not options.check:
        write_atomically(options.output, text.encode())
    state = "unchanged" if before == text else "out of date" if options.check else "written"
    line = f"{printable(options.output)}: {state}"
    Printer(json=options.json).show({"file": options.output, "state": state}, [line])
    return 1 if options.check and before != text else 0


async def _generate(options: argparse.Namespace) -> str:
    with ProgressSteps.of(options, 4) as steps:
        steps.begin("connection")
        return await _written(options, steps)


async def _written(options: argparse.Namespace, steps: ProgressSteps) -> str:
    async with client_of(options) as client:
        info = getattr(client, "server_info", None)
        name = "servers" if info is None else info.name
        capabilities = getattr(client, "server_capabilities", None)
        prompts = capabilities is None or capabilities.has("prompts")
        steps.begin("tools")
        tools = await client.list_tools()
        steps.begin("prompts")
        found = await client.list_prompts() if prompts else []
        steps.begin("types")
        return write(name, tools, found)


def write(server: str, tools: Sequence[m.Tool], prompts: Sequence[m.Prompt]) -> str:
    """The module for the tools and prompts of a server."""
    module = _Module(server)
    for tool in tools:
        module.add_tool(tool)
    for prompt in prompts:
        module.add_prompt(prompt)
    return module.text()


class _Module:
    def __init__(self, server: str) -> None:
        self._server = server
        self._names: set[str] = {*_IMPORTED}
        self._classes: list[str] = []
        self._methods: list[str] = []
        self._overloads: list[str] = []
        self._results: list[str] = []
        self.written: dict[bytes, str] = {}
        """Classes by the schemas they were written for: tools often share one."""
        self._taken = {"client", "call"}
        self._client = self._unique(_pascal(server) + "Client")

    def add_tool(self, tool: m.Tool) -> None:
        schema = tool.input_schema
        parameters = self._parameters(schema, _pascal(tool.name))
        output = tool.output_schema
        returns = "ToolResult"
        if output is not UNSET:
            returns = _Types(self, output, _pascal(tool.name) + "Result").of(output)
        self._add(
            tool.name, tool.description, parameters, returns, self._call(tool.name, parameters, returns)
        )
        self._overloads.append(
            f"    @overload\n    async def call(self, name: Literal[{_literal(tool.name)}], "
            f"arguments: dict[str, Any]) -> {returns}: ...\n"
        )
        if returns != "ToolResult":
            self._results.append(f"    {_literal(tool.name)}: {returns},\n")

    def add_prompt(self, prompt: m.Prompt) -> None:
        arguments = prompt.arguments if is_list(prompt.arguments) else []
        keys = [(one.name, "str", one.required is True) for one in arguments]
        parameters = _named(keys)
        sent = _sent_of(parameters)
        body = f"return await self.client.get_prompt({_literal(prompt.name)}, {sent})"
        self._add(f"{prompt.name}_prompt", prompt.description, parameters, "dovetail.GetPromptResult", [body])

    def _parameters(self, schema: dict[str, Any], owner: str) -> list[_Parameter]:
        types = _Types(self, schema, owner)
        whole = resolved(schema, schema)
        properties = whole.get("properties")
        required = whole.get("required")
        wanted: set[Any] = set(required) if is_list(required) else set()
        return _named(
            [
                (key, types.of(one, owner + _pascal(key)), key in wanted)
                for key, one in (properties if is_object(properties) else {}).items()
            ]
        )

    def _call(self, tool: str, parameters: list[_Parameter], returns: str) -> list[str]:
        sent = _sent_of(parameters)
        call = f"await self.client.call_tool({_literal(tool)}, {sent}, timeout=timeout)"
        if returns == "ToolResult":
            return [f"return {call}"]
        return [f"result = {call}", f"return msgspec.convert(result.data, {returns})"]

    def _add(
        self, name: str, description: Any, parameters: list[_Parameter], returns: str, body: list[str]
    ) -> None:
        method = _identifier(name)
        while method in self._taken:
            method += "_"
        self._taken.add(method)
        ordered = sorted(parameters, key=lambda one: not one.required)
        words = [f"{one.name}: {one.type}" if one.required else f"{one.name}: {one.type} | UnsetType = UNSET"
                 for one in ordered]  # fmt: skip
        timeout = ["*", "timeout: float | None = None"] if "call_tool" in body[0] else []
        signature = ", ".join(["self", *words, *timeout])
        lines = [f"    async def {method}({signature}) -> {returns}:"]
        if isinstance(description, str) and description:
            lines.append(f"        {_docstring(description)}")
        lines += [f"        {line}" for line in body]
        self._methods.append("\n".join(lines) + "\n")

    def add_class(self, name: str, description: Any, fields: list[tuple[str, str, bool]]) -> None:
        """Write a dataclass. The required fields come first, as a constructor by position would need."""
        lines = ["@dataclass(frozen=True, kw_only=True)", f"class {name}:"]
        if isinstance(description, str) and description:
            lines.append(f"    {_docstring(description)}")
        lines += [
            f"    {key}: {type}" if required else f"    {key}: {type} | UnsetType = UNSET"
            for key, type, required in fields
        ]
        if not fields:
            lines.append("    pass")
        self._classes.append("\n".join(lines) + "\n")

    def unique_class(self, wanted: str) -> str:
        return self._unique(wanted)

    def _unique(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self._names:
            name, number = f"{wanted}{number}", number + 1
        self._names.add(name)
        return name

    def text(self) -> str:
        parts = [_HEAD.format(title=_inside_docstring(f"Typed client of the server {self._server!r}."))]
        parts += [f"\n{one}\n" for one in self._classes]
        parts.append(_HELPERS)
        if self._results:
            parts.append("\n_RESULTS: dict[str, Any] = {\n" + "".join(self._results) + "}\n\n")
        else:
            parts.append("\n_RESULTS: dict[str, Any] = {}\n\n")
        parts.append(
            f"\nclass {self._client}:\n"
            f"    {_docstring(f'The tools and prompts of {self._server!r}, over an open client.')}\n\n"
            "    def __init__(self, client: dovetail.Client) -> None:\n        self.client = client\n\n"
        )
        parts.append("\n".join(self._methods))
        if len(self._overloads) > 1:
            parts.append(
                "\n"
                + "".join(self._overloads)
                + "    async def call(self, name: str, arguments: dict[str, Any]) -> Any:\n"
                '        """Call a tool by its name."""\n'
                "        result = await self.client.call_tool(name, arguments)\n"
                "        kind = _RESULTS.get(name)\n"
                "        return result if kind is None else msgspec.convert(result.data, kind)\n"
            )
        return "".join(parts)


class _Parameter:
    def __init__(self, key: str, name: str, type: str, *, required: bool) -> None:
        self.key, self.name, self.type, self.required = key, name, type, required


class _Types:
    """The annotations for the schemas of one document."""

    def __init__(self, module: _Module, root: dict[str, Any], owner: str) -> None:
        self._module = module
        self._root = root
        self._owner = owner
        self._known: dict[str, str] = {}

    def of(self, schema: Any, owner: str | None = None, depth: int = 0) -> str:
        """The annotation for values of ``schema``; a dataclass is named after ``owner``."""
        owner = self._owner if owner is None else owner
        if depth > MAX_DEPTH or not isinstance(schema, Mapping):
            return "Any"
        given = cast("Mapping[str, Any]", schema)
        reference = given.get("$ref")
        if isinstance(reference, str):
            if reference in self._known:
                return self._known[reference]
            owner = _pascal(definition_name(reference)) or owner
        whole = resolved(given, self._root)
        for key in ("enum", "const"):
            if key in whole:
                values = whole[key] if key == "enum" else [whole[key]]
                return _literals(values) if is_list(values) else "Any"
        for key in ("anyOf", "oneOf"):
            if is_list(whole.get(key)):
                return _union([self.of(one, owner, depth + 1) for one in whole[key]])
        declared = whole.get("type")
        if is_list(declared):
            return _union([self.of({**whole, "type": one}, owner, depth + 1) for one in declared])
        if declared in _SCALARS:
            return _SCALARS[cast("str", declared)]
        if declared == "array":
            items = whole.get("items")
            return f"list[{self.of(items, owner + 'Item', depth + 1)}]" if is_object(items) else "list[Any]"
        if declared == "object" or is_object(whole.get("properties")):
            return self._object(whole, owner, reference, depth)
        return "Any"

    def _object(self, schema: Mapping[str, Any], owner: str, reference: Any, depth: int) -> str:
        properties = schema.get("properties")
        if not is_object(properties) or not properties:
            more = schema.get("additionalProperties")
            return (
                f"dict[str, {self.of(more, owner + 'Value', depth + 1)}]"
                if is_object(more)
                else "dict[str, Any]"
            )
        if any(_identifier(key) != key for key in properties):
            return "dict[str, Any]"  # not every member can be a field
        same = msgspec.json.encode([owner, schema, self._root.get("$defs")])
        written = self._module.written.get(same)
        if written is not None:
            return written
        name = self._module.written[same] = self._module.unique_class(owner)
        if isinstance(reference, str):
            self._known[reference] = name  # a schema can refer to itself
        required = schema.get("required")
        wanted: set[Any] = set(required) if is_list(required) else set()
        fields = [
            (key, self.of(one, owner + _pascal(key), depth + 1), key in wanted)
            for key, one in properties.items()
        ]
        self._module.add_class(name, schema.get("description"), fields)
        return name


def _union(types: list[str]) -> str:
    """A union that msgspec can decode; Any where it could not tell the members apart."""
    members = list(dict.fromkeys(types))
    objects = [one for one in members if one[0].isupper() and not one.startswith(("None", "Literal"))]
    dicts = [one for one in members if one.startswith("dict")]
    lists = [one for one in members if one.startswith("list")]
    literals = [one for one in members if one.startswith("Literal")]
    if "Any" in members or len(objects) + len(dicts) > 1 or len(lists) > 1 or (literals and "str" in members):
        return "Any"
    return " | ".join(members)


def _literals(values: list[Any]) -> str:
    if not values or not all(value is None or isinstance(value, _PLAIN) for value in values):
        return "Any"
    if any(isinstance(value, bool) for value in values):
        return _union(["bool" if isinstance(value, bool) else "Any" for value in values])
    return f"Literal[{', '.join(_literal(value) for value in values)}]"


def _literal(value: Any) -> str:
    """A Python literal of a plain value, in ASCII."""
    return ascii(value)


def _named(keys: list[tuple[str, str, bool]]) -> list[_Parameter]:
    found: list[_Parameter] = []
    taken = {"self", "timeout"}
    for key, type, required in keys:
        name = _identifier(key)
        while name in taken:
            name += "_"
        taken.add(name)
        found.append(_Parameter(key, name, type, required=required))
    return found


def _sent_of(parameters: list[_Parameter]) -> str:
    pairs = ", ".join(f"{_literal(one.key)}: {one.name}" for one in parameters)
    return f"_sent(**{{{pairs}}})"


def _identifier(name: str) -> str:
    """A name of the server as a Python identifier in ASCII."""
    found = (
        re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_")
        if not name.isidentifier() or not name.isascii()
        else name
    )
    if not found or found[0].isdigit():
        found = f"n{found}"
    hides = keyword.iskeyword(found) or found in _RESERVED or found.startswith("_")
    return f"{found.lstrip('_') or 'n'}_" if hides else found


def _pascal(name: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", name)
    found = "".join(word[:1].upper() + word[1:] for word in words)
    return f"N{found}" if not found or found[0].isdigit() else found


def _docstring(text: str) -> str:
    return f'"""{_inside_docstring(text)}"""'


def _inside_docstring(text: str) -> str:
    """Text of the server as the inside of a docstring of one line: nothing in it can end the string."""
    line = " ".join(text.split())
    return ascii(line)[1:-1].replace('"', '\\"').replace("\\'", "'")
