"""The table of statuses: what each kind of request is answered with, and nothing else."""

import json
from typing import Any

import pytest

from dovetail import Principal, Server
from dovetail.auth import StaticTokens
from dovetail.settings import Limits
from tests.support.aio import run
from tests.support.everything import build
from tests.support.rawclient import MODERN
from tests.support.schemas import validate
from tests.support.web import (
    BOTH,
    Response,
    Web,
    legacy_headers,
    messages,
    modern,
    modern_headers,
    request,
    served,
    text,
)

SMALL = Limits(max_message_bytes=2000, max_header_bytes=4000)


def error(found: Response, status: int, code: int, revision: str = MODERN) -> dict[str, Any]:
    assert found.status == status, (found.status, found.body)
    validate(found.body, revision, kind="error")
    assert found.message["error"]["code"] == code, found.body
    return found.message


@run
async def test_a_modern_call_is_answered_with_json() -> None:
    async with served(build()) as site:
        found = await Web(site).modern("tools/call", {"name": "shout", "arguments": {"words": "hey"}})
        assert found.status == 200
        assert "mcp-session-id" not in found.headers
        assert text(found.message["result"]) == "HEY"


@run
async def test_a_modern_call_that_reports_becomes_a_stream_from_the_first_notification_on() -> None:
    async with served(build()) as site:
        found = await Web(site).modern("tools/call", {"name": "count"}, meta={"progressToken": "t"})
        assert found.status == 200
        assert found.headers["content-type"] == "text/event-stream"
        assert found.headers["x-accel-buffering"] == "no"
        assert found.headers["cache-control"] == "no-cache"
        assert b"id:" not in found.body
        *notes, last = messages(found.body)
        assert [note["params"]["progress"] for note in notes] == [1, 2, 3]
        validate(last, MODERN, method="tools/call")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_errors_in_a_session_are_answered_with_200(revision: str) -> None:
    @run
    async def scenario() -> None:
        async with served(build()) as site:
            web = Web(site)
            session, _ = await web.initialize(revision)
            error(await web.legacy(revision, session, "no/such"), 200, -32601, revision)
            error(await web.legacy(revision, session, "tools/call", {"name": "?"}), 200, -32602, revision)
            error(
                await web.legacy(revision, session, "resources/read", {"uri": "x://y"}), 200, -32002, revision
            )

    scenario()


@run
async def test_modern_refusals_have_their_statuses() -> None:
    async with served(build()) as site:
        web = Web(site)
        found = await web.modern("no/such")
        error(found, 404, -32601)
        error(await web.modern("tools/call", {"name": "no-such-tool"}), 200, -32602)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
        headers = modern_headers({"method": "tools/list"})
        assert error(await web.ask("POST", headers, body), 400, -32602)["id"] == 1
        message = modern("tools/list", meta={"io.modelcontextprotocol/protocolVersion": "2099-01-01"})
        found = await web.ask(
            "POST", headers | {"MCP-Protocol-Version": "2099-01-01"}, json.dumps(message).encode()
        )
        data = error(found, 400, -32022)["error"]["data"]
        assert data["requested"] == "2099-01-01"
        assert data["supported"][0] == MODERN
        without = modern(
            "tools/call", {"name": "seat"}, meta={"io.modelcontextprotocol/clientCapabilities": {}}
        )
        found = await web.ask("POST", modern_headers(without), json.dumps(without).encode())
        error(found, 400, -32021)


@run
async def test_a_response_to_a_modern_server_and_a_batch_are_refused() -> None:
    async with served(build()) as site:
        web = Web(site)
        headers = modern_headers({"method": "tools/list"})
        error(await web.ask("POST", headers, b'{"jsonrpc":"2.0","id":1,"result":{}}'), 400, -32600)
        error(await web.ask("POST", headers, json.dumps([modern("tools/list")]).encode()), 400, -32600)


@run
async def test_a_modern_notification_is_accepted_with_or_without_headers() -> None:
    async with served(build()) as site:
        web = Web(site)
        body = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
        for headers in (
            {"MCP-Protocol-Version": MODERN},
            modern_headers({"method": "notifications/cancelled"}),
        ):
            found = await web.ask(
                "POST", {"Content-Type": "application/json", "Accept": BOTH} | headers, body
            )
            assert (found.status, found.body) == (202, b"")


@run
async def test_what_is_not_json_is_a_parse_error_in_either_era() -> None:
    async with served(build()) as site:
        web = Web(site)
        for headers in (modern_headers({"method": "tools/list"}), legacy_headers("2025-11-25")):
            for body in (b"", b"{", b"\xff\xfe", b'{"jsonrpc":"2.0","method":"\xff"}'):
                found = await web.ask("POST", headers, body)
                assert "id" not in error(found, 400, -32700)


