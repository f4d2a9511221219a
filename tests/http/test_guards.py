"""Who may call at all: Host, Origin, CORS."""

import json
from typing import Any

import pytest

from dovetail.settings import HttpOptions
from dovetail.transports.http.server.guards import Guard, parse_accept, unreadable
from dovetail.transports.loopback import is_loopback
from tests.support.aio import run
from tests.support.everything import build
from tests.support.held import held
from tests.support.waiting import until
from tests.support.web import Web, modern, modern_headers, served

LOCAL = "127.0.0.1"
REMOTE = "192.0.2.7"
SOCKET = None


def refusal(local: str | None, host: str | None, origin: str | None = None, **options: Any) -> str | None:
    headers = {"host": host} if host is not None else {}
    if origin is not None:
        headers["origin"] = origin
    return Guard(HttpOptions(**options)).refusal(local, headers)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "127.9.9.9"])
def test_on_loopback_its_own_names_are_served(host: str) -> None:
    assert refusal(LOCAL, host) is None
    assert refusal(LOCAL, host, "http://localhost:3000") is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.evil.example", "127.0.0.1.evil.example", "", "[evil]"],
)
def test_on_loopback_every_other_name_is_refused_and_the_setting_named(host: str) -> None:
    reason = refusal(LOCAL, host)
    assert reason is not None
    assert "allowed_hosts" in reason
    assert refusal("::ffff:127.0.0.1", host) is not None
    assert refusal(LOCAL, "localhost", f"http://{host or 'evil'}") is not None


@pytest.mark.parametrize("port", ["", "65536", "99999", "70000", "655360", "-1", "8o"])
def test_an_invalid_port_in_host_or_origin_is_refused(port: str) -> None:
    assert refusal(LOCAL, f"localhost:{port}") is not None
    assert refusal(LOCAL, "localhost", f"http://localhost:{port}") is not None


@pytest.mark.parametrize("port", ["0", "80", "8000", "59999", "60000", "64999", "65499", "65529", "65535"])
def test_every_port_that_there_is_is_served(port: str) -> None:
    assert refusal(LOCAL, f"[::1]:{port}", f"http://127.0.0.1:{port}") is None


@run
async def test_the_host_of_a_whole_url_counts_in_place_of_host() -> None:
    body = json.dumps(modern("tools/list")).encode()
    async with served(build()) as site:
        own = f"127.0.0.1:{site.port}"
        for there, said, status in (
            (own, "evil.example", 200),
            ("evil.example", own, 403),
            ("a@[::1]", own, 403),
        ):
            connection = await site.connect()
            headers = modern_headers(modern("tools/list")) | {"Host": said}
            connection.request("POST", f"http://{there}/mcp", headers, body)
            assert (await connection.head()).status == status


