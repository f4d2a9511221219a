"""`Context.confirm` and approvals, with every means a client can have."""

import re
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Principal, Server, ToolError
from dovetail.auth import StaticTokens
from dovetail.client.server_requests import callbacks
from dovetail.middleware import Policy
from dovetail.wire.revisions import REVISIONS
from tests.support.aio import run
from tests.support.web import Response, Site, served

URL = re.compile(r"http://\S+/confirm/(\S+)")
FORMS = [one.name for one in REVISIONS if one.name >= "2025-06-18"]
URLS = [one.name for one in REVISIONS if one.name >= "2025-11-25"]
EVERY = [one.name for one in REVISIONS]


def build(**options: Any) -> Server:
    server = Server("confirmation", **options)

    @server.tool
    async def delete(ctx: Context, count: int = 3) -> str:
        agreed = await ctx.confirm(f"Delete {count} files?", details={"files": ["<a>"]})
        return "deleted" if agreed else "kept"

    @server.tool
    async def pay() -> str:
        return "paid"

    return server


async def answer(site: Site, url: str, choice: str) -> Response:
    """Open the page as a browser does, and press a button."""
    found = URL.search(url)
    assert found is not None, url
    path = f"/confirm/{found[1]}"
    async with await site.connect() as browser:
        page = await browser.ask("GET", path, {})
        assert page.status == 200
        assert b"&lt;a&gt;" in page.body or b"pay" in page.body
    async with await site.connect() as browser:
        form = {"content-type": "application/x-www-form-urlencoded"}
        return await browser.ask("POST", path, form, f"answer={choice}".encode())


@pytest.mark.parametrize("revision", FORMS)
@pytest.mark.parametrize(
    ("action", "outcome"), [("accept", "deleted"), ("decline", "kept"), ("cancel", "kept")]
)
@run
async def test_a_client_with_forms_gets_a_form(revision: str, action: str, outcome: str) -> None:
    seen: list[str] = []

    def on_elicit(request: Any) -> dict[str, Any]:
        seen.append(request.message)
        return {"action": action}

    async with Client(build(), revision=revision, on_elicit=on_elicit) as client:
        assert (await client.call_tool("delete")).text == outcome
    assert seen == ['Delete 3 files?\n\n{\n  "files": [\n    "<a>"\n  ]\n}']


@pytest.mark.parametrize("revision", EVERY)
@run
async def test_without_elicitation_and_without_http_nothing_runs(revision: str) -> None:
    async with Client(build(), revision=revision) as client:
        assert (await client.call_tool("delete")).text == "kept"


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize(("choice", "outcome"), [("yes", "deleted"), ("no", "kept")])
@run
async def test_without_elicitation_over_http_the_call_is_repeated_after_the_page(
    revision: str, choice: str, outcome: str
) -> None:
    async with (
        served(build()) as site,
        Client(f"http://127.0.0.1:{site.port}/mcp", revision=revision) as client,
    ):
        with pytest.raises(ToolError, match="confirm") as first:
            await client.call_tool("delete")
        with pytest.raises(ToolError) as again:
            await client.call_tool("delete")
        assert again.value.message == first.value.message
        assert (await answer(site, first.value.message, choice)).status == 200
        assert (await client.call_tool("delete")).text == outcome
        with pytest.raises(ToolError) as used:
            await client.call_tool("delete")
        assert used.value.message != first.value.message


@pytest.mark.parametrize("revision", URLS)
@pytest.mark.parametrize(("choice", "outcome"), [("yes", "deleted"), ("no", "kept")])
@run
async def test_a_client_with_urls_alone_opens_the_page(
    revision: str, choice: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = ("elicitation", {"url": {}})
    monkeypatch.setitem(vars(callbacks)["_DECLARED"], "elicitation/create", declared)
    async with served(build()) as site:

        async def on_elicit(request: Any) -> dict[str, Any]:
            assert request.mode == "url"
            assert (await answer(site, request.url, choice)).status == 200
            return {"action": "accept"}

        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, revision=revision, on_elicit=on_elicit) as client:
            assert (await client.call_tool("delete")).text == outcome


@run
async def test_a_link_is_bound_to_its_caller_and_its_arguments() -> None:
    tokens = StaticTokens({"a": Principal("ann"), "b": Principal("ben")})
    async with served(build(auth=tokens)) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="a") as ann, Client(url, auth="b") as ben:
            with pytest.raises(ToolError) as asked:
                await ann.call_tool("delete")
            await answer(site, asked.value.message, "yes")
            with pytest.raises(ToolError):
                await ben.call_tool("delete")
            with pytest.raises(ToolError):
                await ann.call_tool("delete", {"count": 4})
            assert (await ann.call_tool("delete")).text == "deleted"


@run
async def test_a_page_takes_one_answer_and_refuses_everything_else() -> None:
    async with served(build()) as site, Client(f"http://127.0.0.1:{site.port}/mcp") as client:
        with pytest.raises(ToolError) as asked:
            await client.call_tool("delete")
        assert (await answer(site, asked.value.message, "maybe")).status == 400
        assert (await answer(site, asked.value.message, "no")).status == 200
        late = await answer(site, asked.value.message, "yes")
        assert b"Answered" in late.body
        assert (await client.call_tool("delete")).text == "kept"
        async with await site.connect() as browser:
            assert (await browser.ask("GET", "/confirm/unknown", {})).status == 404


@run
async def test_every_process_with_the_same_store_serves_the_page(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/state.db"
    async with (
        served(build(store=store)) as site,
        served(build(store=store)) as other,
        Client(f"http://127.0.0.1:{site.port}/mcp") as client,
    ):
        with pytest.raises(ToolError) as asked:
            await client.call_tool("delete")
        assert (await answer(other, asked.value.message, "yes")).status == 200
        assert (await client.call_tool("delete")).text == "deleted"


@run
async def test_an_approval_of_a_policy_uses_the_same_page() -> None:
    server = build(middleware=[Policy(approve=["pay"])])
    async with served(server) as site, Client(f"http://127.0.0.1:{site.port}/mcp") as client:
        with pytest.raises(ToolError) as asked:
            await client.call_tool("pay")
        await answer(site, asked.value.message, "yes")
        assert (await client.call_tool("pay")).text == "paid"


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("prefix", ["far", None])
@run
async def test_the_page_of_a_mounted_server_is_served_by_the_server_around_it(
    prefix: str | None, depth: int
) -> None:
    server, tool = build(), "delete"
    for _ in range(depth):
        whole = Server("whole")
        whole.mount(server, prefix=prefix)
        server, tool = whole, f"{prefix}_{tool}" if prefix else tool
    async with served(server) as site, Client(f"http://127.0.0.1:{site.port}/mcp") as client:
        with pytest.raises(ToolError) as asked:
            await client.call_tool(tool)
        assert (await answer(site, asked.value.message, "yes")).status == 200
        assert (await client.call_tool(tool)).text == "deleted"
