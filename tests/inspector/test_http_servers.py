"""Servers over HTTP: heads on the wire, curl, metrics; and the pages of MCP Apps in their frame."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import HANG

from .browsing import Running, chromium, filter_messages, open_page, picture, running
from .test_panels import choose, go, run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    words = [sys.executable, "-m", "dovetail.cli.main", "run", str(Path(__file__).parent / "demo.py")]
    with subprocess.Popen(
        [*words, "--http", "--port", "0", "--metrics"], stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stderr is not None
        found = re.search(r"serving on (\S+)", one.stderr.readline())
        assert found is not None
        yield found[1]
        one.send_signal(signal.SIGINT)
        one.communicate(timeout=HANG)


@pytest.fixture(scope="module")
def inspector(url: str) -> Iterator[Running]:
    with running() as made:
        made.connect(url, url)
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture
def page(browser: Any, inspector: Running) -> Iterator[Any]:
    made = open_page(browser, inspector.link)
    made.wait_for_selector(".list li[data-key]")
    yield made
    assert made.problems == []
    made.context.close()


@pytest.fixture
def own_page(browser: Any, url: str) -> Iterator[Any]:
    """A page of a separate inspector: the messages of other tests are not in its list."""
    with running() as made:
        made.connect(url, url)
        page = open_page(browser, made.link)
        page.wait_for_selector(".list li[data-key]")
        yield page
        assert page.problems == []
        page.context.close()


def test_a_frame_has_the_heads_it_travelled_with(own_page: Any) -> None:
    page = own_page
    choose(page, "fail")
    run(page)
    go(page, "messages")
    filter_messages(page, "tools/call")
    page.click(".frame.out")
    page.click('[data-tab="head"]')
    assert "POST http://127.0.0.1" in page.inner_text(".detail pre")
    assert "Mcp-Method: tools/call" in page.inner_text(".detail pre")
    page.click(".frame.in")
    page.wait_for_selector(".detail >> text=/Message \\d+/")
    page.click('[data-tab="head"]')
    page.wait_for_selector(".detail pre >> text=HTTP 200")


def test_a_call_that_was_made_is_copied_as_curl_and_works(page: Any) -> None:
    choose(page, "draw")
    page.fill(".editor-json textarea", '{"shape": {"radius": 5}}')
    run(page)
    page.select_option('select[aria-label="Copy as"]', "curl")
    command = page.inner_text("dialog pre")
    assert command.startswith("curl -X POST")
    # With the key of the call that was made, the server would repeat its result.
    assert "idempotency-key" not in command
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=HANG)
    assert "radius=5" in done.stdout


def test_the_servers_own_metrics_are_shown(page: Any) -> None:
    choose(page, "fail")
    run(page)
    go(page, "health")
    page.click('button:has-text("Metrics")')
    page.wait_for_selector("td:has-text('dovetail_calls_total')")


def test_the_doctors_findings_are_printed_with_their_subject(page: Any) -> None:
    go(page, "health")
    page.click('button:has-text("Diagnostics")')
    page.wait_for_selector('.finding:has-text("CORS")')
    page.wait_for_selector('.finding[data-state="note"]:has-text("tool mute")')
    picture(page, "doctor")
    go(page, "tools")
    choose(page, "mute")
    assert "it has no description" in page.inner_text(".tool .notice")
    choose(page, "fail")
    assert page.locator(".tool .notice").count() == 0


def test_an_app_runs_in_its_frame_and_reaches_nothing_but_the_bridge(page: Any) -> None:
    choose(page, "chart")
    run(page)
    frame = page.frame_locator(".app-frame iframe")
    frame.locator("text=result forty-two").wait_for()
    frame.locator("#more").click()
    frame.locator("text=more out of paper, reached nothing").wait_for()
    picture(page, "app")


def test_a_server_is_connected_from_the_page(page: Any, url: str) -> None:
    page.click(".connect")
    page.fill("dialog input", "https://")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog >> text=lacks a host")
    page.fill("dialog input", url)
    page.select_option("dialog select", "2025-06-18")
    page.click("dialog button.primary")
    page.wait_for_selector(".servers li >> nth=1")
    page.wait_for_selector(".head .chip.good")
    page.click('.servers li >> nth=1 >> button[aria-label^="Disconnect"]')
    page.wait_for_selector(".servers li >> nth=1", state="detached")


def test_a_program_is_confirmed_in_the_page(page: Any) -> None:
    page.click(".connect")
    page.fill("dialog input", str(Path(__file__).parent / "demo.py"))
    page.click("dialog button.primary")
    page.wait_for_selector('dialog >> text="Start this program?"')
    assert "demo.py" in page.inner_text("dialog pre")
    picture(page, "confirm")
    page.click("dialog >> text=Do not")
    assert page.locator(".servers li").count() == 1
