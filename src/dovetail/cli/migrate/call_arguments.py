"""Rewrite the arguments of one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from .name_tables import AWAY, FIRST, CallForm

_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def named(name: str, value: cst.BaseExpression) -> cst.Arg:
    return cst.Arg(value, keyword=cst.Name(name), equal=_EQUAL)


def fit(given: Sequence[cst.Arg], form: CallForm) -> tuple[list[cst.Arg], list[str]]:
    """Return the rewritten arguments, and those that cannot be migrated (they stay unchanged)."""
    first: list[cst.Arg] = []
    rest: list[cst.Arg] = []
    unknown: list[str] = []
    for place, one in enumerate(given):
        if one.star or (one.keyword is None and place >= max(form.leads, len(form.takes))):
            unknown.append(f"{one.star}…" if one.star else f"argument {place + 1}")
            rest.append(one)
        elif one.keyword is None and place < form.leads:
            first.append(one)
        else:
            theirs = form.takes[place] if one.keyword is None else one.keyword.value
            ours = form.keywords.get(theirs)
            if ours is None:
                unknown.append(theirs)
            if ours == FIRST:
                first.insert(0, one.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT))
            elif ours != AWAY:
                rest.append(
                    one.with_changes(
                        keyword=cst.Name(ours or theirs), equal=one.equal if one.keyword else _EQUAL
                    )
                )
    return joined(given, [*first, *rest]), unknown


def joined(before: Sequence[cst.Arg], after: Iterable[cst.Arg]) -> list[cst.Arg]:
    """Return ``after`` with commas, and with the trailing comma and whitespace of ``before``."""
    new = list(after)
    kept = {id(one.comma) for one in before[:-1]}
    between = before[0].comma if len(before) > 1 else cst.MaybeSentinel.DEFAULT
    for place, one in enumerate(new[:-1]):
        if id(one.comma) not in kept:
            new[place] = one.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace(""))
    if new:
        last = before[-1] if before else cst.Arg(cst.Name("_"))
        new[-1] = new[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return new
