"""The program of the Modal page, with Modal's library."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from bench.peers import interpreter

from tests.deploy.projects import ROOT, create, modern
from tests.peers.environment import need


@pytest.mark.peer
def test_the_function_makes_an_application_that_answers_under_its_public_name(tmp_path: Path) -> None:
    need("modal")
    project = create(tmp_path, "modal")
    headers, body = modern("add_note", title="Tea", text="Green")
    sent = json.dumps([headers | {"Host": "ada--my-notes-web.modal.run"}, body])
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MODAL_CONFIG_PATH": str(tmp_path / "modal.toml")}
    done = subprocess.run(
        [interpreter("modal"), str(Path(__file__).with_name("modal_check.py"))],
        cwd=project, env=env, input=sent, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    name, status, text = json.loads(done.stdout.splitlines()[-1])
    assert (name, status) == ("my-notes", 200)
    assert json.loads(text)["result"]["content"][0]["text"] == "1 notes"
