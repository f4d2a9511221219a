"""The pages of the clients show what `dovetail install` writes, word for word."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from dovetail.cli.known_clients import CLIENTS
from dovetail.cli.main import main

PAGES = Path(__file__).resolve().parents[2] / "docs" / "clients"
STEP = re.compile(
    r"```console\n(dovetail install [^\n]*)\n```\n.*?```(?:json|toml|yaml)\n(.*?)\n```", re.DOTALL
)
ADA = Path("/home/ada")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_page_shows_what_is_written(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weather.py").write_text("")
    text = (PAGES / f"{client}.md").read_text()
    steps = STEP.findall(text)
    assert len(steps) == (3 if CLIENTS[client].reference else 2)
    for command, shown in steps:
        assert main([*shlex.split(command)[1:], "--print"]) == 0
        printed = capsys.readouterr().out.partition("\n")[2].rstrip()
        printed = printed.replace(sys.executable, f"{ADA}/.venv/bin/python").replace(str(tmp_path), str(ADA))
        assert printed == shown, command
    if CLIENTS[client].reference is None:
        assert main(["install", "weather.py", "--into", client, "--env", "API_KEY", "--print"]) == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_a_page_names_the_file_of_every_system(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("APPDATA", "XDG_CONFIG_HOME", *[row.home[0] for row in CLIENTS.values() if row.home]):
        monkeypatch.delenv(variable, raising=False)
    row, text = CLIENTS[client], (PAGES / f"{client}.md").read_text()
    for system, key in (("Linux", "linux"), ("macOS", "darwin"), ("Windows", "win32")):
        assert f"| {system} | `{row.config_path(key, ADA).relative_to(ADA).as_posix()}` |" in text
    if row.home is not None:
        assert f"`{row.home[0]}`" in text
    contents = (PAGES / "index.md").read_text()
    assert f"| [{row.title}]({client}.md) | `{client}` | `~/{row.linux}` |" in contents


def test_there_is_a_page_for_each_client_and_none_else() -> None:
    assert sorted(page.stem for page in PAGES.glob("*.md")) == sorted([*CLIENTS, "index"])
