"""One more revision is one row and its edits: the suite of every revision runs on it, the fast path included."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

import dovetail
from dovetail import Client
from dovetail.wire import revisions
from dovetail.wire.revisions import BY_NAME
from tests.budget.test_admission import CALL, admission, exchange, python_calls
from tests.budget.test_http import Measured, serving
from tests.support import faces, rawclient, sixth
from tests.support.aio import run
from tests.support.everything import build
from tests.support.faces import FACES
from tests.support.web import modern, modern_headers

# The tests of the suite, with the conversations of this module.
from tests.test_every_revision import *  # noqa: F403
from tests.test_every_revision import Conversation

NAME = sixth.ROW.name


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    rawclient.SCHEMAS[NAME] = rawclient.MODERN
    faces.FILES[NAME] = sixth.__file__
    revisions.add(sixth.ROW)
    yield
    revisions.remove(sixth.ROW)


@pytest.fixture(scope="module", params=FACES)
def conversation(request: pytest.FixtureRequest, known: None) -> Iterator[Conversation]:
    held = Conversation(request.param, NAME)
    held.open()
    yield held
    held.close()


def test_the_server_offers_it_first(conversation: Conversation) -> None:
    assert conversation.introduction["supportedVersions"][:2] == [NAME, "2026-07-28"]


@run
async def test_its_edits_apply_to_it_and_to_the_revisions_before_it() -> None:
    async def described(revision: str) -> tuple[bool, bool]:
        async with Client(build(), revision=revision) as client:
            (prompt,), (template,) = await client.list_prompts(), await client.list_resource_templates()
        return prompt.description is not UNSET, template.description is not UNSET

    assert await described(NAME) == (False, True)
    for revision in ("2024-11-05", "2025-11-25", "2026-07-28"):
        assert await described(revision) == (True, False)


@pytest.mark.parametrize(("wanted", "found"), [("auto", NAME), ("2026-07-28", "2026-07-28"), (NAME, NAME)])
@run
async def test_a_dialect_is_used_with_peers_that_use_it(wanted: str, found: str) -> None:
    async with Client(build(), revision=wanted, on_roots=[{"uri": "file:///home"}]) as client:
        assert client.revision == found
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == {"total": 3}
        assert (await client.call_tool("where")).data == ["file:///home"]


@run
async def test_a_server_without_it_says_what_it_speaks() -> None:
    older = build(revisions=["2025-11-25", "2026-07-28"])
    error = json.loads(await older.handle(sixth_call()) or b"")["error"]
    assert (error["code"], error["data"]["supported"]) == (-32022, ["2026-07-28", "2025-11-25"])
    async with Client(older) as client:
        assert client.revision == "2026-07-28"


def test_it_is_admitted_and_answered_in_as_few_calls_as_the_one_before() -> None:
    assert python_calls(exchange(admission(), message=sixth_call())) == python_calls(exchange(admission()))


def sixth_call() -> bytes:
    return CALL.replace(b"2026-07-28", NAME.encode())


@run
async def test_over_http_too() -> None:
    costs: list[int] = []
    for version in ("2026-07-28", NAME):
        measured = Measured(serving(1), "builtin")
        counted: list[int] = []
        for _ in range(5):
            meta: dict[str, Any] = {f"{rawclient.META}protocolVersion": version}
            message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, meta=meta)
            _, body = await measured.post(message, modern_headers(message))
            counted.append(len(measured.calls))
        assert json.loads(body)["result"]["content"][0]["text"] == "3"
        await measured.app.drain(0)
        costs.append(min(counted))  # a timer of the event loop may run during one of the calls
    assert costs[0] == costs[1]


PACKAGE = Path(dovetail.__file__).parent
TABLES = {"wire/revisions.py", "wire/methods.py"}
FACTS = {
    "extensions/events/event_model.py": {"2026-07-28"},  # the first revision that has the extension
    "wire/dialects/dialect_profiles.py": {"2024-11-05"},  # the only revision the Elixir client speaks
}


def test_nothing_outside_the_tables_asks_for_a_revision_by_its_name_or_number() -> None:
    found: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in TABLES and not name.startswith("client/samplers/"):
            found += [f"{name}:{line}" for line in asking(path, FACTS.get(name, set()))]
    assert found == []


def asking(path: Path, facts: set[str]) -> Iterator[int]:
    text = path.read_text()
    for node in ast.walk(ast.parse(text if re.search(r"20\d\d-|\.index\b", text) else "")):
        if isinstance(node, ast.Constant) and re.fullmatch(r"20\d\d-\d\d-\d\d", str(node.value)):
            if node.value not in facts:
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            numbered = any(isinstance(side, ast.Attribute) and side.attr == "index" for side in sides)
            if numbered and any(isinstance(side, ast.Constant) for side in sides):
                yield node.lineno


def test_a_row_must_follow_the_newest_one() -> None:
    with pytest.raises(ValueError, match="index 7"):
        revisions.add(sixth.ROW)
    with pytest.raises(ValueError, match="not the newest"):
        revisions.remove(BY_NAME["2026-07-28"])
