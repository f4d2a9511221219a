"""What the inspector refuses, and what a hostile server cannot do in it."""

import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dovetail import Server, TextResource
from tests.support.waiting import HANG, wait_until

from .browsing import Running, chromium, open_page, running
from .demo import build, build_hostile
from .test_panels import choose, go, run


@pytest.fixture(scope="module")
def inspector() -> Iterator[Running]:
    with running(build()) as made:
        yield made


def ask(
    inspector: Running, path: str, method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, str, Any]:
    """One request of a client other than a browser; header names with underscores."""
    parts = urlsplit(inspector.origin)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=HANG)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given = {"Host": parts.netloc, **given}
    connection.request(method, path, None if body is None else json.dumps(body), given)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers


def test_the_page_opens_with_its_token_and_not_without(inspector: Running) -> None:
    token = inspector.inspector.token
    assert ask(inspector, f"/?token={token}")[0] == 200
    for path in ("/", "/?token=", "/?token=wrong", f"/?token={token}x"):
        assert ask(inspector, path)[0] == 403


def test_the_cookie_opens_the_empty_page_and_nothing_else(inspector: Running) -> None:
    _, _, headers = ask(inspector, f"/?token={inspector.inspector.token}")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert inspector.inspector.token not in cookie
    kept = cookie.partition(";")[0]
    assert ask(inspector, "/", Cookie=kept)[0] == 200
    assert ask(inspector, "/api/state", Cookie=kept)[0] == 403
    assert ask(inspector, "/events", Cookie=kept)[0] == 403


def test_input_requests_without_the_token_are_refused(inspector: Running) -> None:
    assert ask(inspector, "/api/state")[0] == 403
    assert ask(inspector, "/api/call", "POST", {"connection": 1, "method": "tools/call"})[0] == 403
    assert ask(inspector, "/api/state", X_Dovetail_Token=inspector.inspector.token)[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/main.js", "/api/state", "/events", "/app/x"])
def test_other_origins_and_hosts_are_refused_even_with_the_token(
    inspector: Running, headers: dict[str, str], path: str
) -> None:
    token = inspector.inspector.token
    status, _, answered = ask(inspector, f"{path}?token={token}", X_Dovetail_Token=token, **headers)
    assert status == 403
    assert "Access-Control-Allow-Origin" not in answered


def test_every_answer_forbids_what_the_page_does_not_need(inspector: Running) -> None:
    _, text, headers = ask(inspector, f"/?token={inspector.inspector.token}")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "server" not in headers
    assert headers["Referrer-Policy"] == "no-referrer"
    assert inspector.inspector.token not in text
    assert "style=" not in text
    assert "https://" not in text


def test_a_program_is_started_only_after_a_yes(inspector: Running, tmp_path: Any) -> None:
    mark = tmp_path / "started"
    command = f"touch {mark}"
    token = {"X_Dovetail_Token": inspector.inspector.token}
    status, text, _ = ask(inspector, "/api/connect", "POST", {"target": command}, **token)
    found = json.loads(text)
    assert status == 200
    assert found["commands"][0]["words"] == ["touch", str(mark)]
    assert not mark.exists()
    assert ask(inspector, "/api/connect", "POST", {"confirm": "guess"}, **token)[0] == 400
    assert not mark.exists()
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"one": {"command": "touch", "args": [str(mark)]}}}))
    _, text, _ = ask(inspector, "/api/connect", "POST", {"target": str(config)}, **token)
    assert "confirm" in json.loads(text)
    assert not mark.exists()
    status, text, _ = ask(inspector, "/api/connect", "POST", {"confirm": found["confirm"]}, **token)
    assert status == 200
    assert ask(inspector, "/api/connect", "POST", {"confirm": found["confirm"]}, **token)[0] == 400
    from ..support.waiting import wait_until

    wait_until(mark.exists)
    ask(inspector, "/api/disconnect", "POST", {"connection": json.loads(text)["connections"][0]}, **token)


def test_files_outside_the_page_cannot_be_had(inspector: Running) -> None:
    for path in (
        "/../api.py",
        "/..%2fapi.py",
        "/index.html",
        "/app.py",
        "/views/../../api.py",
        "//etc/passwd",
    ):
        assert ask(inspector, path)[0] == 404


def test_the_document_of_an_app_is_served_once_in_a_world_of_its_own(inspector: Running) -> None:
    token = {"X_Dovetail_Token": inspector.inspector.token}
    csp = {"connectDomains": ["https://api.example", "'self'; script-src *"], "resourceDomains": ["*"]}
    _, text, _ = ask(inspector, "/api/app", "POST", {"html": "<p>hi</p>", "csp": csp}, **token)
    url = json.loads(text)["url"]
    status, text, headers = ask(inspector, url)
    assert (status, text) == (200, "<p>hi</p>")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts allow-forms; default-src 'none'")
    assert "connect-src https://api.example;" in policy
    assert "*" not in policy
    assert "allow-same-origin" not in policy
    assert ask(inspector, url)[0] == 404


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


