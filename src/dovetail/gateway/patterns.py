"""Regular expressions of strangers: matched in time that grows with the text, whatever the pattern.

A pattern is a set of states that are all followed at once, so nothing is ever tried again. It knows what people search
with: characters, ``.``, classes, ``\\d \\w \\s \\b`` and their opposites, ``^ $``, groups, ``|``, ``* + ? {m,n}``; it
knows neither looking around nor references to groups. Letters match in both cases. What was worked out for a set of
states and a character is kept, so that the next text costs less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import DovetailError
from .bounds import PATTERN_COUNT, PATTERN_LENGTH, PATTERN_STATES, PATTERN_STEPS, PATTERN_WORK

_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": str.isdecimal,
    "w": lambda character: character.isalnum() or character == "_",
    "s": str.isspace,
}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_CHEAP: Final = 10
"""So many characters whose way is known cost as much as one state that is worked out."""

Test = Callable[[str], bool]
Place = tuple[frozenset[int], str | None]
"""The states that are followed, and a character like the one before: a letter, none, or None at the beginning."""


class PatternError(DovetailError):
    """The pattern cannot be used; the message says why."""

    kind = "invalid_params"


class Pattern:
    """A pattern to search texts with. ``steps`` is what is left of its work; it stops when nothing is."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_LENGTH:
            raise PatternError(f"a pattern has at most {PATTERN_LENGTH} characters")
        self._states: list[Any] = []
        """Each is a test and the state after it, a place (``^ $ b B``) and the state after it, or two states."""
        tree = _Parser(text).whole()
        self._work = PATTERN_WORK
        self._end = self._add(None)
        self._start = self._emit(tree, self._end)
        self.steps = PATTERN_STEPS
        self._forget()

    def _forget(self) -> None:
        """Begin anew with what was worked out: for each set of states, and what stood before it, where it leads."""
        self._places: dict[Place, int] = {}
        self._reached: list[Place] = []
        self._onward: list[dict[str | None, int]] = []
        self._place((frozenset(), None))

    def _place(self, place: Place) -> int:
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = len(self._reached)
            self._reached.append(place)
            self._onward.append({})
        return found

    def _add(self, state: Any) -> int:
        if len(self._states) >= PATTERN_STATES:
            raise PatternError("the pattern is too large: count to less")
        self._states.append(state)
        return len(self._states) - 1

    def _emit(self, node: Any, after: int) -> int:
        # Nothing, a hundred times a hundred times, needs no states, but it needs time.
        self._work -= 1
        if self._work < 0:
            raise PatternError("the pattern is too large: count to less")
        match node:
            case ("all", parts):
                for part in reversed(parts):
                    after = self._emit(part, after)
                return after
            case ("any", parts):
                found = self._emit(parts[-1], after)
                for part in reversed(parts[:-1]):
                    found = self._add((self._emit(part, after), found))
                return found
            case ("repeat", inner, least, most):
                if most is None:
                    after = self._loop(inner, after)
                else:
                    end = after
                    for _ in range(most - least):
                        after = self._add((self._emit(inner, after), end))
                for _ in range(least):
                    after = self._emit(inner, after)
                return after
            case _:
                return self._add((node, after))

    def _loop(self, inner: Any, after: int) -> int:
        place = self._add(None)
        self._states[place] = (self._emit(inner, place), after)
        return place

    def found_in(self, text: str) -> bool | None:
        """Whether it matches anywhere in ``text``; None when it is too much work."""
        self.steps -= len(text) // _CHEAP + 1
        at = 0
        for character in (*text, None):
            after = self._onward[at].get(character)
            if after is None:
                after = self._advance(at, character)
            if after < 0:
                return True
            if self.steps < 0:
                return None
            at = after
        return False

    def _advance(self, at: int, character: str | None) -> int:
        """Where ``character`` leads to, worked out for the first time; -1: the end is reached before it."""
        now, before = self._reached[at]
        ended, after = self._step(now | {self._start}, before, character)
        if ended or character is None:
            self._onward[at][character] = -1 if ended else 0
            return -1 if ended else 0
        place = (after, "a" if _CLASSES["w"](character) else "-")
        if len(self._reached) >= PATTERN_STATES:
            self._forget()
            return self._place(place)
        self._onward[at][character] = self._place(place)
        return self._onward[at][character]

    def _step(
        self, now: frozenset[int], before: str | None, character: str | None
    ) -> tuple[bool, frozenset[int]]:
        """Whether the end is reached before ``character``, and the states after it."""
        reached, following = set(now), list(now)
        after: set[int] = set()
        while following:
            self.steps -= 1
            state = self._states[following.pop()]
            if state is None:
                return True, frozenset()
            head, rest = state
            if isinstance(head, int):
                onward = [head, rest]
            elif isinstance(head, str):
                onward = [rest] if _at(head, before, character) else []
            else:
                onward = []
                if character is not None and head(character):
                    after.add(rest)
            fresh = [one for one in onward if one not in reached]
            reached.update(fresh)
            following += fresh
        return False, frozenset(after)