@pytest.mark.parametrize(
    "lines",
    ["Origin: http://evil.example\r\nOrigin: http://127.0.0.1", "Mcp-Session-Id: a\r\nMcp-Session-Id: b"],
)
def test_a_header_that_comes_twice_is_refused_where_a_url_stands_for_host(lines: str) -> None:
    @run
    async def scenario() -> None:
        message = modern("tools/list")
        body = json.dumps(message).encode()
        headers = "".join(f"{name}: {value}\r\n" for name, value in modern_headers(message).items())
        head = (
            f"POST http://127.0.0.1/mcp HTTP/1.1\r\n{lines}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        )
        async with served(build()) as site, await site.connect() as connection:
            connection.send(head.encode() + body)
            assert (await connection.head()).status == 400

    scenario()


def test_allowed_hosts_are_names_with_or_without_a_port() -> None:
    assert refusal(LOCAL, "mcp.example:8000", allowed_hosts=("mcp.example",)) is None
    assert refusal(LOCAL, "mcp.example:8000", allowed_hosts=("mcp.example:8000",)) is None
    assert refusal(LOCAL, "mcp.example:9", allowed_hosts=("mcp.example:8000",)) is not None
    assert refusal(REMOTE, "other.example", allowed_hosts=("mcp.example",)) is not None


def test_a_star_allows_every_host_on_loopback_and_no_other_page() -> None:
    for local in (LOCAL, REMOTE):
        assert refusal(local, "abc.lambda-url.example", allowed_hosts=("*",)) is None
        assert refusal(local, None, allowed_hosts=("*",)) is None
        assert (
            refusal(local, "abc.lambda-url.example", "https://evil.example", allowed_hosts=("*",)) is not None
        )


def test_elsewhere_host_is_free_and_pages_need_to_be_listed() -> None:
    assert refusal(REMOTE, "whatever.example") is None
    assert refusal(SOCKET, "whatever.example") is None
    for origin in ("https://page.example", "null", "http://localhost"):
        reason = refusal(REMOTE, "whatever.example", origin)
        assert reason is not None
        assert "allowed_origins" in reason
    assert refusal(REMOTE, "x", "https://page.example", allowed_origins=("https://page.example",)) is None
    assert (
        refusal(REMOTE, "x", "https://page.example:8443", allowed_origins=("https://page.example",))
        is not None
    )
    assert refusal(REMOTE, "x", "http://page.example", allowed_origins=("https://page.example",)) is not None


def test_a_request_without_a_host_is_refused_where_hosts_count() -> None:
    assert refusal(LOCAL, None) is not None
    assert refusal(REMOTE, None) is None


def test_small_readers() -> None:
    assert not is_loopback(None)
    assert not is_loopback("0.0.0.0")
    assert unreadable({"content-type": "Application/JSON ; charset=utf-8"}) is None
    assert unreadable({"content-type": "application/json-patch+json"}) is not None
    assert parse_accept("application/json;q=0, text/event-stream") == 2
    assert parse_accept("") == 0


@run
async def test_a_foreign_host_or_page_gets_403_everywhere() -> None:
    async with served(build()) as site:
        web = Web(site)
        message = modern("tools/list")
        body = json.dumps(message).encode()
        good = modern_headers(message)
        assert (await web.ask("POST", good, body)).status == 200
        for bad in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
            found = await web.ask("POST", good | bad, body)
            assert found.status == 403
            assert "allowed_" in found.message["error"]["message"]
            for path, method in (("/sse", "GET"), ("/messages", "POST"), ("/mcp", "GET"), ("/mcp", "DELETE")):
                assert (await web.ask(method, good | bad, b"{}", path=path)).status == 403
            async with await site.connect() as connection:
                upgrade = {
                    "Connection": "Upgrade",
                    "Upgrade": "websocket",
                    "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
                }
                connection.request("GET", "/mcp", upgrade | bad)
                found = await connection.response()
                assert found.status == 403
                assert b"allowed_" in found.body


UPGRADE = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw=="),
]


@pytest.mark.parametrize(
    "pairs",
    [
        [("Host", "evil.example"), ("Host", "127.0.0.1")],
        [("Host", "127.0.0.1"), ("Origin", "https://evil.example"), ("Origin", "http://127.0.0.1")],
        [("Host", "127.0.0.1"), ("Origin", "https://evil.example\xe4")],
        [("Host", "127.0.0.1"), ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "none")],
    ],
)
def test_of_two_opinions_neither_opens_any_door(pairs: list[tuple[str, str]]) -> None:
    @run
    async def scenario() -> None:
        message = modern("tools/list")
        async with served(build()) as site:
            for method, path, more, body in (
                ("POST", "/mcp", list(modern_headers(message).items()), json.dumps(message).encode()),
                ("GET", "/sse", [], None),
                ("GET", "/livez", [], None),
                ("GET", "/mcp", UPGRADE, None),
            ):
                async with await site.connect() as connection:
                    connection.request(method, path, [*pairs, *more], body)
                    assert (await connection.head()).status in (400, 403), path

    scenario()


