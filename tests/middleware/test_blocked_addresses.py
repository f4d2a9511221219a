"""Addresses that are refused before their message is read, on every revision."""

import pytest

from dovetail.middleware import RateLimit
from tests.middleware.test_rate_limit import shop
from tests.support.aio import run
from tests.support.web import Web, legacy_headers, modern, modern_headers, served


@pytest.mark.parametrize("algorithm", ["bucket", "window"])
@run
async def test_an_address_over_its_rate_is_refused_before_it_has_sent_a_body(algorithm: str) -> None:
    server = shop(RateLimit(per_address="3/h", algorithm=algorithm))
    async with served(server) as site:
        web, message = Web(site), modern("tools/list")
        for _ in range(3):
            assert (await web.modern("tools/list")).status == 200
        assert (await web.modern("tools/list")).status == 429
        for headers in (modern_headers(message), legacy_headers("2025-06-18", "x")):
            async with await site.connect() as connection:
                connection.request("POST", "/mcp", headers | {"Content-Length": "1000"})  # and no body
                found = await connection.response()
            assert (found.status, found.message["error"]["code"]) == (429, 1003)
            assert int(found.headers["retry-after"]) > 1000
            assert found.headers["connection"] == "close"
        async with await site.connect(local_addr=("127.0.0.2", 0)) as other:
            assert (await Web(site).ask("GET", {}, path="/livez")).status == 200
            other.request("POST", "/mcp", modern_headers(message), b"{}")
            assert (await other.response()).status == 400


@run
async def test_a_blocked_address_is_refused_before_its_message_is_read() -> None:
    server = shop(RateLimit(per_client="1/h", block_period=60, block_threshold=2))
    async with served(server) as site:
        statuses = [await Web(site).modern("tools/list") for _ in range(5)]
        codes = [found.message.get("error", {}).get("code") for found in statuses]
        assert (codes[0], codes[1], codes[-1]) == (None, 1003, 1056)
        async with await site.connect() as connection:
            headers = modern_headers(modern("tools/list"))
            connection.request("POST", "/mcp", headers | {"Content-Length": "1000"})
            found = await connection.response()
        assert (found.status, found.message["error"]["code"]) == (429, 1056)


@run
async def test_a_legacy_client_without_a_session_gets_retry_after_too() -> None:
    server = shop(RateLimit(per_tool="1/h"))
    async with served(server, stateless=True) as site:
        call = {"name": "other"}
        first = await Web(site).legacy("2025-06-18", None, "tools/call", call)
        assert first.status == 200
        assert "retry-after" not in first.headers
        found = await Web(site).legacy("2025-06-18", None, "tools/call", call)
        assert (found.status, found.message["error"]["code"]) == (200, 1003)
        assert int(found.headers["retry-after"]) > 1000
