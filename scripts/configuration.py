"""Write docs/configuration.md, and the generated tables of the other pages.

usage: configuration.py [--check] — with --check, fail if a page is not up to date.

docs/configuration.md has every option with its type, default, meaning, environment variable and flag. Other pages mark
where a table belongs, and this script fills it in: ``<!-- options NAME -->`` … ``<!-- /options -->`` (the options of a
class), ``metrics``, ``errors``, ``refusals`` and ``commands``.

The meanings are the docstrings of the options: one string below each member of an option struct, or the ``Args:``
section of ``__init__``. Flags and their meanings come from the commands' argument parsers.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import msgspec

from dovetail import Server, auth, gateway, settings, stores
from dovetail.auth.proxy.oauth_proxy import ProxySettings
from dovetail.cli.main import COMMANDS, GROUPS
from dovetail.cli.option_sources import PREFIX
from dovetail.client.client_config import (
    CachedOptions,
    CallOptions,
    ClientOptions,
    RequestOptions,
)
from dovetail.client.client_config import ToolCallOptions as CallToolOptions
from dovetail.command_parser import EXAMPLES
from dovetail.error_causes import CAUSES
from dovetail.extensions import App, Extension, Skills
from dovetail.gateway.gateway_config import SearchOptions
from dovetail.kinds import KINDS, REFUSALS
from dovetail.server.composition import TransformOptions
from dovetail.server.input_requests.request_kinds import SampleOptions
from dovetail.server.registry import component_options
from dovetail.server.registry.custom_methods import MethodOptions
from dovetail.telemetry.metric_definitions import FAMILIES

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "configuration.md"
TABLE = re.compile(
    r"(<!-- (options|metrics|errors|refusals|commands)(?: (\w+))? -->\n).*?(<!-- /\2 -->)", re.DOTALL
)
"""A generated table of another page."""

INTRODUCTION = """\
# Configuration

All options of Dovetail. `scripts/configuration.py` generates this page from the docstrings.