@run
async def test_broken_json_rpc_is_400() -> None:
    async with served(build()) as site:
        web = Web(site)
        for headers in (modern_headers({"method": "tools/list"}), legacy_headers("2025-11-25")):
            error(await web.ask("POST", headers, b'{"jsonrpc":"1.0","id":1,"method":"x"}'), 400, -32600)
            error(await web.ask("POST", headers, b'{"jsonrpc":"2.0","id":null,"method":"x"}'), 400, -32600)


@run
async def test_a_packed_body_is_refused_in_every_era_whatever_came_before() -> None:
    async with served(build()) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-06-18")
        listed = request("tools/list")
        for message, headers in (
            (modern("tools/list"), modern_headers(modern("tools/list"))),
            (listed, legacy_headers("2025-06-18", session)),
        ):
            body = json.dumps(message).encode()
            for _ in range(2):
                assert (await web.ask("POST", headers, body)).status == 200
            for coding in ("gzip", "br", "Deflate", "x", "identity, gzip"):
                refused = await web.ask("POST", headers | {"Content-Encoding": coding}, body)
                error(refused, 415, -32600)
                assert refused.headers["accept-encoding"] == "identity"
            for coding in ("identity", "Identity"):
                assert (await web.ask("POST", headers | {"Content-Encoding": coding}, body)).status == 200


@run
async def test_media_types_are_checked() -> None:
    async with served(build(client_workarounds=False)) as site:
        web = Web(site)
        message = modern("tools/list")
        body = json.dumps(message).encode()
        good = modern_headers(message)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
            error(await web.ask("POST", good | {"Content-Type": kind}, body), 415, -32600)
        without = {name: value for name, value in good.items() if name != "Content-Type"}
        error(await web.ask("POST", without, body), 415, -32600)
        for kind in ("application/json", "text/event-stream", "text/html", f"{BOTH};q=0"):
            error(await web.ask("POST", good | {"Accept": kind}, body), 406, -32600)
        for kind in (
            "*/*",
            "application/*, text/*",
            "text/event-stream;q=0.5,application/json",
            BOTH.upper(),
        ):
            assert (await web.ask("POST", good | {"Accept": kind}, body)).status == 200
        charset = good | {"Content-Type": "application/json; charset=utf-8"}
        assert (await web.ask("POST", charset, body)).status == 200


@pytest.mark.parametrize("dialect", ["erlmcp", "minimcp", "mcp_client"])
@run
async def test_an_unread_request_gets_the_official_message_if_its_headers_are_modern(dialect: str) -> None:
    async with served(build(dialect=dialect, limits=SMALL)) as site:
        web, good = Web(site), modern_headers({"method": "tools/list"})
        for headers, body, status, code in (
            (good, b"{", 400, -32700),
            (good, b"\xff", 400, -32700),
            (good, b" " * 2001, 413, -32600),
            (good | {"Content-Type": "text/plain"}, b"{}", 415, -32600),
            (good | {"Accept": "text/html"}, b"{}", 406, -32600),  # -32020 would be a header that differs
        ):
            assert "id" not in error(await web.ask("POST", headers, body), status, code)


@run
async def test_other_methods_and_paths() -> None:
    async with served(build()) as site:
        web = Web(site)
        for method in ("PUT", "PATCH", "HEAD", "OPTIONS"):
            async with await site.connect() as connection:
                connection.request(method, "/mcp", {})
                head = await connection.head()
                assert (head.status, head.headers["allow"]) == (405, "POST, GET, DELETE")
        for method in ("GET", "DELETE"):
            found = await web.ask(method, {"MCP-Protocol-Version": MODERN, "Accept": BOTH})
            assert (found.status, found.headers["allow"]) == (405, "POST")
            found = await web.ask(method, {"Accept": BOTH})
            assert (found.status, found.headers["allow"]) == (405, "POST")
        assert (await web.ask("POST", {}, b"", path="/")).status == 404
        assert (await web.ask("GET", {}, path="/mcpx")).status == 404
        assert (await web.ask("GET", {}, path="/livez")).body == b"alive\n"
        assert (await web.ask("GET", {}, path="/readyz")).body == b"ready\n"
        for path in ("/livez", "/readyz"):
            found = await web.ask("POST", {}, b"", path=path)
            assert (found.status, found.headers["allow"]) == (405, "GET, HEAD")


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"}


