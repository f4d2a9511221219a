"""Several servers on one page, files in forms, a provider of models that answers, and the doctor of an mcp.json."""

import http.server
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from tests.support.waiting import HANG

from .browsing import chromium, open_page, running
from .demo import build
from .test_panels import choose, go, run

pytestmark = pytest.mark.browser
CLI = [sys.executable, "-m", "dovetail.cli.main"]
DEMO = Path(__file__).parent / "demo.py"
SMALL = """
import os
from dovetail import Server
server = Server(os.environ["NAME"])

@server.tool
async def who() -> str:
    "Who answers, and from where."
    return f"{os.environ['NAME']} in {os.path.basename(os.getcwd())}"
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """The page of a file and of an mcp.json with two servers, as the command opens it."""
    (tmp_path / "small.py").write_text(SMALL)
    entry = {"command": CLI[0], "args": [*CLI[1:], "run", str(tmp_path / "small.py")], "cwd": str(tmp_path)}
    servers = {name: {**entry, "env": {"NAME": name}} for name in ("left", "right")}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    words = [*CLI, "inspect", str(DEMO), str(tmp_path / "mcp.json"), "--no-browser", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["inspector"]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANG)


def test_several_servers_on_one_page_and_the_doctor_of_an_entry(
    browser: Any, link: str, tmp_path: Path
) -> None:
    page = open_page(browser, link)
    page.wait_for_function("() => document.querySelectorAll('.servers li .dot.good').length === 3")
    for name in ("right", "left"):
        page.click(f'.servers li button.server:has-text("{name}")')
        page.wait_for_selector(f'.servers li.chosen:has-text("{name}")')
        choose(page, "who")
        assert f"{name} in {tmp_path.name}" in run(page)
    page.click('.servers li button.server:has-text("weather")')
    page.wait_for_selector('.list li[data-key="forecast"]')
    page.click('.servers li button.server:has-text("left")')
    go(page, "health")
    page.click('button:has-text("Diagnostics")')
    page.wait_for_selector("text=/it uses revision 2024-11-05/")
    assert page.problems == []
    page.context.close()


def test_a_file_is_chosen_in_a_form(browser: Any, tmp_path: Path) -> None:
    server = Server("files")

    @server.tool
    async def measure(data: bytes) -> str:
        """How many bytes, and the last of them."""
        return f"{len(data)} bytes, {data[-1]}"

    (tmp_path / "picture.bin").write_bytes(bytes(range(256)) * 400)
    with running(server) as made:
        page = open_page(browser, made.link)
        choose(page, "measure")
        page.set_input_files('.editor-form input[type="file"]', tmp_path / "picture.bin")
        page.wait_for_function("() => document.querySelector('.editor-form textarea').value.length > 100000")
        assert "102400 bytes, 255" in run(page)
        assert page.problems == []
        page.context.close()


@pytest.fixture
def provider() -> Iterator[tuple[str, list[Any]]]:
    """What speaks as OpenAI does, on this machine; its URL and what it was asked."""
    asked: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            choice = {"message": {"role": "assistant", "content": "by a provider"}, "finish_reason": "stop"}
            data = json.dumps({"model": "local-1", "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
        server.shutdown()
        thread.join()


def test_sampling_is_answered_by_a_provider(browser: Any, provider: tuple[str, list[Any]]) -> None:
    url, asked = provider
    with running(build()) as made:
        page = open_page(browser, made.link)
        page.wait_for_selector(".list li[data-key]")
        go(page, "requests")
        page.select_option(".settings select", "openai")
        page.fill('[aria-label="Model"]', "local-1")
        page.fill('[aria-label="Base URL"]', url)
        page.fill('[aria-label="Key"]', "secret-key")
        page.click(".settings button >> nth=0")
        page.wait_for_selector(".settings >> text=Saved.")
        go(page, "tools")
        choose(page, "think")
        assert "by a provider" in run(page)
        [(path, body)] = asked
        assert path == "/v1/chat/completions"
        assert body["messages"][-1]["content"] == "Say something"
        assert not re.search("secret-key", page.content())
        assert page.problems == []
        page.context.close()
