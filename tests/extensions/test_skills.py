"""Skills served from folders: entries, files, directories, and what must never leave the folder."""

import base64
import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, RegistrationError, Server
from dovetail.extensions import Skill, Skills
from dovetail.extensions.skills import skill_folders as skill_files
from dovetail.middleware import Middleware
from tests.support.aio import run
from tests.support.peer import Peer

EXTENSION = "io.modelcontextprotocol/skills"


def write_skill(root: Path, path: str, body: str = "Do it well.", **frontmatter: Any) -> Path:
    folder = root / path
    folder.mkdir(parents=True)
    members = {"name": folder.name, "description": f"How to {folder.name}.", **frontmatter}
    head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in members.items())
    (folder / "SKILL.md").write_text(f"---\n{head}---\n\n{body}\n")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = write_skill(tmp_path, "review", license="MIT")
    (folder / "references").mkdir()
    (folder / "references" / "LIST.md").write_text("# List\r\nwith CRLF\r\n")
    (folder / "logo.bin").write_bytes(b"\x00\xff\x01")
    (folder / "with space.txt").write_text("spaced")
    (folder / ".hidden").write_text("secret")
    write_skill(tmp_path, "team/deploy")
    return tmp_path


def serving(root: Path, prefix: str = "", **options: Any) -> Peer:
    server = Server("skilled", extensions=[Skills(root, prefix=prefix)], **options)
    return Peer(server)


def skills_of(server: Server) -> Skills:
    found = server.extensions[EXTENSION]
    assert isinstance(found, Skills)
    return found


@run
async def test_a_server_without_skills_declares_none() -> None:
    peer = Peer(Server("none"))
    assert (await peer.result("server/discover"))["capabilities"].get("extensions") is None
    assert (await peer.error("skills/list"))["code"] == -32601


def test_skills_are_declared_listed_and_found(root: Path) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)
        capabilities = (await peer.result("server/discover"))["capabilities"]
        assert capabilities["extensions"] == {EXTENSION: {"directoryRead": True}}
        assert "resources" in capabilities
        skills = (await peer.result("skills/list"))["skills"]
        assert [skill["uri"] for skill in skills] == [
            "skill://review/SKILL.md",
            "skill://team/deploy/SKILL.md",
        ]
        review = skills[0]
        assert review["frontmatter"] == {
            "name": "review",
            "description": "How to review.",
            "license": "MIT",
        }
        found = await peer.result("skills/get", uri="skill://review/SKILL.md")
        assert found["skill"] == review
        assert "nextCursor" not in found

    scenario()


def test_every_file_is_listed_once_with_size_and_digest_and_reads_as_promised(root: Path) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)
        skill = (await peer.result("skills/get", uri="skill://review/SKILL.md"))["skill"]
        files = {file["uri"]: file for file in skill["resources"]}
        assert sorted(files) == [
            "skill://review/SKILL.md",
            "skill://review/logo.bin",
            "skill://review/references/LIST.md",
            "skill://review/with%20space.txt",
        ]
        for uri, file in files.items():
            (contents,) = (await peer.result("resources/read", uri=uri))["contents"]
            data = contents["text"].encode() if "text" in contents else base64.b64decode(contents["blob"])
            assert len(data) == file["size"]
            assert file["digest"] == "sha256:" + hashlib.sha256(data).hexdigest()
            assert contents["uri"] == uri

    scenario()


def test_the_manifest_is_in_the_list_of_resources_with_its_description(root: Path) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)
        resources = (await peer.result("resources/list"))["resources"]
        assert [resource["uri"] for resource in resources] == [
            "skill://review/SKILL.md",
            "skill://team/deploy/SKILL.md",
        ]
        assert resources[0]["name"] == "review"
        assert resources[0]["description"] == "How to review."
        assert resources[0]["mimeType"] == "text/markdown"

    scenario()


def test_directories_show_their_direct_children(root: Path) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)

        async def children(uri: str) -> dict[str, str]:
            page = await peer.result("resources/directory/read", uri=uri)
            return {child["uri"]: child["mimeType"] for child in page["resources"]}

        assert await children("skill://review") == {
            "skill://review/SKILL.md": "text/markdown",
            "skill://review/logo.bin": "application/octet-stream",
            "skill://review/with%20space.txt": "text/plain",
            "skill://review/references": "inode/directory",
        }
        assert await children("skill://review/references/") == {
            "skill://review/references/LIST.md": "text/markdown"
        }
        assert await children("skill://team") == {"skill://team/deploy": "inode/directory"}
        for uri in ("skill://review/SKILL.md", "skill://nowhere", "skill://review/../review", "file:///etc"):
            assert (await peer.error("resources/directory/read", uri=uri))["code"] == -32602

    scenario()


