"""Every panel, in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from dovetail.testing import replay

from .browsing import Running, chromium, filter_messages, open_page, picture, running
from .demo import build

pytestmark = pytest.mark.browser


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


def go(page: Any, panel: str) -> None:
    page.click(f'nav a[href="#{panel}"]')
    page.wait_for_selector(f'[data-panel="{panel}"]')


def choose(page: Any, name: str) -> None:
    page.click(f'.list li[data-key="{name}"]')
    page.wait_for_selector(f'.list li[data-key="{name}"][aria-selected="true"]')


def run(page: Any) -> str:
    page.click(".runner button.primary")
    page.wait_for_selector(".runner .state.good, .runner .state.bad")
    return page.inner_text(".runner .result")


def test_a_form_of_nested_objects_and_choices_calls_the_tool(page: Any) -> None:
    choose(page, "forecast")
    page.get_by_label("city").fill("Oslo")
    page.get_by_label("days").fill("2")
    assert '"city": "Oslo"' in page.input_value(".editor-json textarea")
    run(page)
    assert [cell.inner_text() for cell in page.query_selector_all(".result td")] == ["Mon", "10", "Tue", "11"]
    page.click('.result [data-tab="chart"]')
    assert page.locator(".result svg.chart rect").count() == 2
    page.set_viewport_size({"width": 1280, "height": 1040})
    picture(page, "tools")


def test_editing_the_json_view_fills_in_the_form(page: Any) -> None:
    choose(page, "forecast")
    page.fill(".editor-json textarea", '{"place": {"city": "Bergen"}, "days": 1, "tags": ["a", "b"]}')
    assert page.get_by_label("city").input_value() == "Bergen"
    assert page.locator(".editor-form .item").count() == 2
    assert "Bergen" in run(page)


def test_a_union_shows_the_fields_of_its_choice(page: Any) -> None:
    choose(page, "draw")
    page.fill(".editor-json textarea", '{"shape": {"width": 3}}')
    assert "Box" in run(page)
    picker = page.locator(".editor-form select").first
    picker.select_option(label="Circle")
    page.get_by_label("radius").fill("2")
    assert "Circle" in run(page)


def test_a_failure_is_shown_as_one(page: Any) -> None:
    choose(page, "fail")
    assert "out of paper" in run(page)
    assert "failed" in page.inner_text(".runner .state")


def test_pictures_sounds_and_links_are_shown(page: Any) -> None:
    choose(page, "media")
    run(page)
    assert page.eval_on_selector(".result img", "image => image.complete && image.naturalWidth") == 1
    assert page.locator(".result audio").count() == 1
    page.click(".result >> text=Read")
    page.wait_for_selector(".result >> text=degrees")


def test_markdown_is_rendered_and_progress_was_seen(page: Any) -> None:
    choose(page, "count")
    run(page)
    assert page.inner_text(".result .markdown h3") == "Counted"
    assert page.inner_text(".result .markdown td >> nth=1") == "2"
    go(page, "logs")
    page.wait_for_selector(".log.warning")
    picture(page, "logs")


def test_a_call_is_cancelled_and_stays_in_the_history(page: Any) -> None:
    choose(page, "wait")
    page.click(".runner button.primary")
    page.wait_for_selector("text=/1 of 4 · a quarter/")
    assert page.eval_on_selector(".runner progress", "bar => [bar.value, bar.max]") == [1, 4]
    page.wait_for_selector(".runner button.danger:not([disabled])")
    page.click(".runner button.danger")
    page.wait_for_selector(".runner >> text=Cancelled.")
    page.click(".history summary")
    assert page.locator(".history li").count() >= 1


def test_a_call_is_repeated_from_the_history(page: Any) -> None:
    choose(page, "draw")
    page.fill(".editor-json textarea", '{"shape": {"radius": 7}}')
    run(page)
    page.click(".history summary")
    page.click(".history >> text=Repeat")
    page.wait_for_selector(".runner .state.good")
    assert "radius=7" in page.inner_text(".runner .result")


def test_a_call_is_copied_as_python_and_as_a_command(page: Any) -> None:
    choose(page, "draw")
    page.fill(".editor-json textarea", '{"shape": {"radius": 7}}')
    for kind, words in (
        ("python", 'client.call_tool("draw", {"shape": {"radius": 7}})'),
        ("command", "dovetail call"),
    ):
        page.select_option('select[aria-label="Copy as"]', kind)
        assert words in page.inner_text("dialog pre")
        page.keyboard.press("Escape")


def test_an_input_request_is_answered_in_the_page(page: Any) -> None:
    choose(page, "book")
    page.get_by_label("flight").fill("LX1")
    page.click(".runner button.primary")
    page.wait_for_selector("dialog .question")
    page.wait_for_selector('.question >> text="Which seat would you like?"')
    picture(page, "requests")
    page.get_by_label("row").fill("12")
    page.click(".question button.primary")
    page.wait_for_selector(".question", state="detached")
    go(page, "tools")
    page.wait_for_selector(".runner .state.good")
    assert "Seat(row=12" in page.inner_text(".runner .result")
    go(page, "sessions")
    page.wait_for_selector("tr:has-text('book') >> text=done")
    picture(page, "sessions")


def test_sampling_is_answered_by_hand_and_by_a_mock(page: Any) -> None:
    choose(page, "think")
    page.click(".runner button.primary")
    page.wait_for_selector("dialog .question")
    page.fill('.question[data-kind="sample"] textarea', "by hand indeed")
    page.click(".question button.primary")
    page.wait_for_selector(".question", state="detached")
    go(page, "requests")
    page.select_option(".settings select", "mock")
    page.fill('[aria-label="Reply of the mock"]', "mocked")
    page.click(".settings button >> nth=0")
    page.wait_for_selector(".settings >> text=Saved.")
    go(page, "tools")
    choose(page, "think")
    assert "mocked" in run(page)
    go(page, "requests")
    page.select_option(".settings select", "hand")
    page.click(".settings button >> nth=0")
    page.wait_for_selector(".settings >> text=Saved.")


def test_a_resource_is_read_and_its_changes_are_seen(page: Any) -> None:
    go(page, "resources")
    choose(page, "weather://oslo/now")
    assert "degrees" in run(page)
    page.click("text=Subscribe")
    page.wait_for_selector("text=Unsubscribe")
    go(page, "tools")
    choose(page, "touch")
    run(page)
    go(page, "resources")
    page.wait_for_selector(".updates li")
    picture(page, "resources")


def test_a_template_suggests_values(page: Any) -> None:
    go(page, "resources")
    choose(page, "weather://{city}/week")
    page.get_by_label("city").fill("be")
    page.wait_for_selector("datalist option[value=berlin]", state="attached")
    page.get_by_label("city").fill("berlin")
    assert "all of berlin" in run(page)


def test_a_prompt_is_filled_in(page: Any) -> None:
    go(page, "prompts")
    choose(page, "plan")
    page.get_by_label("city").fill("O")
    page.wait_for_selector("datalist option[value=Oslo]", state="attached")
    page.get_by_label("city").fill("Oslo")
    assert "Plan a trip to Oslo." in run(page)
    picture(page, "prompts")


def test_a_frame_can_be_selected_while_the_list_is_rendered_again(page: Any) -> None:
    go(page, "messages")
    page.select_option('[aria-label="Kind"]', "request")
    page.wait_for_selector(".virtual-rows:has(.frame):not(:has(.frame:not(.request)))")  # it is painted
    row = page.locator('.frame:has(.method:text-is("tools/list"))').first
    # As it is whenever frames come: all rows are built again with the next picture. In one go, so that none comes.
    row.evaluate("""(row) => {
        row.dispatchEvent(new MouseEvent("mousedown", {bubbles: true, button: 0}));
        document.querySelector(".virtual").dispatchEvent(new Event("scroll"));
    }""")
    page.wait_for_selector(".detail .block-head:has-text('request tools/list')")


def test_the_frame_that_is_seen_is_chosen_though_the_list_is_another_one_already(page: Any) -> None:
    go(page, "messages")
    page.wait_for_selector(".frame.response ~ .frame.request ~ .frame.response")
    # In one go, so that the list is filtered and its rows are still those from before.
    number = page.evaluate("""() => {
        const row = document.querySelector(".frame.response ~ .frame.request");
        const kind = document.querySelector('[aria-label="Kind"]');
        kind.value = "request";
        kind.dispatchEvent(new Event("change"));
        row.dispatchEvent(new MouseEvent("mousedown", {bubbles: true, button: 0}));
        return row.dataset.number;
    }""")
    page.wait_for_selector(".detail .block-head")
    assert page.inner_text(".detail .block-head strong") == f"Message {number}"


def test_the_wire_shows_frames_and_compares_two(page: Any) -> None:
    go(page, "messages")
    page.wait_for_selector(".frame")
    filter_messages(page, "tools/list")
    page.fill('[aria-label="Filter messages"]', "")
    for number, (kind, method) in enumerate((("request", "tools/list"), ("request", "resources/list"))):
        page.select_option('[aria-label="Kind"]', kind)
        page.click(f'.frame:has(.method:text-is("{method}")) >> nth=0')
        page.wait_for_selector(f".detail .block-head:has-text('request {method}')")
        page.click(".detail >> text=Pin")  # there may be a frame of ping, too
        page.wait_for_selector(f".pins .chip >> nth={number}")
    page.click("text=Compare")
    changed = page.locator(".side-by-side .changed")
    assert [one.inner_text() for one in changed.all() if "method" in one.inner_text()] == [
        'method:"tools/list"', 'method:"resources/list"',
    ]  # fmt: skip
    picture(page, "messages")


def test_what_only_one_of_two_frames_has_is_marked_on_its_side(page: Any) -> None:
    go(page, "messages")
    filter_messages(page, "tools/list")
    page.select_option('[aria-label="Kind"]', "")
    for position, kind in enumerate(("request", "response")):
        page.click(f".frame.{kind} >> nth=0")
        page.wait_for_selector(f".detail .block-head:has-text('{kind} tools/list')")
        page.click(".detail >> text=Pin")  # there may be a frame of ping, too
        page.wait_for_selector(f".pins .chip >> nth={position}")
    page.click("text=Compare")
    first, second = page.locator(".side-by-side > div").all()
    assert first.locator(".removed").count() == 2  # method and params
    assert first.locator(".added").count() == 0
    assert second.locator("details.added > summary").first.inner_text().startswith("result:")
    assert second.locator(".removed").count() == 0


def test_revisions_are_compared_side_by_side(page: Any) -> None:
    go(page, "revisions")
    page.wait_for_selector('select[aria-label="Which one"] option', state="attached")
    page.select_option('select[aria-label="Which one"]', label="Forecast")
    page.fill(".editor-json textarea", '{"place": {"city": "Oslo"}, "days": 1}')
    page.click("text=Compare")
    page.wait_for_selector("table.comparison")
    heads = page.locator("table.comparison thead th").all()
    groups = [head.get_attribute("data-revision") for head in heads[1:]]
    assert " ".join(groups) == "2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28"
    assert len(groups) < 5, "revisions with the same result share a column"
    row = page.locator('table.comparison tr:has(code:text-is("structuredContent"))')
    assert "not sent" in row.locator("td").first.inner_text()
    assert '"place":"Oslo"' in row.locator("td").last.inner_text()
    assert page.locator("details.whole[open]").count() == 0
    picture(page, "revisions")


def test_health_is_measured_from_the_wire(page: Any) -> None:
    go(page, "health")
    page.wait_for_selector(".facts")
    assert page.locator("svg.chart").count() == 2
    page.click("text=Ping")
    page.wait_for_selector("text=/answered in/")
    picture(page, "health")


def test_a_task_has_a_timeline(page: Any) -> None:
    choose(page, "job")
    page.check(".runner .inline input")
    run(page)
    go(page, "tasks")
    page.wait_for_selector(".timeline .span.completed")
    page.wait_for_selector("text=/[12] listed/")  # another test may have run a task before
    picture(page, "tasks")


def test_a_task_that_asks_shows_when_it_waited(page: Any) -> None:
    choose(page, "render")
    page.check(".runner .inline input")
    page.click(".runner button.primary")
    page.wait_for_selector("dialog .question")
    page.keyboard.press("Escape")  # the request stays open
    page.wait_for_selector("dialog", state="detached")
    go(page, "tasks")
    page.wait_for_selector(".task:has(.span.input_required)")
    go(page, "requests")
    page.get_by_label("Yes").check()
    page.click(".question button.primary")
    go(page, "tasks")
    page.wait_for_selector(".task:has(.span.input_required) .span.completed")
    go(page, "tools")
    page.wait_for_selector(".runner .state.good")
    assert "rendered True" in page.inner_text(".runner .result")


def test_a_session_is_saved_masked_and_replayed(page: Any, inspector: Running) -> None:
    choose(page, "draw")
    page.fill(".editor-json textarea", '{"shape": {"radius": 4}}')
    run(page)
    go(page, "sessions")
    with page.expect_download() as waiting:
        page.click(".card button.primary")
    text = waiting.value.path().read_text()

    async def again() -> str:
        async with Client(replay(text), revision="modern") as client:
            return (await client.call_tool("draw", {"shape": {"radius": 4}})).text

    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:  # this thread has a loop of Playwright's
        assert "radius=4" in pool.submit(asyncio.run, again()).result(20)


def test_a_session_is_kept_on_this_machine_and_replayed(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    choose(page, "fail")
    run(page)
    go(page, "sessions")
    page.fill('[placeholder="a name"]', "../elsewhere")
    page.click("text=Save here")
    page.wait_for_selector("text=/use a name of letters/")
    page.fill('[placeholder="a name"]', "monday")
    page.click("text=Save here")
    page.wait_for_selector(".kept >> text=monday")
    kept = tmp_path / "dovetail" / "sessions" / "monday.txt"
    assert kept.stat().st_mode & 0o777 == 0o600
    page.click(".kept button")
    page.wait_for_selector(".servers li.chosen .dot.good")
    go(page, "tools")
    choose(page, "fail")
    assert "out of paper" in run(page)
    page.click('.servers li.chosen button[aria-label^="Disconnect"]')
    page.wait_for_selector(".servers li >> nth=1", state="detached")


def test_roots_are_sent_to_the_server(page: Any) -> None:
    go(page, "requests")
    page.fill(".settings textarea", "file:///home/me/notes")
    page.click(".settings button >> nth=-1")
    page.wait_for_selector(".settings >> text=Saved.")
    go(page, "tools")
    choose(page, "where")
    assert "file:///home/me/notes" in run(page)


def test_another_revision_is_chosen(browser: Any) -> None:
    with running(build()) as made:
        page = open_page(browser, made.link)
        page.wait_for_selector(".list li[data-key]")
        page.select_option('.head select[aria-label="Revision"]', "2025-03-26")
        page.wait_for_function("() => document.querySelector('.head .chip').textContent === 'ready'")
        choose(page, "fail")
        run(page)
        go(page, "messages")
        page.wait_for_selector(".frame .method >> text=initialize")
        assert page.problems == []
        page.context.close()


CONTROLS = "button checkbox combobox img link listbox option searchbox spinbutton tab tablist textbox"
NAMELESS = re.compile(rf'^\s*- ({CONTROLS.replace(" ", "|")})(?! "| \[)\b.*', re.MULTILINE)
PANELS = [
    "tools",
    "resources",
    "prompts",
    "requests",
    "tasks",
    "logs",
    "messages",
    "revisions",
    "health",
    "sessions",
]


def test_every_control_of_every_panel_has_a_name_and_fits_into_360_pixels_in_the_dark(
    browser: Any, inspector: Running
) -> None:
    page = open_page(browser, inspector.link, color_scheme="dark")
    page.wait_for_selector(".list li[data-key]")
    picture(page, "dark")
    page.set_viewport_size({"width": 360, "height": 740})
    for panel in PANELS:
        go(page, panel)
        page.wait_for_function("() => document.querySelector('#panel').childElementCount > 0")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, panel
        assert [one[0] for one in NAMELESS.finditer(page.locator("body").aria_snapshot())] == [], panel
        assert page.locator("nav a[aria-current]").inner_text().lower().startswith(panel)
        place = page.locator("nav a[aria-current]").bounding_box()
        assert place["x"] >= 0, panel
        assert place["x"] + place["width"] <= 360, panel
    go(page, "tools")
    picture(page, "narrow")
    assert page.problems == []
    page.context.close()


def test_all_of_an_input_request_goes_by_keyboard(page: Any) -> None:
    press, focused = page.keyboard.press, "document.activeElement"
    page.focus(".list")
    while page.get_attribute('.list li[data-key="book"]', "aria-selected") != "true":
        press("ArrowDown")
    page.focus(".editor-form input")
    page.keyboard.type("LX1")
    press("Control+Enter")
    page.wait_for_function(f"() => {focused}.closest('dialog .question') !== null")
    page.keyboard.type("7")
    press("Enter")
    page.wait_for_selector("dialog", state="detached")
    page.wait_for_selector('[data-panel="tools"] .runner .state.good')
    assert "Seat(row=7" in page.inner_text(".runner .result")


def test_what_wants_attention_is_read_out_once(page: Any, inspector: Running) -> None:
    choose(page, "book")
    page.get_by_label("flight").fill("LX1")
    page.click(".runner button.primary")
    page.wait_for_selector("dialog .question")
    page.keyboard.press("Escape")
    page.wait_for_selector(".notice.ask")
    page.evaluate("document.querySelector('.notice.ask').dataset.seen = 'once'")
    inspector.connect(build(), "one more")  # the page draws its head and its servers again
    page.wait_for_selector('.servers li:has-text("one more")')
    assert page.get_attribute(".notice.ask", "data-seen") == "once"
    page.click(".notice.ask a")
    page.click('.question >> text="Decline"')
    page.wait_for_selector(".question", state="detached")
    page.click('.servers button[aria-label="Disconnect one more"]')
    page.wait_for_selector('.servers li:has-text("one more")', state="detached")


def test_the_link_past_the_navigation_leaves_the_panel_as_it_is(page: Any) -> None:
    go(page, "messages")
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel"
    assert page.locator('[data-panel="messages"]').count() == 1


def test_servers_with_the_same_name_are_distinguished(browser: Any) -> None:
    with running(build(), build()) as made:
        made.connect(build(), "another")
        page = open_page(browser, made.link)
        page.wait_for_selector(".servers li >> nth=2")
        assert "another" in page.inner_text(".servers li >> nth=2")
        page.context.close()
