"""Rewrite calls that need more than new argument names."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from .call_arguments import fit, joined
from .name_tables import SERVER_METHODS, TRANSPORTS
from .program_analysis import literal


def message(
    call: cst.Call, role: str, maker: cst.BaseExpression, text: cst.BaseExpression
) -> cst.BaseExpression | None:
    """Return ``Message("…", role="…")`` as `PromptMessage`; None if the content may be more than text."""
    content: cst.BaseExpression | None = None
    said: cst.BaseExpression = cst.SimpleString(f'"{role}"')
    for place, one in enumerate(call.args):
        word = one.keyword.value if one.keyword is not None else ("content", "role")[min(place, 1)]
        if word == "content":
            content = one.value
        elif word == "role":
            said = one.value
        else:
            return None
    if not isinstance(content, cst.SimpleString | cst.FormattedString | cst.ConcatenatedString):
        return None
    return cst.Call(maker, [cst.Arg(said), cst.Arg(cst.Call(text, [cst.Arg(content)]))])


def mounted(call: cst.Call) -> cst.Call:
    """Put the server before its prefix: old versions of FastMCP have the opposite order."""
    first = call.args[:2]
    if len(first) == 2 and all(one.keyword is None for one in first) and literal(first[0].value) is not None:
        swapped = [first[0].with_changes(value=first[1].value), first[1].with_changes(value=first[0].value)]
        return call.with_changes(args=[*swapped, *call.args[2:]])
    return call


def template(arguments: Sequence[cst.Arg]) -> list[cst.Arg]:
    """Rewrite ``{path*}``, which matches slashes, as ``{+path}`` of RFC 6570."""
    if not arguments or not isinstance(arguments[0].value, cst.SimpleString):
        return list(arguments)
    uri = arguments[0].value
    new = uri.with_changes(value=re.sub(r"\{(\w+)\*\}", r"{+\1}", uri.value))
    return [arguments[0].with_changes(value=new), *arguments[1:]]


def run_arguments(
    call: cst.Call, transport: str | None, moved: Sequence[cst.Arg]
) -> tuple[list[cst.Arg], list[str]]:
    """Return the arguments of ``run`` and ``serve``: the transport, then arguments of the former constructor."""
    arguments, unknown = fit(call.args, SERVER_METHODS["run"][1])
    if transport is None and arguments and arguments[0].keyword is None:
        said = literal(arguments[0].value)
        transport = TRANSPORTS.get(said or "")
        if transport is None:
            return arguments, [*unknown, "the transport is not a literal: use stdio, http or sse"]
        arguments = arguments[1:]
    known = {one.keyword.value for one in arguments if one.keyword is not None}
    if transport in (None, "stdio"):
        return joined(call.args, arguments), unknown
    extra = [one for one in moved if one.keyword is not None and one.keyword.value not in known]
    first = cst.Arg(cst.SimpleString(f'"{transport}"'))
    return joined(call.args, [first, *arguments, *extra]), unknown