Options of `dovetail run` come from the command line, else from the environment (`DOVETAIL_…`), else from a `.env`
file, else from the default. In the environment, switches are on with `1`, `true`, `yes` or `on`, and several values
are separated by commas. Times are seconds and sizes are bytes, unless the name of the option says otherwise.
"""

VARIABLES = {
    "DOVETAIL_STORE": "The URL of the store, as `--store`; `Server` and all commands that serve read it.",
    "DOVETAIL_SEAL_KEYS": "Keys of 32 bytes, in hex or base64url, separated by commas; the first one seals. All "
    "workers need the same keys.",
    "DOVETAIL_TOKEN": "The bearer token: of commands that connect to a server, and of the caller of a server over "
    "stdio.",
    "DOVETAIL_CLIENT_SECRET": "The client secret for `dovetail login`.",
    "DOVETAIL_AUDIT_KEY": "The key that signs audit files.",
    "DOVETAIL_METRICS": "`1` serves `/metrics`; a folder name also shares the metrics of several processes.",
    "DOVETAIL_METRICS_TOKEN": "The bearer token that scrapers of `/metrics` must send.",
    "DOVETAIL_INPUT_NAME": "The value of the input NAME in a file of servers, for a gateway without a terminal.",
    "DOVETAIL_CRASH_DIR": "The folder for crash reports; by default `dovetail/crashes` below `$XDG_STATE_HOME`.",
}
INTERNAL = {"DOVETAIL_RELOAD", "DOVETAIL_GATEWAYS"}
"""Variables that Dovetail sets for its own child processes."""

OMITTED = {"clock", "sleep"}
"""Parameters for tests."""

FLAGS = {
    "Server.store": "--store",
    "HttpOptions.allowed_hosts": "--allowed-host",
    "HttpOptions.allowed_origins": "--allowed-origin",
    "HttpOptions.stateless": "--stateless",
    "HttpOptions.json_only": "--json-only",
    "HttpOptions.metrics": "--metrics",
}
"""Options that `dovetail run` has as flags, too."""
ENVIRONMENT = {
    "Server.seal_keys": "DOVETAIL_SEAL_KEYS",
    "HttpOptions.metrics_token": "DOVETAIL_METRICS_TOKEN",
    "Audit.key": "DOVETAIL_AUDIT_KEY",
}
"""Options with a variable of another name."""


class Option(NamedTuple):
    """One row of a table."""

    name: str
    type: str
    default: str
    meaning: str
    flag: str = ""
    variable: str = ""


def middleware() -> list[type[Any]]:
    module = importlib.import_module("dovetail.middleware")
    found = (getattr(module, name) for name in module.__all__)
    return sorted(
        (one for one in found if inspect.isclass(one) and one.__name__ != "Middleware" and has_options(one)),
        key=lambda one: one.__name__,
    )


def has_options(kind: type[Any]) -> bool:
    """Whether ``kind`` is made with options: not an error, a protocol or an abstract class."""
    if issubclass(kind, BaseException) or getattr(kind, "_is_protocol", False):
        return False
    return "__init__" in vars(kind) and len(inspect.signature(kind).parameters) > 0


SERVER_AUTH = (
    "JwtVerifier",
    "IntrospectionVerifier",
    "StaticTokens",
    "ApiKeys",
    "AnyOf",
    "OAuthProxy",
    "OidcProxy",
)
CLIENT_AUTH = (
    "OAuth", "ClientCredentials", "DeviceCode", "WorkloadIdentity", "IdentityAssertion", "DPoP", "TokenExchange",
    "TokenStore", "KeyringStore",
)  # fmt: skip


def sections() -> Iterator[tuple[str, list[type[Any]]]]:
    """The headings of the page, and the classes below each."""
    yield "Server", [Server, settings.Limits, settings.HttpOptions, settings.TaskOptions]
    options = component_options
    yield (
        "Tools, resources and prompts",
        [options.ToolOptions, options.ResourceOptions, options.PromptOptions, App, MethodOptions],
    )
    yield "Composition and sampling", [TransformOptions, SampleOptions]
    yield "Client", [ClientOptions, settings.Timeouts, settings.Reconnect]
    yield "Calls", [CallOptions, CachedOptions, CallToolOptions, RequestOptions]
    yield "Middleware", middleware()
    yield "Stores", [stores.MemoryStore, stores.SqliteStore, stores.RedisStore]
    yield "Authentication of a server", [*(getattr(auth, name) for name in SERVER_AUTH), ProxySettings]
    yield "Authentication of a client", [getattr(auth, name) for name in CLIENT_AUTH]
    yield "Proxy and gateway", [gateway.Proxy, gateway.Gateway, SearchOptions]
    yield "Extensions", [Extension, Skills]


def options_of(kind: type[Any]) -> list[Option]:
    """The options of a struct, a TypedDict or a class with a constructor."""
    if issubclass(kind, msgspec.Struct):
        found = list(struct_options(kind))
    elif hasattr(kind, "__total__"):
        found = [
            Option(name, type_, "", meaning)
            for base in reversed(list(typed_dicts(kind)))
            for name, type_, meaning in documented_members(base)
        ]
    else:
        found = list(constructor_options(kind))
    return [with_sources(kind.__name__, one) for one in found if one.name not in OMITTED]


def with_sources(owner: str, option: Option) -> Option:
    key = f"{owner}.{option.name}"
    flag = FLAGS.get(key, "")
    variable = ENVIRONMENT.get(key) or (variable_of(flag) if flag else "")
    return option._replace(flag=flag, variable=variable)


def variable_of(flag: str) -> str:
    return PREFIX + flag.removeprefix("--").replace("-", "_").upper()


@cache
def syntax(kind: type[Any]) -> ast.ClassDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef))


def documented_members(kind: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Name, type and docstring of each annotated member."""
    body = syntax(kind).body
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = " ".join(str(after.value.value).split())
            yield node.target.id, ast.unparse(node.annotation), text