HACKED = "window.hacked !== undefined || top.hacked !== undefined"


class TestInABrowser:
    pytestmark = pytest.mark.browser

    def test_no_script_of_a_hostile_server_runs(self, browser: Any) -> None:
        with running(build_hostile()) as made:
            page = open_page(browser, made.link)
            choose(page, "talk")
            run(page)
            assert page.locator(".result .markdown strong").count() == 1
            assert page.locator(".result script, .result b, .result img[onerror]").count() == 0
            for link in page.query_selector_all(".result a, .tool a"):
                assert str(link.get_attribute("href")).startswith(("http://", "https://"))
            assert page.locator(".result .dead-link").count() == 3
            page.click(".result .dead-link >> nth=0")
            go(page, "resources")
            run(page)
            go(page, "tools")
            choose(page, "ask")
            page.click(".runner button.primary")
            page.wait_for_selector("dialog .question")
            page.keyboard.press("Escape")
            page.click(".notice.ask a")
            page.wait_for_selector(".question")
            for panel in ("messages", "logs", "revisions", "health", "sessions", "tasks"):
                go(page, panel)
            page.wait_for_function(
                "() => document.querySelector('.head h1').textContent.includes('<script>')"
            )
            assert page.evaluate(HACKED) is False
            assert page.problems == []
            page.context.close()

    def test_text_cannot_become_markup_in_the_page(self, browser: Any, inspector: Running) -> None:
        page = open_page(browser, inspector.link)
        page.wait_for_selector(".list li[data-key]")
        refused = page.evaluate(
            "() => { try { document.body.innerHTML = '<i>x</i>'; return false } catch { return true } }"
        )
        assert refused
        assert "token" not in page.url
        page.reload()
        page.wait_for_selector(".list li[data-key]")
        page.context.close()

    def test_a_tab_without_the_token_shows_nothing_and_says_why(
        self, browser: Any, inspector: Running
    ) -> None:
        stranger = browser.new_context().new_page()
        answer = stranger.goto(f"{inspector.origin}/")
        assert answer.status == 403
        assert "the token is missing or old" in stranger.inner_text("body")
        stranger.context.close()
        page = open_page(browser, inspector.link)
        page.wait_for_selector(".list li[data-key]")
        second = page.context.new_page()  # it has the cookie, and the cookie opens the empty page alone
        second.goto(f"{inspector.origin}/")
        second.wait_for_selector(".notice >> text=This tab has no token")
        assert second.locator(".servers li").count() == 0
        page.context.close()

    def test_a_foreign_page_gets_nothing(self, browser: Any, inspector: Running) -> None:
        with running() as other:  # another port of this machine is another origin
            page = open_page(browser, other.link)
            page.wait_for_selector(".connect")
            answered = page.evaluate(
                "async (url) => { try { return (await fetch(url, {mode: 'no-cors'})).status } catch { return 'no' } }",
                f"{inspector.origin}/api/state?token={inspector.inspector.token}",
            )
            assert answered in (0, "no")
            page.context.close()

    def test_text_that_nearly_matches_does_not_keep_the_page_busy(self, browser: Any) -> None:
        server = Server("slow")
        for number, text in enumerate(("[a](" * 25_000, "`a``a" * 20_000, "|\n" + " " * 90_000)):
            server.add_tool(lambda: "", name=f"tool{number}", description=f"# It\n\n{text}")
        with running(server) as made:
            page = open_page(browser, made.link)
            for number in range(3):
                choose(page, f"tool{number}")
                page.wait_for_selector(".tool .markdown h3")
            page.context.close()

    def test_no_schema_keeps_a_tool_from_being_shown_or_the_page_busy(
        self, browser: Any, tmp_path: Path
    ) -> None:
        (tmp_path / "odd.txt").write_text(ODD)
        with running() as made:
            made.connect([sys.executable, str(tmp_path / "odd.txt")], "odd")
            page = open_page(browser, made.link)
            for name in ("first", "weird", "nonsense", "loop"):
                choose(page, name)
                page.wait_for_selector(f'.tool h2:has-text("{name}")')
            choose(page, "weird")
            page.locator(".editor-form").get_by_label("__proto__").fill("a name like any other")
            assert json.loads(page.input_value(".editor-json textarea")) == {
                "__proto__": "a name like any other"
            }
            choose(page, "slow")
            assert "ran slow" in run(page)
            choose(page, "nonsense")
            page.fill(".editor-json textarea", '{"any": 1}')
            assert "ran nonsense" in run(page)
            choose(page, "long")
            assert page.locator('.list li[data-key="long"]').bounding_box()["height"] < 120
            assert page.problems == []
            page.context.close()

    def test_an_app_gets_a_response_to_every_message_and_notifications_of_its_own_tools_only(
        self, browser: Any
    ) -> None:
        server = Server("app")
        server.add_tool(lambda: "ran", name="hidden", description="x", meta={"ui": {"visibility": ["model"]}})
        server.add_resource("ui://app", TextResource(ODD_APP), mime_type="text/html;profile=mcp-app")
        with running(server) as made:
            page = open_page(browser, made.link)
            page.wait_for_selector(".list li[data-key]")
            page.evaluate(FORGETFUL)
            frame = page.frame_locator("iframe")
            frame.locator("text=hidden is not for apps").wait_for()
            assert frame.locator("text=ran").count() == 0
            assert page.problems == []
            page.context.close()

    def test_a_command_is_shown_completely_before_it_is_started(self, browser: Any, tmp_path: Path) -> None:
        config = tmp_path / "mcp.json"
        hidden = {"command": "sh", "args": ["-c", "rm -rf /", "\u202etxt.ylno-daer"]}
        config.write_text(json.dumps({"mcpServers": {"one": hidden}}))
        with running() as made:
            page = open_page(browser, made.link)
            page.click(".connect")
            page.get_by_label("Server: a URL").fill(str(config))
            page.keyboard.press("Enter")
            assert page.inner_text(".command") == "sh -c 'rm -rf /' '\\u{202e}txt.ylno-daer'"
            page.context.close()

    def test_an_app_speaks_to_its_own_server_and_asks_about_one_link(self, browser: Any) -> None:
        heard: dict[str, int] = {"first": 0, "second": 0}

        def build_one(name: str) -> Server:
            server = Server(name)

            @server.tool
            def count() -> str:
                heard[name] += 1
                return name

            server.add_resource("ui://app", TextResource(EAGER), mime_type="text/html;profile=mcp-app")
            return server

        with running(build_one("first"), build_one("second")) as made:
            page = open_page(browser, made.link)
            page.wait_for_selector(".list li[data-key]")
            page.evaluate(SWITCHED)
            wait_until(lambda: heard["first"] + heard["second"] > 5)
            assert heard["second"] == 0
            page.wait_for_selector("dialog")
            assert page.locator("dialog").count() == 1
            page.context.close()


