"""Rewrite servers, contexts and types of a program; `imports` does the imports afterwards.

Code that cannot be migrated stays unchanged, with a comment above its statement or decorator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import libcst as cst

from .call_arguments import fit, joined, named
from .call_rewrites import message, mounted, run_arguments, template
from .name_tables import (
    CONSTRUCTORS,
    CONTEXT_MEMBERS,
    CONTEXT_METHODS,
    CONTEXTS,
    GET_CONTEXT,
    HTTP_NAMES,
    MESSAGES,
    MOVED,
    NAMES,
    REQUEST,
    REQUEST_MEMBERS,
    RUNNING,
    SERVER_MEMBERS,
    SERVER_METHODS,
    SERVERS,
)
from .program_analysis import Meaning, Reading, dotted, family, literal, parameters_of

MARK: Final = "# dovetail: "
_PLACES: Final = (
    cst.SimpleStatementLine, cst.Decorator, cst.FunctionDef, cst.ClassDef, cst.If, cst.For, cst.While, cst.With,
    cst.Try, cst.ExceptHandler, cst.Match,
)  # fmt: skip


def marked(node: Any, words: Sequence[str]) -> Any:
    """Return ``node`` with comments above it, without duplicates."""
    known = {line.comment.value for line in node.leading_lines if line.comment is not None}
    new = [MARK + word for word in dict.fromkeys(words) if MARK + word not in known]
    lines = [cst.EmptyLine(comment=cst.Comment(word)) for word in new]
    return node.with_changes(leading_lines=[*node.leading_lines, *lines])


class _Function:
    """The function that is being visited, and its names of contexts and requests."""

    def __init__(self, contexts: dict[str, str], requests: set[str], *, waits: bool) -> None:
        self.contexts, self.requests, self.waits = contexts, requests, waits


class Rewriting(cst.CSTTransformer, Meaning):
    """Rewrites a program; `needed` are the names of Dovetail that it uses afterwards."""

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self.imported, self._reading = reading.imported, reading
        self.needed: set[str] = set()
        foreign = {name for name in reading.imported.values() if family(name) == "starlette"}
        self._http = reading.routes and foreign <= HTTP_NAMES.keys()
        self.names = {**NAMES, **(HTTP_NAMES if self._http else {})}
        if reading.low_level and not reading.servers:
            self.names = {}  # it keeps the other library, and its types
        self._marks: list[list[str]] = []
        self._functions = [_Function({}, set(), waits=False)]
        self._targets: dict[int, str] = {}
        self._awaited: set[int] = set()
        self._plain: set[int] = set()  # calls that need no parentheses around an await
        self._moved: dict[str, list[cst.Arg]] = {}
        self._registered: set[tuple[str, str, str]] = set()
        self._annotations = 0

    # Comments

    def mark(self, words: str) -> None:
        self._marks[-1].append(words)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _PLACES):
            self._marks.append([])
        return super().on_visit(node)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        updated = super().on_leave(original_node, updated_node)
        if isinstance(original_node, _PLACES) and (words := self._marks.pop()):
            return marked(updated, words)
        return updated

    # Names

    def spell(self, native: str) -> cst.BaseExpression:
        """Return a name of Dovetail: the short one, unless the program uses it for something else."""
        name = native.removeprefix("dovetail.")
        clash = name in self._reading.bound or self.imported.get(name, native) not in (native, *self.names)
        self.needed.add(native if clash else name)
        return cst.parse_expression(native if clash else name)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        name = self.of(original_node) if original_node.value in self.imported else None
        return self.spell(self.names[name]) if name in self.names else updated_node

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._annotations += 1

    def leave_Annotation(self, original_node: cst.Annotation, updated_node: cst.Annotation) -> cst.Annotation:
        self._annotations -= 1
        return updated_node

    def leave_SimpleString(
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.SimpleString:
        if not self._annotations:
            return updated_node

        def ours(match: re.Match[str]) -> str:
            native = self.names.get(self.imported.get(match[0], ""))
            return match[0] if native is None else dotted(self.spell(native))

        return updated_node.with_changes(value=re.sub(r"\b[A-Za-z_]\w*\b", ours, updated_node.value))

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        generic = self.of(original_node.value) in CONTEXTS | SERVERS
        return updated_node.value if generic else updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        return updated_node.with_changes(name=original_node.name)

    # Members

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        text = dotted(node)
        owner, rest = self._owned(text)
        if not rest or self._known(owner, rest):
            return not rest
        if any(self._known(owner, rest[: len(rest) - len(tail)]) for tail in _tails(rest)):
            return True
        self.mark(f"{rest.partition('.')[0]} of {owner} has no counterpart in Dovetail")
        return False

    def _owned(self, text: str) -> tuple[str, str]:
        """Split ``text`` after the context, request or server that it begins with."""
        here = self._functions[-1]
        for owner in (*here.contexts, *here.requests, *self._reading.servers):
            if owner and text.startswith(owner + "."):
                return owner, text[len(owner) + 1 :]
        return "", ""

    def _known(self, owner: str, member: str) -> bool:
        here = self._functions[-1]
        if owner in here.contexts:
            return member in CONTEXT_MEMBERS
        if owner in here.requests:
            return member in REQUEST_MEMBERS
        return member in SERVER_METHODS or member in SERVER_MEMBERS

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        name = self.of(original_node)
        if name in self.names:
            return self.spell(self.names[name])
        owner, rest = self._owned(dotted(original_node))
        if not rest or not self._known(owner, rest):
            return updated_node.with_changes(attr=original_node.attr)
        here = self._functions[-1]
        if owner in here.contexts:
            return cst.parse_expression(f"{owner}.{CONTEXT_MEMBERS[rest]}")
        if owner in here.requests:
            return updated_node.with_changes(attr=cst.Name(REQUEST_MEMBERS[rest]))
        ours = SERVER_METHODS[rest][0] if rest in SERVER_METHODS else rest
        return updated_node.with_changes(attr=cst.Name(ours))

    # Functions and classes

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        outer = self._functions[-1]
        contexts = {**outer.contexts, **parameters_of(self, node.params, CONTEXTS)}
        requests = set(parameters_of(self, node.params, {REQUEST})) if self._http else set[str]()
        self._functions.append(
            _Function(contexts, outer.requests | requests, waits=node.asynchronous is not None)
        )
        for decorator in node.decorators:
            self._register(decorator.decorator, node.name.value)

    def _register(self, node: cst.BaseExpression, function: str) -> None:
        call = node if isinstance(node, cst.Call) else None
        owner, kind = self._owned(dotted(node if call is None else call.func))
        if owner not in self._reading.servers or kind not in ("tool", "prompt", "resource"):
            return
        said = [
            one
            for one in (call.args if call else ())
            if one.keyword is None or one.keyword.value in ("name", "uri")
        ]
        name = (literal(said[0].value) if said else None) or function
        if (owner, kind, name) in self._registered:
            self.mark(f"{name} is registered twice, which is an error in Dovetail")
        self._registered.add((owner, kind, name))

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._functions.pop()
        return updated_node.with_changes(name=original_node.name)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        if any(self.of(base.value) in SERVERS for base in node.bases):
            self.mark(f"{node.name.value} is a subclass of FastMCP: check the methods that it overrides")

    # Calls

    def visit_Assign(self, node: cst.Assign) -> None:
        self._targets[id(node.value)] = dotted(node.targets[0].target)
        self._plain.add(id(node.value))
        call = node.value if isinstance(node.value, cst.Call) else None
        if call is not None and self._gives_context(call):
            found = family(self.of(call.func) or "mcp")
            self._functions[-1].contexts[dotted(node.targets[0].target)] = found

    def _gives_context(self, call: cst.Call) -> bool:
        owner, rest = self._owned(dotted(call.func))
        return self.of(call.func) in GET_CONTEXT or (owner in self._reading.servers and rest == "get_context")

    def visit_Expr(self, node: cst.Expr) -> None:
        self._plain.add(id(node.value))

    def visit_Await(self, node: cst.Await) -> None:
        self._awaited.add(id(node.expression))

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        call = original_node.expression
        owner, rest = self._owned(dotted(call.func)) if isinstance(call, cst.Call) else ("", "")
        direct = owner in self._functions[-1].requests or rest == "import_server"
        return updated_node.expression if direct and rest else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = self.of(original_node.func)
        if name in MESSAGES:
            return self._message(name, updated_node)
        if name in SERVERS:
            return self._server(name, self._targets.get(id(original_node), ""), updated_node)
        if name in CONSTRUCTORS and name in self.names:
            return self._fitted(updated_node, *fit(updated_node.args, CONSTRUCTORS[name]))
        owner, rest = self._owned(dotted(original_node.func))
        if owner in self._functions[-1].contexts:
            return self._context_call(owner, rest, original_node, updated_node)
        if owner in self._functions[-1].requests and rest == "body":
            return updated_node.func
        if owner in self._reading.servers and rest in SERVER_METHODS:
            return self._server_call(owner, rest, original_node, updated_node)
        return updated_node

    def _fitted(self, call: cst.Call, arguments: list[cst.Arg], unknown: list[str]) -> cst.Call:
        for word in unknown:
            self.mark(f"{word} cannot be migrated")
        return call.with_changes(args=arguments)

    def _message(self, name: str, call: cst.Call) -> cst.BaseExpression:
        made = message(
            call, MESSAGES[name], self.spell("dovetail.PromptMessage"), self.spell("dovetail.TextContent")
        )
        if made is None:
            self.mark("use PromptMessage(role, content) for messages of prompts")
        return made or call

    def _server(self, name: str, target: str, call: cst.Call) -> cst.Call:
        transports = self._reading.transports.get(target, {"?"})
        away = [one for one in call.args if one.keyword is not None and one.keyword.value in MOVED]
        if "?" not in transports:
            self._moved[target] = [named(MOVED[one.keyword.value], one.value) for one in away if one.keyword]
            call = call.with_changes(args=joined(call.args, [one for one in call.args if one not in away]))
        arguments, unknown = fit(call.args, CONSTRUCTORS[name])
        if not any(one.keyword is None or one.keyword.value == "name" for one in arguments):
            usual = "mcp-server" if name.endswith(".MCPServer") else "FastMCP"
            arguments = joined(call.args, [cst.Arg(cst.SimpleString(f'"{usual}"')), *arguments])
        return self._fitted(call, arguments, unknown)

    def _server_call(self, owner: str, method: str, before: cst.Call, call: cst.Call) -> cst.BaseExpression:
        if method == "get_context":
            return call.with_changes(func=self.spell("dovetail.get_context"))
        if method in RUNNING:
            arguments, unknown = run_arguments(call, RUNNING[method][1], self._moved.get(owner, []))
            return self._fitted(call, arguments, unknown)
        if method == "custom_route" and not self._http:
            self.mark("a route takes dovetail.RouteRequest and returns dovetail.RouteResponse, text or JSON")
        if method == "add_tool" and len(before.args) == 1 and isinstance(before.args[0].value, cst.Call):
            return self._made_tool(before.args[0].value, call)
        if method in ("mount", "import_server"):
            call = mounted(call)
        arguments, unknown = fit(call.args, SERVER_METHODS[method][1])
        if method == "resource":
            arguments = template(arguments)
        return self._fitted(call, arguments, unknown)

    def _made_tool(self, made: cst.Call, call: cst.Call) -> cst.Call:
        if not (self.of(made.func) or "").endswith("Tool.from_function"):
            return call
        arguments, unknown = fit(made.args, SERVER_METHODS["add_tool"][1])
        return self._fitted(call, joined(call.args, arguments), unknown)

    def _context_call(self, owner: str, method: str, before: cst.Call, call: cst.Call) -> cst.BaseExpression:
        here = self._functions[-1]
        form = CONTEXT_METHODS[here.contexts[owner]].get(method)
        if form is None:
            return call
        arguments, unknown = fit(call.args, form)
        call = self._fitted(call, arguments, unknown)
        given = {one.keyword.value for one in arguments if one.keyword}
        if method == "log" and not form.leads and "level" not in given:
            call = call.with_changes(args=[*arguments, named("level", cst.SimpleString('"info"'))])
        if not method.endswith("_state") or id(before) in self._awaited:
            return call
        if not here.waits:
            self.mark("access to the state must be awaited: make this function async")
            return call
        around = [] if id(before) in self._plain else [1]
        return cst.Await(
            call, lpar=[cst.LeftParen() for _ in around], rpar=[cst.RightParen() for _ in around]
        )


def _tails(text: str) -> list[str]:
    """Return the suffixes of ``a.b.c``: ``.c``, ``.b.c``."""
    places = [place for place, letter in enumerate(text) if letter == "."]
    return [text[place:] for place in reversed(places)]