@run
async def test_a_browser_gets_a_page_that_says_what_is_served() -> None:
    server = Server("<Shop>")
    async with served(server) as site:
        web = Web(site)
        for path in ("/", "/mcp"):
            found = await web.ask("GET", {**BROWSER, "Host": f"localhost:{site.port}"}, path=path)
            assert (found.status, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
            page = found.body.decode()
            assert "&lt;Shop&gt;" in page
            assert "Model Context Protocol" in page
            assert f"dovetail inspect http://localhost:{site.port}/mcp" in page
            # Only requests for HTML get the page.
            assert (await web.ask("GET", {"Accept": BOTH}, path=path)).status == (404 if path == "/" else 405)
            evil = await web.ask("GET", {**BROWSER, "Host": "evil.example"}, path=path)
            assert (evil.status, b"Shop" in evil.body) == (403, False)
        assert (await web.ask("GET", BROWSER, path="/other")).status == 404


@run
async def test_the_page_of_a_protected_server_does_not_name_it() -> None:
    async with served(Server("secret-shop", auth=StaticTokens({"t": Principal("ann")}))) as site:
        found = await Web(site).ask("GET", BROWSER)
        assert (found.status, b"secret-shop" in found.body) == (200, False)


@run
async def test_a_route_of_the_author_at_the_root_comes_before_the_page() -> None:
    server = Server("shop")

    @server.route("/", methods=["GET"])
    async def home(request: Any) -> str:
        return "welcome"

    async with served(server) as site:
        assert (await Web(site).ask("GET", BROWSER, path="/")).body == b"welcome"


@run
async def test_a_body_over_the_limit_is_413_however_it_is_sent() -> None:
    async with served(build(limits=SMALL)) as site:
        web = Web(site)
        headers = modern_headers({"method": "tools/list"})
        error(await web.ask("POST", headers, b" " * 2001), 413, -32600)
        async with await site.connect() as connection:  # the length alone is enough
            connection.request("POST", "/mcp", headers | {"Content-Length": "99999999999999999999"})
            assert (await connection.head()).status in (400, 413)
        async with await site.connect() as connection:
            connection.request("POST", "/mcp", headers | {"Transfer-Encoding": "chunked"})
            for _ in range(30):
                connection.send(b"64\r\n" + b" " * 100 + b"\r\n")
            found = await connection.response()
            error(found, 413, -32600)
            assert found.headers["connection"] == "close"
        assert (await web.modern("tools/call", {"name": "shout", "arguments": {"words": "x"}})).status == 200


@run
async def test_a_head_over_the_limit_is_431() -> None:
    async with served(build(limits=SMALL)) as site:
        found = await Web(site).ask(
            "POST", modern_headers({"method": "x"}) | {"X-Padding": "x" * 5000}, b"{}"
        )
        assert found.status == 431


@run
async def test_a_header_that_came_twice_is_refused() -> None:
    async with served(build()) as site:
        message = modern("tools/list")
        body = json.dumps(message).encode()
        pairs = list(modern_headers(message).items())
        for extra, code in (
            (("Host", "evil.example"), -32600),
            (("Content-Type", "text/plain"), -32600),
            (("Mcp-Method", "tools/list"), -32020),
            (("MCP-Protocol-Version", MODERN), -32020),
        ):
            async with await site.connect() as connection:
                connection.request("POST", "/mcp", [("Host", "127.0.0.1"), *pairs, extra], body)
                error(await connection.response(), 400, code)


@run
async def test_two_versions_are_named_whatever_era_the_message_is_of() -> None:
    async with served(build(client_workarounds=False)) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-11-25")
        body = json.dumps(request("tools/list", {})).encode()
        pairs = [("Host", "127.0.0.1"), *legacy_headers(None, session).items()]
        for versions in (("2025-06-18", "2025-11-25"), (MODERN, "2025-11-25")):
            async with await site.connect() as connection:
                both = [("MCP-Protocol-Version", version) for version in versions]
                connection.request("POST", "/mcp", [*pairs, *both], body)
                found = error(await connection.response(), 400, -32020)
                assert ", ".join(versions) in found["error"]["message"]
        found = await web.ask("POST", legacy_headers("2025-06-18", session), body)
        message = error(found, 400, -32600)["error"]["message"]
        assert "2025-06-18" in message
        assert "2025-11-25" in message


@run
async def test_routing_headers_must_agree_with_the_body() -> None:
    async with served(build()) as site:
        web = Web(site)
        message = modern("tools/call", {"name": "shout", "arguments": {"words": "x"}})
        body = json.dumps(message).encode()
        good = modern_headers(message)
        for change in (
            {"Mcp-Method": "TOOLS/CALL"},
            {"Mcp-Method": "tools/list"},
            {"Mcp-Name": "Shout"},
            {"Mcp-Name": "=?base64?!!!?="},
            {"Mcp-Name": "=?base64?c2hvdXQ?="},
            {"Mcp-Name": "sh\xf6ut"},
            {"MCP-Protocol-Version": "2025-11-25"},
            {"MCP-Protocol-Version": "v999"},
        ):
            found = error(await web.ask("POST", good | change, body), 400, -32020)
            assert found["id"] == message["id"]
            if (version := change.get("MCP-Protocol-Version")) is not None:
                assert f"'{version}', not '{MODERN}'" in found["error"]["message"]
        for name in ("Mcp-Method", "Mcp-Name", "MCP-Protocol-Version"):
            error(await web.ask("POST", {k: v for k, v in good.items() if k != name}, body), 400, -32020)
        encoded = good | {"Mcp-Name": "=?base64?c2hvdXQ=?="}
        assert (await web.ask("POST", encoded, body)).status == 200
        spaced = good | {"Mcp-Name": "  shout  ", "mcp-method": "tools/call", "Mcp-Param-Unknown": "x"}
        del spaced["Mcp-Method"]
        assert (await web.ask("POST", spaced, body)).status == 200


@pytest.mark.parametrize("asked", [False, True], ids=["configured", "asked for"])
@run
async def test_the_status_table_of_minimcp_holds_under_its_dialect(asked: bool) -> None:
    async with served(build(dialect="official" if asked else "minimcp")) as site:
        web = Web(site)
        wish = {"dialect": {"name": "minimcp"}} if asked else {}
        session, _ = await web.initialize("2025-06-18", experimental=wish)
        unknown = await web.legacy("2025-06-18", session, "no/such")
        assert unknown.status == 404
        missing = await web.legacy("2025-06-18", session, "resources/read", {"uri": "x://y"})
        assert missing.status == 404
        wrong = await web.legacy("2025-06-18", session, "prompts/get", {"name": "?"})
        assert wrong.status in (400, 422)


@run
async def test_minimcp_takes_requests_and_notifications_only() -> None:
    async with served(build(dialect="minimcp")) as site:
        web = Web(site)
        session, _ = await web.initialize("2025-06-18")
        response = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()
        found = await web.ask("POST", legacy_headers("2025-06-18", session), response)
        assert (found.status, found.message["error"]["code"]) == (400, -32600)


@run
async def test_a_modern_only_server_reports_its_versions_to_legacy_clients() -> None:
    async with served(build(revisions=[MODERN])) as site:
        web = Web(site)
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
        error(await web.ask("POST", legacy_headers(None), body), 400, -32020)
        found = error(await web.ask("POST", legacy_headers("2025-11-25"), body), 400, -32022)
        assert MODERN in found["error"]["message"]
        for method in ("GET", "DELETE"):
            found = await web.ask(method, legacy_headers("2025-11-25", "x"))
            assert (found.status, found.headers["allow"]) == (405, "POST")


@run
async def test_a_lifespan_that_fails_gives_500_if_the_host_does_not_run_it() -> None:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def broken(server: Server) -> Any:
        raise RuntimeError("no database")
        yield

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}"}

    app = Server("x", lifespan=broken).asgi()
    scope = {
        "type": "http",
        "path": "/mcp",
        "method": "POST",
        "headers": [(b"host", b"localhost")],
        "server": None,
    }
    await app(scope, receive, send)
    assert sent[0]["status"] == 500
    assert b"database" not in sent[1]["body"]


