"""A tool that asks three times and pays once, and a client that answers."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest

from dovetail import Context, Server, ToolError
from tests.support.schemas import REVISIONS

every_revision = pytest.mark.parametrize("revision", REVISIONS)


WITH_ELICITATION = [revision for revision in REVISIONS if revision >= "2025-06-18"]


KEY = b"k" * 32


@dataclass
class Seat:
    row: int
    side: Literal["window", "aisle"] = "window"


class Paid(msgspec.Struct):
    amount: int
    receipt: str


class Bank:
    def __init__(self) -> None:
        self.payments: list[int] = []

    def charge(self, amount: int) -> Paid:
        self.payments.append(amount)
        return Paid(amount, f"r{len(self.payments)}")


def booking(bank: Bank, **options: Any) -> Server:
    server = Server("air", "1", seal_keys=KEY, **options)

    @server.tool
    async def book(flight: str, ctx: Context) -> str:
        seat = await ctx.elicit("Which seat?", Seat)
        if seat.action != "accept":
            raise ToolError("No seat chosen")
        paid = await ctx.step("pay", bank.charge, 100)
        again = await ctx.elicit(f"Paid {paid.amount}. Lunch?", bool)
        words = await ctx.sample("Thank them", max_tokens=50, system="Be kind")
        return f"{flight} {seat.data.row}{seat.data.side} {paid.receipt} {again.data} {words.text}"

    @server.tool
    async def other(flight: str, ctx: Context) -> str:
        return str((await ctx.elicit("Which seat?", Seat)).data)

    return server


def answers(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "sampling/createMessage":
        return {
            "role": "assistant",
            "content": {"type": "text", "text": "Thanks!"},
            "model": "m",
            "stopReason": "endTurn",
        }
    if method == "roots/list":
        return {"roots": [{"uri": "file:///a", "name": "a"}]}
    if params.get("mode") == "url":
        return {"action": "accept"}
    if "value" in params["requestedSchema"]["properties"]:
        return {"action": "accept", "content": {"value": True}}
    return {"action": "accept", "content": {"row": 7, "side": "aisle"}}
