"""`Audit`: a chain that shows what was done to it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Server
from dovetail.cli.main import main
from dovetail.middleware import Audit, RateLimit
from dovetail.middleware.audit import InvalidAuditLog, rotated_files, verify
from tests.support.aio import run
from tests.support.peer import MODERN, Peer

KEY = "a key for tests"


def shop(*middleware: Any) -> Server:
    server = Server("shop", middleware=middleware)

    @server.tool
    async def buy(item: str = "tea", card: str = "") -> str:
        return f"bought {item}"

    return server


def read(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def filled(path: Path, calls: int = 10, **options: Any) -> list[str]:
    audit = Audit(path, **{"key": KEY, "checkpoint": 4, **options})
    peer = Peer(shop(audit), principal="ann")
    for number in range(calls):
        await peer.send("tools/call", name="buy", arguments={"item": f"{number}", "card": "4111-1111"})
    audit.close()
    return read(path)


@run
async def test_every_call_is_a_line_that_names_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    lines = [json.loads(line) for line in await filled(path)]
    assert [line["n"] for line in lines] == list(range(1, 14))
    calls = [line for line in lines if "method" in line]
    assert len(calls) == 10
    assert {line["principal"] for line in calls} == {"ann"}
    assert all(line["outcome"] == "ok" and len(line["arguments"]) == 64 for line in calls)
    assert "4111-1111" not in path.read_text()
    assert [line["checkpoint"] for line in lines if "checkpoint" in line] == [4, 9, 12]
    found = verify(path, key=KEY)
    assert (found.lines, found.checkpoints, found.signed, found.unsigned) == (13, 3, 3, 0)
    assert oct(os.stat(path).st_mode)[-3:] == "600"


def changed(lines: list[str]) -> list[str]:
    return [line.replace('"ann"', '"bob"') if number == 5 else line for number, line in enumerate(lines)]


def removed(lines: list[str]) -> list[str]:
    return lines[:5] + lines[6:]


def swapped(lines: list[str]) -> list[str]:
    return [*lines[:5], lines[6], lines[5], *lines[7:]]


def beheaded(lines: list[str]) -> list[str]:
    return lines[1:]


def added(lines: list[str]) -> list[str]:
    return [*lines[:5], lines[4], *lines[5:]]


def cut_off(lines: list[str]) -> list[str]:
    return lines[:-1]


def cut_off_at_a_checkpoint(lines: list[str]) -> list[str]:
    return lines[:5]


def nonsense(lines: list[str]) -> list[str]:
    return [*lines[:5], "{}", *lines[5:]]


@pytest.mark.parametrize(
    "spoil", [changed, removed, swapped, beheaded, added, nonsense, cut_off, cut_off_at_a_checkpoint]
)
def test_whatever_is_done_to_a_line_is_found(
    spoil: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @run
    async def scenario() -> None:
        path = tmp_path / "audit.jsonl"
        path.write_text("\n".join(spoil(await filled(path))) + "\n")
        with pytest.raises(InvalidAuditLog, match="line"):
            verify(path)
        assert main(["audit", "verify", str(path)]) == 1
        assert "audit.jsonl, line" in capsys.readouterr().err

    scenario()


@run
async def test_lines_that_are_missing_at_the_end_are_found_after_the_next_start_too(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("\n".join((await filled(path))[:5]) + "\n")
    await filled(path, 2)
    with pytest.raises(InvalidAuditLog, match="line 6: it does not follow line 5"):
        verify(path)


@run
async def test_shortening_an_audit_log_needs_the_key_and_a_copy_reports_what_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, less = tmp_path / "audit.jsonl", tmp_path / "less.jsonl"
    await filled(path)
    await filled(less, 4, key=None)
    path.write_text(less.read_text())
    (tmp_path / "audit.jsonl.head").write_bytes((tmp_path / "less.jsonl.head").read_bytes())
    with pytest.raises(InvalidAuditLog, match="signature"):
        verify(path, key=KEY)
    (tmp_path / "audit.jsonl.head").unlink()
    assert not verify(path).ended
    assert main(["audit", "verify", str(path)]) == 0
    assert "lines missing at the end cannot be detected" in capsys.readouterr().out


@run
async def test_an_audit_chain_rewritten_without_the_key_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path, key="another key")
    verify(path)
    with pytest.raises(InvalidAuditLog, match="signature"):
        verify(path, key=KEY)
    unsigned = tmp_path / "unsigned.jsonl"
    await filled(unsigned, key=None)
    with pytest.raises(InvalidAuditLog, match="signature"):
        verify(unsigned, key=KEY)


def test_a_file_that_is_no_audit_log_is_an_error_where_it_is_named(tmp_path: Path) -> None:
    for number, text in enumerate(("shopping list\ntea\n", "one line without an end", '{"n": 1}\n', "[]\n")):
        path = tmp_path / f"notes-{number}"
        path.write_text(text)
        with pytest.raises(InvalidAuditLog, match=f"notes-{number}"):
            Audit(path)
        assert path.read_text() == text


@run
async def test_opening_a_log_reads_its_end_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path, calls=5)
    whole = path.read_bytes()
    number = json.loads(whole.splitlines()[-1])["n"]
    path.write_bytes(b"x" * (3 << 20) + b"\n" + whole)  # what lies far before the end is for `verify` to find
    await filled(path, calls=1)
    lines = path.read_bytes().split(b"\n")
    assert json.loads(lines[-3])["n"] == number + 1
    assert json.loads(lines[-3])["before"] == hashlib.sha256(whole.splitlines()[-1]).hexdigest()


@run
async def test_rotation_and_restarts_keep_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(3):
        await filled(path, rotate_bytes=1500)
    assert len(rotated_files(path)) > 3
    found = verify(path, key=KEY)
    assert found.lines > 30
    assert found.signed == found.checkpoints
    rotated_files(path)[1].unlink()
    with pytest.raises(InvalidAuditLog, match="does not follow"):
        verify(path, key=KEY)


@run
async def test_a_line_that_a_crash_left_half_written_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await filled(path, 3)
    with path.open("ab") as file:
        file.write(b'{"n":5,"befo')
    with pytest.raises(InvalidAuditLog, match="the line is incomplete"):
        verify(path)
    await filled(path, 3)
    assert verify(path, key=KEY).lines == 8


@run
async def test_refusals_failures_and_redacted_arguments_are_written(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, arguments="redacted")
    peer = Peer(shop(audit, RateLimit(per_tool="1/h")))
    for name in ("buy", "buy", "no\nsuch"):
        await peer.send("tools/call", name=name, arguments={"item": "tea", "password": "p"})
    audit.close()
    first, second, third, _ = map(json.loads, path.read_text().splitlines())
    assert first["arguments"] == {"item": "tea", "password": "[masked]"}
    assert (second["outcome"], second["code"]) == ("refused", 1003)
    assert (third["outcome"], third["name"]) == ("error", "no\nsuch")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize("on_full", ["refuse", "continue"])
def test_a_full_disk_stops_calls_or_not_as_configured(on_full: Any, tmp_path: Path) -> None:
    @run
    async def scenario() -> None:
        folder = tmp_path / "gone"
        audit = Audit(folder / "audit.jsonl", on_full=on_full)
        folder.write_text("a file where the folder should be")
        answer = await Peer(shop(audit)).send("tools/call", name="buy")
        if on_full == "refuse":
            assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (1079, "storage_full")
        else:
            assert "result" in answer
            assert audit.missed == 1
        folder.unlink()
        assert "result" in await Peer(shop(audit)).send("tools/call", name="buy")
        audit.close()
        assert verify(audit.path).lines >= 2

    scenario()


FULL = """
import asyncio, json, resource, sys
from dovetail import Server
from dovetail.middleware import Audit

