"""Skills have rights like everything else: callable equals visible, in lists, folders, files and subscriptions."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail import Principal, Server
from dovetail.extensions import Skills
from tests.auth.test_rights import Caller, ann, everything, kind, principals
from tests.auth.test_rights import rights as wanted_rights
from tests.extensions.test_skills import write_skill
from tests.support.aio import run


def offering(root: Path, components: dict[str, dict[str, Any]], **options: Any) -> Server:
    """A server with one skill for each of ``components``, in a separate folder below ``team``."""
    server, skills = Server("skilled", "1", **options), Skills()
    server.extensions.add(skills)
    for name, wanted in components.items():
        given_: dict[str, Any] = {"scopes": wanted["scopes"]} if "scopes" in wanted else {}
        if "who" in wanted:
            given_["auth"] = lambda principal, who=wanted["who"]: principal == who
        skills.add(root / name, prefix="team", **given_)
    return server


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skills")
    for name in ("one", "two", "three"):
        made = write_skill(folder, name)
        (made / "more").mkdir()
        (made / "more" / "a b.txt").write_text(name)
    return folder


async def usable(peer: Caller) -> set[str]:
    """The skills whose entry, manifest, file and folder the caller can use: all of it, or nothing."""
    found: set[str] = set()
    for name in ("one", "two", "three"):
        folder = f"skill://team/{name}"
        ways = {
            await kind(peer, "skills/get", uri=f"{folder}/SKILL.md"),
            await kind(peer, "resources/read", uri=f"{folder}/SKILL.md"),
            await kind(peer, "resources/read", uri=f"{folder}/more/a%20b.txt"),
            await kind(peer, "resources/directory/read", uri=folder),
            await kind(peer, "resources/directory/read", uri=f"{folder}/more"),
        }
        assert ("result" in ways) == (ways == {"result"}), ways
        if ways == {"result"}:
            found.add(name)
    return found


@given(
    components=st.fixed_dictionaries(dict.fromkeys(("one", "two", "three"), wanted_rights)),
    principal=principals,
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_usable_is_what_is_visible(
    root: Path, components: dict[str, Any], principal: Principal | None
) -> None:
    @run
    async def scenario() -> None:
        peer = Caller(offering(root, components, page_size=2), principal)
        can = await usable(peer)
        seen = {uri.split("/")[3] for uri in await everything(peer, "skills/list", "skills", "uri")}
        listed = {uri.split("/")[3] for uri in await everything(peer, "resources/list", "resources", "uri")}
        assert seen == listed == can
        if can:
            reply = await peer.result("resources/directory/read", uri="skill://team")
            assert {one["uri"].rpartition("/")[2] for one in reply["resources"]} <= can
        else:
            assert await kind(peer, "resources/directory/read", uri="skill://team") != "result"

    scenario()


@run
async def test_a_missing_scope_is_named_and_a_denied_skill_does_not_exist(root: Path) -> None:
    server = offering(root, {"one": {"scopes": ["a"]}, "two": {"who": "bob"}, "three": {}})
    peer = Caller(server, ann())
    reply = await peer.send("skills/get", uri="skill://team/one/SKILL.md")
    assert reply["error"]["data"]["requiredScopes"] == ["a"]
    reply = await peer.send("resources/read", uri="skill://team/one/more/a%20b.txt")
    assert reply["error"]["data"]["requiredScopes"] == ["a"]
    for method in ("skills/get", "resources/read"):
        assert await kind(peer, method, uri="skill://team/two/SKILL.md") == "resource_not_found"
    assert server.registry.scopes() == {"a"}
    assert await usable(Caller(server, ann("a"))) == {"one", "three"}


@run
async def test_a_tag_that_is_restricted_later_holds_for_skills_too(root: Path) -> None:
    skills = Skills(root / "one", prefix="team", tags=["inner"])
    server = Server("skilled", "1", extensions=[skills])
    skills.add(root / "two", root / "three", prefix="team")
    peer = Caller(server, ann())
    assert len((await peer.result("skills/list"))["skills"]) == 3
    server.restrict("inner", scopes=["a"])
    assert await usable(peer) == {"two", "three"}
    assert len((await peer.result("skills/list"))["skills"]) == 2


@run
async def test_a_caller_is_not_notified_of_files_it_may_not_read(root: Path) -> None:
    server = offering(root, {"one": {"who": "bob"}})
    legacy = Caller(server, ann(), "2025-06-18")
    assert "error" in await legacy.send("resources/subscribe", uri="skill://team/one/more/a%20b.txt")


@run
async def test_a_skill_with_rights_is_not_for_shared_caches(root: Path) -> None:
    server = offering(root, {"one": {"scopes": ["a"]}, "two": {}}, ttl_ms=1000, cache_scope="public")
    peer = Caller(server, ann("a"))
    scopes = {
        name: (await peer.send("skills/get", uri=f"skill://team/{name}/SKILL.md"))["result"]["cacheScope"]
        for name in ("one", "two")
    }
    assert scopes == {"one": "private", "two": "public"}