@run
async def test_what_a_modern_handler_refuses_for_good_is_200_and_for_now_has_a_status() -> None:
    from dovetail.errors import ProtocolError, Refusal

    server = build()

    @server.tool
    async def refuse(code: int) -> str:
        raise Refusal(code, retry_after=6.2 if code == 1003 else None)

    @server.tool
    async def forbid() -> str:
        raise ProtocolError("tool_not_allowed")

    later = {1003: 429, 1004: 503, 1008: 503, 1009: 503, 1056: 429, 1060: 503, 1078: 503}
    async with served(server) as site:
        web = Web(site)
        for code in (1001, 1002, 1005, 1006, 1007, 1010, 1046):
            found = await web.modern("tools/call", {"name": "refuse", "arguments": {"code": code}})
            error(found, 200, code)
            assert "retry-after" not in found.headers
        error(await web.modern("tools/call", {"name": "forbid"}), 200, 1005)
        for code, status in later.items():
            found = await web.modern("tools/call", {"name": "refuse", "arguments": {"code": code}})
            error(found, status, code)
            assert found.headers["retry-after"] == ("7" if code == 1003 else "1")
        session, _ = await web.initialize("2025-11-25")
        for code in later:
            # Clients of older revisions wait for ever on a bare 4xx.
            limited = {"name": "refuse", "arguments": {"code": code}}
            found = await web.legacy("2025-11-25", session, "tools/call", limited)
            error(found, 200, code, "2025-11-25")
            assert found.headers["retry-after"] == ("7" if code == 1003 else "1")
