"""Skills of mounted servers, with their prefixes, together with those of the server itself."""

import logging
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, DovetailError, Principal, Server
from dovetail.extensions import Skills
from dovetail.gateway import Proxy
from tests.auth.test_rights import Caller
from tests.extensions.test_skills import write_skill
from tests.support.aio import run


def skilled(folder: Path, *paths: str, **rights: Any) -> Server:
    """A server with these skills, each with one more file next to its manifest."""
    server = Server(folder.name)
    for path in paths:
        made = write_skill(folder, path)
        (made / "notes").mkdir()
        (made / "notes" / "more of it.txt").write_text(f"{folder.name}: {path}")
    server.extensions.add(Skills(folder, **rights))
    return server


@pytest.fixture(params=["server", "proxy", "nested"])
def outer(request: pytest.FixtureRequest, tmp_path: Path) -> Server:
    """A server with one skill and, mounted in three ways, a server with two."""
    inner = skilled(tmp_path / "inner", "review", "ops/deploy")
    outer = skilled(tmp_path / "outer", "write")
    if request.param == "nested":
        between = Server("between")
        between.mount(inner, prefix="team")
        outer.mount(between)
    else:
        outer.mount(Proxy(inner) if request.param == "proxy" else inner, prefix="team")
    return outer


def test_skills_have_the_prefix_and_are_loaded_by_it(outer: Server) -> None:
    @run
    async def scenario() -> None:
        async with Client(outer) as client:
            found = {skill.uri: skill for skill in await client.list_skills()}
            assert list(found) == [
                "skill://write/SKILL.md", "skill://team/ops/deploy/SKILL.md", "skill://team/review/SKILL.md",
            ]  # fmt: skip
            for uri, skill in found.items():
                assert (await client.load_skill(uri)).entry == skill
                assert isinstance(skill.resources, list)
                for file in skill.resources:
                    assert len((await client.read_resource(file.uri)).text.encode()) == file.size
            text = (await client.read_resource("skill://team/review/notes/more%20of%20it.txt")).text
            assert text == "inner: review"
            for uri in (
                "skill://review/SKILL.md",
                "skill://team/write/SKILL.md",
                "skill://teams/review/SKILL.md",
            ):
                with pytest.raises(DovetailError):
                    await client.load_skill(uri)

    scenario()


def test_directories_lead_from_the_root_to_every_file(outer: Server) -> None:
    @run
    async def scenario() -> None:
        async with Client(outer) as client:
            files: list[str] = []
            folders = ["skill://"]
            while folders:
                for child in await client.read_directory(folders.pop()):
                    (folders if child.mime_type == "inode/directory" else files).append(child.uri)
            listed = [file.uri for skill in await client.list_skills() for file in skill.resources]  # pyright: ignore
            assert sorted(files) == sorted(listed)
            assert [one.name for one in await client.read_directory("skill://team/")] == ["ops", "review"]
            with pytest.raises(DovetailError, match="not a directory"):
                await client.read_directory("skill://team/nowhere")

    scenario()


@run
async def test_skills_added_after_the_mount_are_shown_too(tmp_path: Path) -> None:
    outer = Server("outer")
    outer.mount(skilled(tmp_path / "inner", "review"), prefix="team")
    write_skill(tmp_path / "late", "write")
    outer.extensions.add(Skills(tmp_path / "late"))
    async with Client(outer) as client:
        found = [skill.uri for skill in await client.list_skills()]
        assert found == ["skill://write/SKILL.md", "skill://team/review/SKILL.md"]


@run
async def test_a_server_that_does_not_answer_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outer, inner = Server("outer"), skilled(tmp_path / "inner", "review")
    outer.mount(inner, prefix="team")
    outer.mount(skilled(tmp_path / "other", "write"), prefix="other")
    async with Client(outer) as client:
        inner.dispatcher.methods.pop("skills/list")
        with caplog.at_level(logging.WARNING, "dovetail.gateway"):
            assert [skill.uri for skill in await client.list_skills()] == ["skill://other/write/SKILL.md"]
        assert "server left out of the skill list server=server 'inner'" in caplog.text


@run
async def test_who_may_not_use_a_skill_sees_nothing_of_it_through_a_mount(tmp_path: Path) -> None:
    outer = Server("outer")
    outer.mount(skilled(tmp_path / "inner", "review", scopes=["team"]), prefix="team")
    for scopes, seen in (({"team"}, True), (set[str](), False)):
        listed = await Caller(outer, Principal("ann", scopes=frozenset(scopes))).result("skills/list")
        assert [skill["uri"] for skill in listed["skills"]] == ["skill://team/review/SKILL.md"][: int(seen)]
