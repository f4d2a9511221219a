"""The flow of a call in a real browser: form, checks, result, requests for input and failures."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from dovetail import Context, Server
from tests.support.waiting import HANG

from .browsing import Running, chromium, open_page, running

pytestmark = pytest.mark.browser


@dataclass
class Item:
    id: int
    name: str


def build() -> Server:
    server = Server("shop")

    @server.tool(annotations={"readOnlyHint": True})
    async def find(
        query: str, limit: int | None = None, exact: bool = False, kind: Literal["new", "used"] = "new"
    ) -> list[Item]:
        """Find items."""
        return [Item(number, f"{query} {number}") for number in range(1, (limit or 3) + 1)]

    @server.tool(annotations={"destructiveHint": True})
    async def remove(id: int, really: bool, scope: Literal["one", "all"]) -> str:
        """Remove an item."""
        return f"removed {id} {really} {scope}"

    @server.tool
    async def echo(
        text: str,
        note: str | None = None,
        first: str = "a",
        second: str = "b",
        third: str = "c",
        fourth: str = "d",
    ) -> str:
        """Return the text, with a form that is longer than the page."""
        return f"{text}\n" * 60

    @server.tool
    async def given(note: str = "", urgent: bool | None = None) -> dict[str, Any]:
        """Return what was given."""
        return {"note": note, "urgent": urgent}

    @server.tool
    async def order(ctx: Context, item: str) -> str:
        """Order an item."""
        answer = await ctx.elicit("How many, and for which day?", Order)
        return f"{item}: {answer.data}" if answer.action == "accept" else f"{item}: {answer.action}"

    @server.tool
    async def broken() -> str:
        """Fail with an exception."""
        raise LookupError("the shelf is empty")

    @server.tool(task="required")
    async def pack(ctx: Context) -> str:
        """Pack, with progress."""
        await ctx.report_progress(2, 5, "boxes")
        await asyncio.get_running_loop().create_future()
        return ""

    return server


@dataclass
class Order:
    count: int
    gift: bool
    day: Literal["today", "tomorrow"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def inspector() -> Iterator[Running]:
    with running(build()) as made:
        yield made


@pytest.fixture
def page(browser: Any, inspector: Running) -> Iterator[Any]:
    made = open_page(browser, inspector.link)
    made.wait_for_selector(".list li[data-key]")
    yield made
    assert made.problems == []
    made.context.close()


def choose(page: Any, name: str) -> None:
    page.click(f'.list li[data-key="{name}"]')
    page.wait_for_selector(f'.list li[data-key="{name}"][aria-selected="true"]')


def run(page: Any) -> str:
    page.click(".runner button.primary")
    page.wait_for_selector(".runner .state.good, .runner .state.bad")
    return page.inner_text(".runner .result")


def go(page: Any, panel: str) -> None:
    page.click(f'nav a[href="#{panel}"]')
    page.wait_for_selector(f'[data-panel="{panel}"]')


def test_a_required_field_is_marked_and_checked_before_the_call(page: Any) -> None:
    choose(page, "remove")
    assert page.locator(".editor-form .required").count() == 3
    page.click(".runner button.primary")
    page.wait_for_selector(".refused .notice")
    assert page.inner_text(".refused .notice span") == "Not sent: id is required."
    assert [one.inner_text() for one in page.locator(".wrong:visible").all()] == [
        "id is required.", "scope is required.",
    ]  # fmt: skip
    assert page.evaluate("document.activeElement.type") == "number"
    page.get_by_label("id").fill("7")
    assert page.locator(".wrong:visible").count() == 1
    page.get_by_label("scope").select_option("one")
    assert run(page).endswith("removed 7 False one")
    assert page.locator(".refused .notice").count() == 0


def test_arguments_that_the_form_refuses_can_be_sent_anyway(page: Any) -> None:
    choose(page, "remove")
    page.fill(".editor-json textarea", '{"id": "seven", "really": true, "scope": "one"}')
    assert page.inner_text(".problems") == "id must be integer, not string"
    page.click(".runner button.primary")
    page.click(".refused >> text=Send anyway")
    page.wait_for_selector(".runner .state.bad")
    assert "id" in page.inner_text(".runner .result")


def test_run_stays_visible_and_the_result_is_beside_the_form(page: Any) -> None:
    choose(page, "echo")
    page.set_viewport_size({"width": 1280, "height": 420})
    button = page.locator(".runner button.primary")
    box = button.bounding_box()
    assert 0 < box["y"] < 420 - box["height"]
    page.get_by_label("text").fill("x")
    run(page)
    form, result = page.locator(".run-input").bounding_box(), page.locator(".runner .result").bounding_box()
    assert result["x"] >= form["x"] + form["width"]
    assert 0 <= result["y"] < 420


def test_a_new_result_is_scrolled_into_view_on_a_narrow_page(browser: Any, inspector: Running) -> None:
    page = open_page(browser, inspector.link, reduced_motion="reduce")
    page.wait_for_selector(".list li[data-key]")
    page.set_viewport_size({"width": 360, "height": 700})
    choose(page, "find")
    page.get_by_label("query").fill("pen")
    run(page)
    page.wait_for_function("() => document.querySelector('.result').getBoundingClientRect().top < 350")
    assert page.locator(".result.fresh").count() == 1
    page.context.close()


def test_a_list_of_objects_opens_as_a_table_in_one_row_of_tabs(page: Any) -> None:
    choose(page, "find")
    page.get_by_label("query").fill("pen")
    run(page)
    assert [one.inner_text() for one in page.locator(".result td").all()][:2] == ["1", "pen 1"]
    assert page.locator(".result [role=tablist]").count() == 1
    names = [one.inner_text() for one in page.locator(".result [role=tab]").all()]
    assert (names[0], names[-1]) == ("Table", "JSON")
    assert len(names) == len(set(names))
    page.click('.result [data-tab="text"]')
    assert '"name":"pen 1"' in page.inner_text(".result pre")


def test_a_field_that_is_left_out_says_so_and_a_boolean_is_a_switch(page: Any) -> None:
    choose(page, "given")
    note = page.locator(".field", has_text="note")
    assert '"note": ""' in page.input_value(".editor-json textarea")
    note.get_by_role("button", name="Leave out").click()
    assert note.locator(".chip").inner_text() == "left out"
    assert "note" not in page.input_value(".editor-json textarea")
    note.get_by_role("button", name="Include").click()
    assert '"note": ""' in page.input_value(".editor-json textarea")
    note.get_by_role("textbox").fill("hello")
    assert '"note": "hello"' in page.input_value(".editor-json textarea")
    choose(page, "find")
    page.get_by_role("switch", name="exact").check()
    assert '"exact": true' in page.input_value(".editor-json textarea")


def test_the_json_editor_highlights_and_says_where_the_text_is_wrong(page: Any) -> None:
    choose(page, "find")
    page.fill(".editor-json textarea", '{"query": "pen", "limit": 2}')
    shown = page.locator(".highlight")
    assert shown.inner_text().strip() == '{"query": "pen", "limit": 2}'
    assert [one.inner_text() for one in shown.locator(".key").all()] == ['"query"', '"limit"']
    assert shown.locator(".string").inner_text() == '"pen"'
    assert shown.locator(".number").inner_text() == "2"
    page.fill(".editor-json textarea", '{"query":\n  pen}')
    assert page.inner_text(".problems") == "not JSON from line 2, column 3"
    page.fill(".editor-json textarea", '{"query": "pen", "sort": 1}')
    assert page.inner_text(".problems") == "sort is unknown"


def test_destructive_and_read_only_tools_are_marked_in_the_list(page: Any) -> None:
    assert page.inner_text('.list [data-key="find"] .chip') == "read-only"
    assert page.inner_text('.list [data-key="remove"] .chip') == "destructive"
    assert page.locator('.list [data-key="echo"] .chip').count() == 0


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_request_for_input_is_a_dialog_that_names_the_tool_and_preselects_nothing(
    browser: Any, revision: str
) -> None:
    with running(build()) as made:
        page = open_page(browser, made.link)
        page.wait_for_selector(".list li[data-key]")
        page.select_option('.head select[aria-label="Revision"]', revision)
        page.wait_for_selector(".head .chip.good")
        choose(page, "order")
        page.get_by_label("item").fill("tea")
        page.click(".runner button.primary")
        page.wait_for_selector("dialog .question")
        assert page.inner_text("dialog h2") == "order requests input"
        assert page.locator("dialog input:checked").count() == 0
        assert page.locator("dialog select").input_value() == ""
        page.click("dialog >> text=Accept")
        assert page.inner_text("dialog .question > .bad") == "count is required"
        page.get_by_label("count").fill("2")
        page.get_by_label("No").check()
        page.get_by_label("day").select_option("tomorrow")
        page.click("dialog >> text=Accept")
        page.wait_for_selector("dialog", state="detached")
        page.wait_for_selector(".runner .state.good")
        assert "Order(count=2, gift=False, day='tomorrow')" in page.inner_text(".runner .result")
        assert page.problems == []
        page.context.close()


def test_the_answer_to_a_request_leads_to_the_result_from_any_panel(page: Any) -> None:
    choose(page, "order")
    page.get_by_label("item").fill("tea")
    page.click(".runner button.primary")
    page.wait_for_selector("dialog .question")
    page.keyboard.press("Escape")  # the request stays open
    page.wait_for_selector("dialog", state="detached")
    choose(page, "find")
    page.click(".notice.ask a")
    page.click('.question >> text="Decline"')
    page.wait_for_selector(".question", state="detached")
    go(page, "tools")
    choose(page, "order")
    page.wait_for_selector(".runner .state.good")
    assert "tea: decline" in page.inner_text(".runner .result")


def test_a_failed_tool_is_an_error_in_health_and_its_messages_have_its_name(page: Any) -> None:
    choose(page, "broken")
    run(page)
    go(page, "health")
    page.wait_for_selector(".facts")
    errors = page.locator(".fact", has_text="errors").locator("strong")
    assert int(errors.inner_text()) >= 1
    go(page, "messages")
    page.fill('[aria-label="Filter messages"]', "broken")
    page.wait_for_function(
        "() => { const shown = [...document.querySelectorAll('.frame')];"
        " return shown.length >= 2 && shown.every((each) => each.querySelector('.subject')?.innerText === 'broken')"
        " && shown.some((each) => each.matches('.error') && each.querySelector('.kind').innerText === 'failed'); }"
    )


def test_polls_that_follow_each_other_are_one_row(browser: Any) -> None:
    with running(build()) as made:
        page = open_page(browser, made.link)
        page.wait_for_selector(".list li[data-key]")
        page.select_option('.head select[aria-label="Revision"]', "2025-11-25")
        page.wait_for_selector(".head .chip.good")
        go(page, "health")
        for number in range(1, 4):
            page.click("text=Ping")
            page.wait_for_function(
                "async (number) => { const {store} = await import('/store.js'); return store.frames"
                ".filter((row) => row[5] === 'response' && row[6] === 'ping').length >= number; }",
                arg=number,
            )
        go(page, "messages")
        page.fill('[aria-label="Filter messages"]', "ping")
        only = "document.querySelectorAll('.frame').length === 1 && document.querySelector('.frame.folded')"
        page.wait_for_function(f"() => {only}")
        page.locator(".frame.folded").dispatch_event("mousedown", {"button": 0})
        page.wait_for_selector(".folded-rows")
        page.get_by_label("fold polling").uncheck()
        page.wait_for_selector(".frame >> nth=5")
        page.context.close()


def test_a_task_shows_its_tool_and_its_progress(browser: Any) -> None:
    with running(build()) as made:
        page = open_page(browser, made.link)
        page.wait_for_selector(".list li[data-key]")
        page.select_option('.head select[aria-label="Revision"]', "2025-11-25")
        page.wait_for_selector(".head .chip.good")
        choose(page, "pack")
        page.check(".runner .inline input")
        page.click(".runner button.primary")
        go(page, "tasks")
        page.wait_for_selector(".task .progress-words")
        assert page.inner_text(".task .tool-name") == "pack"
        assert page.inner_text(".task .progress-words") == "2 of 5 · boxes"
        page.click(".task >> text=Cancel")
        page.wait_for_selector(".task .span.cancelled")
        page.context.close()


def test_removing_a_server_can_be_undone(browser: Any) -> None:
    with running(build(), build()) as made:
        page = open_page(browser, made.link)
        page.wait_for_selector(".servers li >> nth=1")
        page.click('.servers li >> nth=0 >> button[aria-label^="Disconnect"]')
        page.wait_for_selector(".servers li >> nth=1", state="detached")
        page.click(".notice >> text=Undo")
        page.wait_for_selector(".servers li >> nth=1")
        page.wait_for_selector(".servers li.chosen .dot.good")
        assert page.locator(".notice", has_text="Removed").count() == 0
        assert page.problems == []
        page.context.close()


GUARDED = """
from dovetail import Server
from dovetail.auth import StaticTokens
server = Server("guarded", auth=StaticTokens({"secret": "ann"}))