def test_long_lists_come_in_pages(root: Path) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root, page_size=1)
        for method, member, params in (
            ("skills/list", "skills", {}),
            ("resources/directory/read", "resources", {"uri": "skill://review"}),
        ):
            page = await peer.result(method, **params)
            found = [page[member][0]["uri"]]
            while "nextCursor" in page:
                page = await peer.result(method, cursor=page["nextCursor"], **params)
                found.append(page[member][0]["uri"])
            assert len(found) == len(set(found)) == (2 if member == "skills" else 4)
            assert (await peer.error(method, cursor="forged", **params))["code"] == -32602

    scenario()


@pytest.mark.parametrize(
    "uri",
    [
        "skill://nowhere/SKILL.md",
        "skill://review/.hidden",
        "skill://review/missing.md",
        "skill://review/../../etc/passwd",
        "skill://review/%2e%2e/%2e%2e/etc/passwd",
        "skill://review/references",
        "skill:///etc/passwd",
    ],
)
def test_what_is_not_in_the_index_is_not_there(root: Path, uri: str) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)
        assert (await peer.error("resources/read", uri=uri))["code"] == -32602
        assert (await peer.error("skills/get", uri=uri))["code"] == -32602

    scenario()


def test_a_prefix_comes_before_the_path_and_folders_add_up(root: Path, tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root / "team", prefix="acme")
        uris = skills_of(peer.server).add(root / "review", prefix="/acme/more/")
        assert uris == ["skill://acme/more/review/SKILL.md"]
        skills = (await peer.result("skills/list"))["skills"]
        assert [skill["uri"] for skill in skills] == ["skill://acme/deploy/SKILL.md", *uris]
        with pytest.raises(RegistrationError, match="already registered"):
            skills_of(peer.server).add(root / "team", prefix="acme")

    scenario()


def test_a_changed_file_is_served_with_the_entry_that_belongs_to_it(root: Path) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)
        before = (await peer.result("skills/get", uri="skill://review/SKILL.md"))["skill"]
        manifest = root / "review" / "SKILL.md"
        manifest.write_text("---\nname: review\ndescription: Anew.\n---\nNew.\n")
        (contents,) = (await peer.result("resources/read", uri="skill://review/SKILL.md"))["contents"]
        assert contents["text"].endswith("New.\n")
        after = (await peer.result("skills/list"))["skills"]
        entry = next(skill for skill in after if skill["uri"] == before["uri"])
        assert entry["frontmatter"] == {"name": "review", "description": "Anew."}
        assert entry["resources"] != before["resources"]
        listed = (await peer.result("resources/list"))["resources"]
        assert "Anew." in [resource["description"] for resource in listed]

    scenario()


def test_a_skill_that_breaks_is_not_served_any_more(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)
        (root / "review" / "SKILL.md").write_text("no frontmatter")
        with caplog.at_level(logging.CRITICAL):
            assert (await peer.error("resources/read", uri="skill://review/SKILL.md"))["code"] == -32602
        assert len((await peer.result("skills/list"))["skills"]) == 1

    scenario()


def test_a_file_swapped_for_a_link_out_of_the_folder_is_not_followed(
    root: Path, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)
        secret = tmp_path_factory.mktemp("outside") / "secret.txt"
        secret.write_text("spaced")  # the very bytes, but not ours to serve
        file = root / "review" / "with space.txt"
        file.unlink()
        file.symlink_to(secret)
        with caplog.at_level(logging.CRITICAL):
            error = await peer.error("resources/read", uri="skill://review/with%20space.txt")
        assert error["code"] == -32602

    scenario()


@pytest.mark.parametrize("depth", ["skill", "root"])
def test_a_folder_swapped_for_a_link_is_not_followed(
    root: Path, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture, depth: str
) -> None:
    @run
    async def scenario() -> None:
        peer = serving(root)
        folder = root / "review" if depth == "skill" else root
        outside = tmp_path_factory.mktemp("outside") / folder.name
        folder.rename(outside)
        skill = outside if depth == "skill" else outside / "review"
        (skill / "with space.txt").write_text("another text")
        folder.symlink_to(outside)
        with caplog.at_level(logging.CRITICAL):
            error = await peer.error("resources/read", uri="skill://review/with%20space.txt")
        assert error["code"] == -32602

    scenario()


# --- what cannot be registered ----------------------------------------------------------------------------


def refused(root: Path) -> str:
    with pytest.raises(RegistrationError) as caught:
        Skills(root)
    return str(caught.value)


def test_a_folder_without_skills_is_refused(tmp_path: Path) -> None:
    assert "SKILL.md" in refused(tmp_path)
    assert "no folder" in refused(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("frontmatter", "reason"),
    [
        ({"name": "other"}, "its folder must be, too"),
        ({"name": "Bad_Name"}, "a-z, 0-9"),
        ({"name": 3}, "needs a name"),
        ({"description": ""}, "needs a name and a description"),
    ],
)
def test_frontmatter_has_to_name_and_describe_the_skill(
    tmp_path: Path, frontmatter: dict[str, Any], reason: str
) -> None:
    write_skill(tmp_path, "skill", **frontmatter)
    assert reason in refused(tmp_path)