def typed_dicts(kind: type[Any]) -> Iterator[type[Any]]:
    """A TypedDict and the ones it inherits from; Python 3.11 knows them by their names in the source alone."""
    yield kind
    for base in syntax(kind).bases:
        found = getattr(sys.modules[kind.__module__], base.id, None) if isinstance(base, ast.Name) else None
        if hasattr(found, "__total__"):
            yield from typed_dicts(cast("type[Any]", found))


def struct_options(kind: type[msgspec.Struct]) -> Iterator[Option]:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name, type_, meaning in documented_members(kind):
        if name in fields:
            yield Option(name, type_, default_of(fields[name]), meaning)


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return shown(field.default)
    return "required" if field.default_factory is msgspec.NODEFAULT else shown(field.default_factory())


def constructor_options(kind: type[Any]) -> Iterator[Option]:
    function = vars(kind)["__init__"]
    meanings = arguments_section(inspect.getdoc(function) or "")
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        type_ = str(parameter.annotation)
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if prefix else "required"
        if parameter.default is not parameter.empty:
            default = shown(parameter.default)
        yield Option(prefix + name, type_, default, meanings.get(name, ""))


def arguments_section(text: str) -> dict[str, str]:
    """The ``Args:`` section of a docstring, by parameter."""
    _, _, section = text.partition("Args:\n")
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \w)", section):
        name, _, meaning = entry.strip().partition(": ")
        found[name] = " ".join(meaning.split())
    return found


