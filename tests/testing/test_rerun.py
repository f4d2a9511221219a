"""The tool that finds tools that are not safe to run again."""

from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, DovetailError, Elicit, InputRequired, ProtocolError, Roots, Server
from dovetail.testing.rerun import rerun
from tests.support.aio import run

charged: list[str] = []


def charge(flight: str) -> int:
    charged.append(flight)
    return 100


async def charge_slowly(flight: str) -> int:
    return charge(flight)


def serving() -> Server:
    charged.clear()
    server = Server("air", "1")

    @server.tool
    async def careful(flight: str, ctx: Context) -> str:
        seat = await ctx.elicit("Seat?", str)
        paid = await ctx.step("pay", charge, flight)
        lunch = await ctx.elicit("Lunch?", bool)
        return f"{seat.data} {paid} {lunch.data}"

    @server.tool
    async def careless(flight: str, ctx: Context) -> str:
        paid = await charge_slowly(flight)
        seat, roots = await ctx.ask_all(Elicit("Seat?", str), Roots())
        return f"{seat.data} {paid} {len(roots)}"

    @server.tool
    async def last(flight: str, ctx: Context) -> str:
        await ctx.elicit("Seat?", str)
        return str(charge(flight))

    return server


@run
async def test_a_step_is_not_an_effect_that_happened_twice() -> None:
    server = serving()
    report = await rerun(server, "careful", {"flight": "SK1"}, watch=[charge])
    assert report.result["content"][0]["text"] == "x 100 True"
    assert report.runs == 3
    assert report.repeated == ()
    report.check()
    assert charged == ["SK1"]
    await server.lifecycle.stop()


@run
async def test_what_happens_before_an_input_request_is_reported_with_its_runs() -> None:
    server = serving()
    report = await rerun(server, "careless", {"flight": "SK1"}, watch=[charge])
    # Two questions in one round are answered one at a time: three runs.
    assert report.runs == 3
    (effect,) = report.repeated
    assert (effect.what, effect.runs) == ("charge('SK1')", (1, 2, 3))
    with pytest.raises(AssertionError, match=r"charge\('SK1'\) happened in runs 1, 2, 3: do it in ctx.step"):
        report.check()


@run
async def test_an_effect_after_the_last_input_request_is_fine() -> None:
    report = await rerun(serving(), "last", {"flight": "SK1"}, watch=[charge])
    assert (report.runs, report.repeated) == (2, ())


@run
async def test_a_file_written_twice_is_seen_without_being_watched(tmp_path: Path) -> None:
    server = Server("x", "1")
    path = tmp_path / "log"

    @server.tool
    async def writes(ctx: Context) -> str:
        path.write_text("a")
        await ctx.list_roots()
        (tmp_path / "once").write_text("b")
        return path.read_text()

    report = await rerun(server, "writes")
    (effect,) = report.repeated
    assert str(path) in effect.what
    assert effect.runs == (1, 2)


@run
async def test_the_answers_may_be_given() -> None:
    def answer(method: str, params: Any) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": "12A" if params["message"] == "Seat?" else False}}

    server = serving()
    report = await rerun(server, "careful", {"flight": "SK1"}, answer=answer)
    assert report.result["content"][0]["text"] == "12A 100 False"
    await server.lifecycle.stop()


@run
async def test_a_call_that_fails_or_never_ends_says_so() -> None:
    server = serving()

    @server.tool
    async def endless(ctx: Context) -> InputRequired:
        return InputRequired(state=1)

    with pytest.raises(ProtocolError, match="nope"):
        await rerun(server, "nope")
    with pytest.raises((DovetailError, ProtocolError)):
        await rerun(server, "endless")
    with pytest.raises(TypeError, match="watched"):
        await rerun(server, "careful", {"flight": "a"}, watch=[len])