@pytest.mark.parametrize("link", ["file", "folder"])
def test_links_out_of_a_skill_are_refused(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, link: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secret")
    folder = write_skill(tmp_path, "skill")
    os.symlink(outside / "secret.txt" if link == "file" else outside, folder / "link")
    assert "links to a file outside of its skill" in refused(tmp_path)


@pytest.mark.parametrize("kind", ["a link to nothing", "a pipe"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    folder = write_skill(tmp_path, "odd")
    if kind == "a pipe":
        os.mkfifo(folder / "odd.txt")
    else:
        (folder / "odd.txt").symlink_to(folder / "nothing")
    assert "odd.txt" in refused(tmp_path)


def test_links_inside_a_skill_are_served(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "skill")
    (folder / "a.txt").write_text("text")
    (folder / "b.txt").symlink_to(folder / "a.txt")
    assert Skills().add(tmp_path) == ["skill://skill/SKILL.md"]


def test_too_many_files_and_too_many_bytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_skill(tmp_path, "skill")
    (folder / "a.txt").write_text("x" * 500)
    monkeypatch.setattr(skill_files, "SKILL_BYTES", 400)
    assert "more than" in refused(tmp_path)
    monkeypatch.setattr(skill_files, "SKILL_BYTES", 4000)
    monkeypatch.setattr(skill_files, "SKILL_FILES", 1)
    assert "more than 1 files" in refused(tmp_path)


@run
async def test_a_skill_that_is_not_admitted_is_nowhere(tmp_path: Path) -> None:
    class Without(Middleware):
        def admits(self, component: Any) -> bool:
            return "look" not in component.name

    for name in ("look", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: one\n---\nbody\n")
    server = Server("s", middleware=[Without()], extensions=[Skills(tmp_path)])
    async with server.running():
        peer = Peer(server)
        listed = await peer.result("skills/list")
        assert [one["uri"] for one in listed["skills"]] == ["skill://open/SKILL.md"]
        assert "error" in await peer.send("skills/get", uri="skill://look/SKILL.md")
        assert "error" in await peer.send("resources/directory/read", uri="skill://look")
        top = await peer.result("resources/directory/read", uri="skill://")
        assert [one["uri"] for one in top["resources"]] == ["skill://open"]


# --- skills defined in code -------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2026-07-28"])
@run
async def test_a_skill_defined_in_code_is_served_like_one_in_a_folder(root: Path, revision: str) -> None:
    written = Skill(
        name="write",
        description='How to "write": plainly ✓ 😀',
        files={
            "SKILL.md": "Short sentences.\n",
            "references/words list.md": "# Words\n",
            "logo.bin": b"\x00\xff",
        },
        frontmatter={"license": "MIT", "metadata": {"level": "2"}},
    )
    server = Server(
        "skilled", extensions=[Skills(root / "review", written, Skill(name="bare", description="d"))]
    )
    async with Client(server, revision=revision) as client:
        listed = {skill.uri for skill in await client.list_skills()}
        assert listed == {"skill://review/SKILL.md", "skill://write/SKILL.md", "skill://bare/SKILL.md"}
        loaded = await client.load_skill("skill://write/SKILL.md")
        assert (loaded.name, loaded.description) == ("write", 'How to "write": plainly ✓ 😀')
        assert loaded.frontmatter["metadata"] == {"level": "2"}
        assert loaded.text.endswith("---\n\nShort sentences.\n")
        assert await loaded.read("references/words%20list.md") == b"# Words\n"
        assert await loaded.read("logo.bin") == b"\x00\xff"
        assert (await client.load_skill("skill://bare/SKILL.md")).text.endswith("---\n\nd\n")
        (entry,) = await client.read_directory("skill://write/references")
        assert (entry.name, entry.mime_type, entry.size) == ("words list.md", "text/markdown", 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "Bad Name"}, "the name 'Bad Name' must be 1 to 64"),
        ({"description": ""}, "the skill 'one' needs a description"),
        ({"files": {"../x": "a"}}, "'../x' of the skill 'one' must be a path below the skill"),
        ({"files": {"/x": "a"}}, "'/x' of the skill 'one' must be a path below the skill"),
        ({"files": {"a//b": "a"}}, "must be a path below the skill"),
        ({"files": {"a": 3}}, "'a' of the skill 'one' must be text or bytes, not int"),
        ({"files": {"SKILL.md": "---\nname: x\n---\n"}}, "write it without its frontmatter"),
        ({"frontmatter": {"name": "x"}}, "has 'name' already"),
    ],
)
def test_a_skill_in_code_that_cannot_be_served_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Skill(**{"name": "one", "description": "d", **options})


def test_skills_belong_to_one_server() -> None:
    skills = Skills(Skill(name="one", description="d"))
    with pytest.raises(RegistrationError, match=r"skill://one/SKILL\.md is already registered"):
        skills.add(Skill(name="one", description="other"))
    Server("a", extensions=[skills])
    with pytest.raises(RegistrationError, match="belong to the server 'a'"):
        Server("b", extensions=[skills])