ODD = """
import json, sys

weird = {"__proto__": {"type": "string"}, "b": 5, "c": True, "d": {"oneOf": []}, "e": {"anyOf": [False, 3]}}
patterned = {"p": {"type": "string", "pattern": "^(a+)+$", "default": "a" * 60 + "!"}}
loop = {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#"}}
tools = {
    "first": {}, "weird": {"properties": json.loads(json.dumps(weird))}, "slow": {"properties": patterned},
    "nonsense": {"properties": {"x": {"$ref": "#/%"}}, "required": 5, "allOf": [{"required": 7}]},
    "loop": {"properties": loop, "required": ["b"], "$defs": {"a": {"$ref": "#/$defs/a"}}}, "long": {},
}
listed = [{"name": name, "inputSchema": {"type": "object", **more}} for name, more in tools.items()]
listed[-1]["title"] = "x" * 5000
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"tools": listed}
    if asked["method"] == "initialize":
        info = {"name": "odd", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "ran " + asked["params"]["name"]}]}
    elif asked["method"] != "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
ODD_APP = """<body><script>
const say = (message) => parent.postMessage(message, "*");
const about = (method, params) => say({ jsonrpc: "2.0", method, params });
for (const odd of [null, 5, "x", {}, { jsonrpc: "2.0", method: 5 }]) say(odd);
for (const odd of [null, undefined, 5, {}]) {
  about("ui/notifications/size-changed", odd);
  about("notifications/message", odd);
  for (const method of ["ui/message", "ui/open-link"]) say({ jsonrpc: "2.0", id: 1, method, params: odd });
}
addEventListener("message", ({ data }) => { if (data.id === 9) document.body.append(JSON.stringify(data)); });
say({ jsonrpc: "2.0", id: 9, method: "tools/call", params: { name: "hidden", arguments: {} } });
</script>"""
FORGETFUL = """async () => {
  const { openApp } = await import("/appframe.js");
  const { store } = await import("/store.js");
  const app = await openApp("ui://app");
  store.lists.clear(); // as after a change of the lists
  document.body.append(app.element);
}"""
EAGER = """<script>
let id = 0;
const ask = (method, params) => parent.postMessage({ jsonrpc: "2.0", id: id++, method, params }, "*");
setInterval(() => { ask("tools/call", { name: "count" }); ask("ui/open-link", { url: "https://a.example/" }); }, 30);
</script>"""
SWITCHED = """async () => {
  const { openApp } = await import("/appframe.js");
  const { choose, store } = await import("/store.js");
  const ids = [...store.connections.keys()];
  choose(ids[0]);
  const app = await openApp("ui://app");
  document.body.append(app.element);
  choose(ids[1]);
}"""
