"""The questions of the workload "ask": every server asks the same one, and the driver's answer is always yes."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from . import workloads
from .workloads import AGAIN, FIRST_ID, Workload, WrongReply

QUESTION = "Shall I?"
ANSWER = {"action": "accept", "content": {"ok": True}}

read = msgspec.json.Decoder().decode
write = msgspec.json.Encoder().encode


class Answer(NamedTuple):
    """What to send next."""

    body: bytes
    again: bool
    """The call is made again, instead of being continued."""


class Questions:
    """Answers the server requests of one run, and counts them: a call without a request would be too cheap.

    Raises:
        WrongReply: the server asked something else. Its figures would mean nothing.
    """

    def __init__(self, workload: Workload, era: str) -> None:
        self.count = 0
        self._call: dict[str, Any] = read(workloads.template(workload, era) % FIRST_ID)

    def answer(self, message: bytes) -> Answer | None:
        """What to send for ``message``; None if it is the reply to the call."""
        found = read(message)
        if "method" in found:
            return Answer(self._reply(found), False)
        result = found.get("result")
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            return Answer(self._again(found["id"], result), True)
        return None

    def _reply(self, found: dict[str, Any]) -> bytes:
        """The question is a request of the server's own (until 2025-11-25)."""
        if "id" not in found:
            raise WrongReply(f"a notification instead of a question: {found}")
        self._heard(found)
        return write({"jsonrpc": "2.0", "id": found["id"], "result": ANSWER})

    def _again(self, id: int, result: dict[str, Any]) -> bytes:
        """The question ended the call (since 2026-07-28): it is made again, under a separate id."""
        if id >= AGAIN:
            raise WrongReply(f"asked again after the answer: {result}")
        asked: dict[str, Any] = result.get("inputRequests") or {}
        for question in asked.values():
            self._heard(question)
        params = {**self._call["params"], "inputResponses": dict.fromkeys(asked, ANSWER)}
        if "requestState" in result:
            params["requestState"] = result["requestState"]
        return write({**self._call, "id": id + AGAIN, "params": params})

    def _heard(self, question: dict[str, Any]) -> None:
        params = question.get("params", {})
        right = question.get("method") == "elicitation/create" and params.get("message") == QUESTION
        if not right or "ok" not in params.get("requestedSchema", {}).get("properties", {}):
            raise WrongReply(f"another question than the tool has: {question}")
        self.count += 1