@server.tool
def hello() -> str:
    "Say hello."
    return "hello"
"""
FAILING = """
from dovetail import Server
server = Server("failing")

@server.tool
def fail() -> str:
    "Fail."
    raise LookupError("the shelf is empty")
"""


@contextmanager
def command(file: Path, *words: str) -> Iterator[dict[str, Any]]:
    """A command that serves ``file``, and the JSON that it prints when it serves."""
    line = [
        sys.executable,
        "-m",
        "dovetail.cli.main",
        words[0],
        str(file),
        *words[1:],
        "--port",
        "0",
        "--json",
    ]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, cwd=file.parent) as process:
        assert process.stderr is not None
        try:
            yield next(json.loads(one) for one in process.stderr if one.startswith("{"))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANG)


def test_a_server_that_requires_a_token_gets_one_on_the_page(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "guarded.py").write_text(GUARDED)
    with command(tmp_path / "guarded.py", "run", "--http") as served, running() as made:
        page = open_page(browser, made.link)
        made.connect(served["serving"], "guarded")
        page.wait_for_selector(".detail .authorization")
        assert page.locator(".detail .authorization >> text=Log in").count() == 1
        page.fill(".detail .authorization input", "wrong")
        page.click("text=Connect with the token")
        page.click(".notice >> text=Authorize")
        page.fill("dialog input", "secret")
        page.click("dialog >> text=Connect with the token")
        page.wait_for_selector(".list li[data-key]")
        page.wait_for_selector("dialog", state="detached")
        choose(page, "hello")
        assert "hello" in run(page)
        assert page.problems == []
        page.context.close()


def test_a_tool_that_fails_in_dev_shows_its_traceback_and_the_log_has_it_as_one_entry(
    browser: Any, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    with command(tmp_path / "failing.py", "dev", "--no-browser") as served:
        page = open_page(browser, served["inspector"])
        page.wait_for_selector(".list li[data-key]")
        run(page)
        page.wait_for_selector(".result .traceback pre")
        shown = page.inner_text(".result .traceback pre")
        assert "Traceback (most recent call last)" in shown
        assert 'raise LookupError("the shelf is empty")' in shown
        go(page, "logs")
        page.wait_for_selector(".log.error")
        assert page.locator(".log.error").count() == 1
        assert "LookupError: the shelf is empty" in page.inner_text(".log.error .words")
        page.locator(".log.error").dispatch_event("mousedown", {"button": 0})
        page.wait_for_selector(".detail pre")
        assert "LookupError" in page.inner_text(".detail pre")
        assert page.problems == []
        page.context.close()


def test_the_content_comes_first_on_a_phone(browser: Any, inspector: Running) -> None:
    page = open_page(browser, inspector.link)
    page.wait_for_selector(".list li[data-key]")
    page.set_viewport_size({"width": 360, "height": 740})
    main, servers, nav = (page.locator(one).bounding_box() for one in ("main", "#servers", "nav"))
    assert main["y"] == 0
    assert servers["y"] >= main["y"] + main["height"]
    assert nav["y"] + nav["height"] == 740, "the panels are at the bottom of the screen"
    assert page.locator(".runner button.primary").bounding_box()["y"] < nav["y"]
    page.context.close()
