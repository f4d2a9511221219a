"""What an attack is, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

Face = Literal["http", "tcp", "stdio", "client"]
Amount = TypeVar("Amount", int, float)


class GotThrough(Exception):
    """The attack reached what it must not reach; the text says what."""


@dataclass(frozen=True)
class Scale:
    """How much of everything: ``short`` for the test suite, else in full."""

    short: bool

    def of(self, short: Amount, full: Amount) -> Amount:
        return short if self.short else full


@dataclass(frozen=True)
class Attack:
    """One thing tried against one face of a server, or against a client."""

    name: str
    face: Face
    run: Callable[..., Awaitable[str]]
    seconds: float
    named: bool
    own: bool
    tried: str

    @property
    def title(self) -> str:
        return f"{self.face}.{self.name}"


@dataclass
class Outcome:
    attack: Attack
    held: bool
    detail: str
    seconds: float = field(default=0.0)

    def line(self) -> str:
        word = "held " if self.held else "BROKE"
        return f"{word} {self.attack.title:<34} {self.seconds:5.1f} s  {self.detail}"


ATTACKS: list[Attack] = []


def attack(
    face: Face,
    *,
    seconds: float = 60.0,
    named: bool = False,
    own: bool = False,
) -> Callable[[Callable[..., Awaitable[str]]], Callable[..., Awaitable[str]]]:
    """Register an attack. It returns its result or raises `GotThrough`; its docstring is its description.

    With ``named`` a header names the caller. With ``own`` the attack starts its own victims, and gets the name of the
    transport instead of one.
    """

    def register(function: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
        tried = (function.__doc__ or "").strip().splitlines()[0]
        ATTACKS.append(Attack(function.__name__, face, function, seconds, named, own, tried))
        return function

    return register


async def carry_out(one: Attack, *arguments: object) -> Outcome:
    """Run one attack within its time."""
    begun = time.monotonic()
    try:
        async with asyncio.timeout(one.seconds):
            detail, held = await one.run(*arguments), True
    except GotThrough as broken:
        detail, held = str(broken), False
    except TimeoutError:
        detail, held = f"not over after {one.seconds:.0f} s: something hangs", False
    return Outcome(one, held, detail, time.monotonic() - begun)