server = Server("shop", middleware=[audit := Audit(sys.argv[1], on_full=sys.argv[2], key="k")])

@server.tool
async def buy() -> str:
    return "bought"

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "buy", "_meta": META}}

async def main():
    async def ask():
        answer = json.loads(await server.handle(json.dumps(ASK)))
        return answer["error"]["code"] if "error" in answer else "served"
    seen = [await ask() for _ in range(3)]
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    # Room for half a line more: the kernel writes that half.
    resource.setrlimit(resource.RLIMIT_FSIZE, (audit.path.stat().st_size + 100, hard))
    seen += [await ask() for _ in range(3)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    seen += [await ask() for _ in range(2)]
    audit.close()
    print(json.dumps(seen))

asyncio.run(main())
"""


@pytest.mark.parametrize("on_full", ["refuse", "continue"])
def test_a_disk_that_is_really_full_breaks_no_line(on_full: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    command = [sys.executable, "-c", FULL, str(path), on_full]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    served = ["served"]
    # The call during which the disk filled up has been done: that it is not written down is.
    full = [*served, 1079, 1079] if on_full == "refuse" else served * 3
    assert json.loads(done.stdout) == [*served * 3, *full, *served * 2]
    found = verify(path, key="k")
    assert (found.lines, found.unsigned) == (3 + 1 + 2 + 1, 0)
    missed = [json.loads(line).get("missed") for line in path.read_text().splitlines()]
    assert [one for one in missed if one] == [1 if on_full == "refuse" else 3]


@run
async def test_two_writers_have_a_file_each(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    one, two = Audit(path), Audit(path)
    for audit in (one, two, one):
        await Peer(shop(audit)).send("tools/call", name="buy")
    one.close()
    two.close()
    assert {one.path.name, two.path.name} == {"audit.jsonl", "audit.jsonl-2"}
    assert (verify(one.path).lines, verify(two.path).lines) == (3, 2)


def test_verify_says_what_it_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, key = tmp_path / "audit.jsonl", tmp_path / "key"

    @run
    async def fill() -> None:
        await filled(path)

    fill()
    key.write_text(KEY + "\n")
    assert main(["audit", "verify", str(path), "--key-file", str(key)]) == 0
    assert capsys.readouterr().out.startswith("ok: 13 lines, 3 checkpoints, 3 of them signed")
    assert main(["audit", "verify", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert MODERN in path.read_text()


@run
async def test_a_server_that_stops_signs_what_it_wrote(tmp_path: Path) -> None:
    server = shop(Audit(tmp_path / "audit.jsonl", key=KEY))
    async with server.running():
        await Peer(server).send("tools/call", name="buy")
    assert verify(tmp_path / "audit.jsonl", key=KEY).unsigned == 0