@run
async def test_a_handshake_that_is_refused_or_left_is_no_failure(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async with served(build()) as site:
        for more in ([("Origin", "https://evil.example")], [("Host", "evil.example")]):
            async with await site.connect() as connection:
                connection.request("GET", "/mcp", [*UPGRADE, *more])
                assert (await connection.head()).status in (400, 403)
        for _ in range(5):
            connection = await site.connect()
            connection.request("GET", "/mcp", UPGRADE)
            await connection.writer.drain()
            connection.writer.transport.abort()
        assert (await Web(site).modern("tools/list")).status == 200
        await until(lambda: not site.app.state.sockets)
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert "Traceback" not in capfd.readouterr().err


@run
async def test_probes_come_under_any_name_but_from_no_page_of_another_site() -> None:
    async with served(build()) as site:
        web, whole = Web(site), {"Accept": "application/json"}
        for path in ("/livez", "/readyz"):
            assert (await web.ask("GET", {"Host": "10.0.0.1"}, path=path)).status == 200
            for page in (
                {"Origin": "https://evil.example"},
                {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"},
            ):
                assert (await web.ask("GET", page, path=path)).status == 403
        assert (await web.ask("GET", whole, path="/readyz")).message["components"] is not None
        rebound = await web.ask("GET", whole | {"Host": "evil.example"}, path="/readyz")
        assert rebound.body == b"ready\n"


@run
async def test_a_host_or_origin_that_cannot_be_read_is_refused() -> None:
    async with served(build()) as site:
        message = modern("tools/list")
        body = json.dumps(message).encode()
        for bad in ({"Host": "localhost\xe4"}, {"Origin": "http://localhost\xe4"}):
            for _ in range(2):
                found = await Web(site).ask("POST", modern_headers(message) | bad, body)
                assert found.status == 403


@run
async def test_there_is_no_cors_unless_it_is_configured() -> None:
    async with served(build(), allowed_origins=("https://page.example",)) as site:
        web = Web(site)
        message = modern("tools/list")
        headers = modern_headers(message) | {"Origin": "https://page.example"}
        found = await web.ask("POST", headers, json.dumps(message).encode())
        assert found.status == 200
        assert not any(name.startswith("access-control") for name in found.headers)
        assert (await web.ask("OPTIONS", headers)).status == 405


@run
async def test_cors_answers_for_the_allowed_origins_alone() -> None:
    async with served(build(), allowed_origins=("https://page.example",), cors=True) as site:
        web = Web(site)
        message = modern("tools/list")
        origin = {"Origin": "https://page.example"}
        asked = {"Access-Control-Request-Headers": "mcp-param-region, mcp-param-a b, x-other, authorization"}
        found = await web.ask("OPTIONS", origin | asked | {"Access-Control-Request-Method": "POST"})
        assert found.status == 204
        assert found.headers["access-control-allow-origin"] == "https://page.example"
        assert "DELETE" in found.headers["access-control-allow-methods"]
        allowed = [name.strip().lower() for name in found.headers["access-control-allow-headers"].split(",")]
        assert {"mcp-session-id", "mcp-method", "last-event-id", "authorization", "mcp-param-region"} <= set(
            allowed
        )
        assert not {"x-other", "mcp-param-a b"} & set(allowed)
        for _ in range(2):  # the second one has been seen before
            found = await web.ask("POST", modern_headers(message) | origin, json.dumps(message).encode())
            assert found.headers["access-control-allow-origin"] == "https://page.example"
            assert "Mcp-Session-Id" in found.headers["access-control-expose-headers"]
            assert found.headers["vary"] == "Origin"
        local = await web.ask(
            "POST", modern_headers(message) | {"Origin": "http://localhost"}, json.dumps(message).encode()
        )
        assert local.status == 200
        assert "access-control-allow-origin" not in local.headers
        assert (await web.ask("OPTIONS", {"Origin": "https://evil.example"})).status == 403


@run
async def test_a_request_that_was_fine_before_is_checked_again_when_anything_differs() -> None:
    async with served(build()) as site:
        web = Web(site)
        message = modern("tools/list")
        body = json.dumps(message).encode()
        good = modern_headers(message)
        for _ in range(3):
            assert (await web.ask("POST", good, body)).status == 200
        assert (await web.ask("POST", good | {"Host": "evil.example"}, body)).status == 403
        assert (await web.ask("POST", good | {"Accept": "text/html"}, body)).status == 406
        assert (await web.ask("POST", good | {"Content-Type": "text/plain"}, body)).status == 415
        assert (await web.ask("GET", good)).status == 405
        sizes: list[int] = []
        for number in range(1200):  # the cache is bounded
            await web.ask("POST", good | {"Host": f"127.0.0.{number % 250}:{number}"}, body)
            if number % 20 == 0:
                sizes.append(held(site.app))
        assert max(sizes[20:]) <= max(sizes[:20]) * 1.1


STRANGE_NAMES = [
    "127.0.0.1:8000@evil.example",
    "[::1].evil.example",
    "localhost:80.evil.example",
    "localhost.evil.example",
    "localhost:port",
    "localhost:-1",
    "localhost/x",
    "localhost#x",
    "local\\host",
    "[::1",
    "",
]


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_a_name_that_only_resembles_the_servers_is_refused(name: str) -> None:
    assert refusal(LOCAL, name) is not None
    assert refusal(LOCAL, LOCAL, f"http://{name}") is not None


@pytest.mark.parametrize("scheme", ["evil", "file", "ftp", "https://http"])
def test_an_origin_is_http_or_https(scheme: str) -> None:
    assert refusal(LOCAL, LOCAL, f"{scheme}://localhost") is not None


def from_site(site: str, origin: str | None = None, **options: Any) -> str | None:
    headers = {"host": LOCAL, "sec-fetch-site": site} | ({} if origin is None else {"origin": origin})
    return Guard(HttpOptions(**options)).refusal(LOCAL, headers)


def test_a_request_from_another_site_is_refused_though_it_names_no_origin() -> None:
    assert from_site("cross-site") is not None
    assert from_site("Cross-Site ", "http://localhost") is not None
    for site in ("same-origin", "same-site", "none"):
        assert from_site(site) is None


def test_a_page_that_is_allowed_may_come_from_another_site() -> None:
    page = "https://page.example"
    assert from_site("cross-site", page, allowed_origins=(page,)) is None