def shown(value: Any) -> str:
    """A default as it is written in code; sizes as powers of two."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int) and value >= 4096 and value % 1024 == 0:
        for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value % factor == 0:
                return f"{value} ({value // factor} {unit})"
    if isinstance(value, Mapping | tuple | list | str | int | float):
        text = repr(dict(value)) if isinstance(value, Mapping) else repr(value)
        return text if len(text) < 60 else "see the meaning"
    if isinstance(value, set | frozenset):
        return repr(sorted(value)) if value else "()"
    return f"{getattr(value, '__name__', value)}"


class _Captured(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def parser_of(command: str) -> argparse.ArgumentParser:
    """The argument parser of a command, caught when the command begins to use it."""

    def capture(self: argparse.ArgumentParser, *_: Any, **__: Any) -> Any:
        raise _Captured(self)

    with patch.object(argparse.ArgumentParser, "parse_known_args", capture):
        try:
            importlib.import_module(COMMANDS[command][0]).main(command, ["x"])
        except _Captured as found:
            return found.parser
    raise LookupError(f"dovetail {command} has no argument parser")


def flags_of(command: str) -> Iterator[Option]:
    """The flags of a command. Only `dovetail run` reads the environment for each of them."""
    for action in parser_of(command)._actions:  # argparse has no other list of its options
        if not action.option_strings or action.dest == "help":
            continue
        flag = max(action.option_strings, key=len)
        metavar = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
        if action.choices is not None:
            metavar = "|".join(map(str, action.choices))
        default = "" if action.default in (None, False, [], argparse.SUPPRESS) else shown(action.default)
        variable = (
            f"{PREFIX}{action.dest.upper()}"
            if command == "run" and action.dest not in ("env", "env_file")
            else ""
        )
        text = re.sub(r" \(default: [^)]*\)$", "", (action.help or "") % {"default": action.default})
        yield Option(flag, str(metavar), default, text, variable=variable)


def table(options: list[Option], *, flags: bool = False) -> Iterator[str]:
    sourced = any(one.flag or one.variable for one in options)
    head = ["flag", "value"] if flags else ["option", "type"]
    head += ["default", "meaning"]
    if sourced:
        head += ["environment"] if flags else ["environment", "flag"]
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for one in options:
        cells = [
            f"`{one.name}`",
            code(one.type),
            code(one.default),
            one.meaning.replace("``", "`").replace("|", r"\|"),
        ]
        if sourced:
            cells += [code(one.variable)] if flags else [code(one.variable), code(one.flag)]
        yield f"| {' | '.join(cells)} |"


def code(text: str) -> str:
    if text in ("required", "see the meaning"):
        return text
    return f"`{text}`".replace("|", r"\|") if text else ""


def title(kind: type[Any]) -> str:
    """How the options of ``kind`` are given."""
    titles = {
        ClientOptions: "Client(…)", CallOptions: "Every call", CachedOptions: "Lists and `read_resource`",
        CallToolOptions: "`call_tool`", RequestOptions: "`request`", ProxySettings: "Options of both proxies",
        component_options.ToolOptions: "`@server.tool`", component_options.ResourceOptions: "`@server.resource`",
        component_options.PromptOptions: "`@server.prompt`", SearchOptions: "Member `search` of a file of servers",
        MethodOptions: "`server.add_method`", TransformOptions: "`server.transform`",
        SampleOptions: "`ctx.sample`",
    }  # fmt: skip
    return titles.get(kind, f"{kind.__name__}(…)").replace("ClientOptions", "Client")


def page() -> str:
    lines = [INTRODUCTION, "## Environment", "", "| variable | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in VARIABLES.items()]
    for heading, kinds in sections():
        lines += ["", f"## {heading}"]
        for kind in kinds:
            lines += ["", f"### {title(kind)}", "", *table(options_of(kind))]
    lines += ["", "## Command line", "", "`dovetail COMMAND --help` shows the arguments too."]
    for command, (_, summary) in COMMANDS.items():
        if found := list(flags_of(command)):
            lines += ["", f"### dovetail {command}", "", f"{summary[0].upper()}{summary[1:]}.", ""]
            lines += table(found, flags=True)
    return "\n".join(lines) + "\n"


# --- tables of other pages -----------------------------------------------------------------------------------------


def filled(text: str) -> str:
    """``text`` with its marked tables written again."""

    def table_of(found: re.Match[str]) -> str:
        start, what, name, end = found.groups()
        lines = list(option_table(name)) if what == "options" else list(TABLES[what]())
        return start + "\n".join(lines) + "\n" + end

    return TABLE.sub(table_of, text)


def option_table(name: str) -> Iterator[str]:
    """The table of the class ``name``, without the columns of flags and variables."""
    kind = next((one for _, kinds in sections() for one in kinds if one.__name__ == name), None)
    if kind is None:
        raise LookupError(f"<!-- options {name} --> names a class that docs/configuration.md does not have")
    return table([one._replace(flag="", variable="") for one in options_of(kind)])


def metrics() -> Iterator[str]:
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for name, family in FAMILIES.items():
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{name}` | {family.kind} | {labels} | {sentence(family.help)} |"


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def errors() -> Iterator[str]:
    yield "| kind | legacy | 2026-07-28 | HTTP | cause | fix |"
    yield "|---|---|---|---|---|---|"
    for name, kind in KINDS.items():
        sent = kind.delivery not in ("local", "drop", "registration")
        codes = (kind.legacy, kind.modern, kind.status) if sent else ("", "", "")
        cells = [f"`{name}`", *map(str, codes), *map(cell, CAUSES[name])]
        yield f"| {' | '.join(cells)} |"


def refusals() -> Iterator[str]:
    yield "| code | kind | message | HTTP |"
    yield "|---|---|---|---|"
    for code, name in sorted(REFUSALS.items()):
        yield f"| {code} | `{name}` | {KINDS[name].message} | {KINDS[name].status} |"


def commands() -> Iterator[str]:
    for group, names in GROUPS.items():
        yield from ("", f"### {group.capitalize()}", "", "| command | purpose | example |", "|---|---|---|")
        for name in names:
            purpose = cell(sentence(COMMANDS[name][1]))
            yield f"| [`dovetail {name}`](configuration.md#dovetail-{name}) | {purpose} | `{EXAMPLES[name]}` |"
    yield ""


def cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


TABLES = {"metrics": metrics, "errors": errors, "refusals": refusals, "commands": commands}


def pages() -> Iterator[tuple[Path, str]]:
    """Each page that this script writes, and its text."""
    yield PAGE, page()
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text()
        if path != PAGE and TABLE.search(text):
            yield path, filled(text)


def main() -> int:
    outdated = [(path, text) for path, text in pages() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        return int(bool(outdated))
    for path, text in outdated:
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