def _at(place: str, before: str | None, after: str | None) -> bool:
    """Whether this is such a place: the beginning, the end, the edge of a word."""
    if place == "^":
        return before is None
    if place == "$":
        return after is None
    edge = (before is not None and _CLASSES["w"](before)) != (after is not None and _CLASSES["w"](after))
    return edge == (place == "b")


class _Parser:
    """Reads a pattern into a tree: tests, places, and ``all``, ``any``, ``repeat`` of others."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Any:
        found = self._any(0)
        if self._at < len(self._text):
            raise PatternError(f"')' at {self._at} closes nothing")
        return found

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("the pattern ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _is(self, word: str) -> bool:
        if self._text.startswith(word, self._at):
            self._at += len(word)
            return True
        return False

    def _any(self, depth: int) -> Any:
        if depth > PATTERN_COUNT:
            raise PatternError("the groups lie too deep")
        parts = [self._all(depth)]
        while self._is("|"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else ("any", parts)

    def _all(self, depth: int) -> Any:
        parts: list[Any] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._one(depth)))
        return ("all", parts)

    def _one(self, depth: int) -> Any:
        character = self._next()
        if character == "(":
            if self._is("?") and not self._is(":"):
                raise PatternError("only plain groups and (?:…) are known")
            inner = self._any(depth + 1)
            if not self._is(")"):
                raise PatternError("a group is not closed")
            return inner
        if character in "*+?":
            raise PatternError(f"{character!r} at {self._at - 1} repeats nothing")
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape(self._next())
        if character == ".":
            return _any_but_newline
        return character if character in "^$" else _letter(character)

    def _escape(self, character: str) -> Any:
        if character in "bB":
            return character
        if test := _CLASSES.get(character.lower()):
            return test if character.islower() else _not(test)
        if character.isalnum() and character not in _CONTROLS:
            raise PatternError(f"\\{character} is not known here")
        return _letter(_CONTROLS.get(character, character))

    def _class(self) -> Test:
        negated = self._is("^")
        tests: list[Test] = []
        while not (self._is("]") and tests):
            first = self._next()
            if first == "\\":
                escaped = self._next()
                if escaped.lower() in _CLASSES:
                    tests.append(self._escape(escaped))
                    continue
                first = _CONTROLS.get(escaped, escaped)
            last = first
            if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in (
                "]",
                "",
            ):
                self._next()
                last = self._next()
            tests.append(_between(first, last))
        found: Test = lambda given: any(test(given) for test in tests)  # noqa: E731
        return _not(found) if negated else found

    def _repeated(self, one: Any) -> Any:
        while True:
            if self._is("*"):
                least, most = 0, None
            elif self._is("+"):
                least, most = 1, None
            elif self._is("?"):
                least, most = 0, 1
            elif self._text[self._at : self._at + 1] == "{":
                least, most = self._counted()
            else:
                return one
            one = ("repeat", one, least, most)
            self._is(
                "?"
            )  # as little as possible is as good as as much as possible: only whether it matches counts

    def _counted(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        first, comma, last = self._text[self._at + 1 : end].partition(",")
        self._at = end + 1
        if end < 0 or not (first or last) or any(word and not word.isdecimal() for word in (first, last)):
            raise PatternError("a count is {m}, {m,} or {m,n}")
        least = int(first[:4] or 0)
        most = (int(last[:4]) if last else None) if comma else least
        if max(least, most or 0) > PATTERN_COUNT or (most is not None and most < least):
            raise PatternError(f"a count goes up to {PATTERN_COUNT}, and not backwards")
        return least, most


def _any_but_newline(given: str) -> bool:
    return given != "\n"


def _letter(character: str) -> Test:
    forms = {character, character.lower(), character.upper()}
    return lambda given: given in forms


def _between(first: str, last: str) -> Test:
    return lambda given: (
        first <= given <= last or first <= given.lower() <= last or first <= given.upper() <= last
    )


def _not(test: Test) -> Test:
    return lambda given: not test(given)
