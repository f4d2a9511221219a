"""``${keyring:NAME}`` and ``${input:NAME}`` in the files of a gateway."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend

from dovetail.gateway import ConfigError
from dovetail.gateway.gateway_config import with_variables


class Secrets(KeyringBackend):
    priority = 1  # type: ignore[assignment]

    def get_password(self, service: str, username: str) -> str | None:
        return "s3cret" if (service, username) == ("dovetail", "shop-token") else None

    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(Secrets())
    monkeypatch.setattr("dovetail.gateway.config_secrets._inputs", {})
    yield  # type: ignore[misc]
    keyring.set_keyring(before)


@pytest.mark.usefixtures("secrets")
def test_a_secret_comes_from_the_keyring() -> None:
    assert with_variables({"auth": "Bearer ${keyring:shop-token}"}, "x") == {"auth": "Bearer s3cret"}
    assert with_variables("${keyring:other:-none}", "x") == "none"
    with pytest.raises(ConfigError, match=r"server 'x': .*'other'.*keyring set dovetail other"):
        with_variables("${keyring:other}", "server 'x'")


@pytest.mark.usefixtures("secrets")
def test_an_input_comes_from_the_environment_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="DOVETAIL_INPUT_API_KEY"):
        with_variables("${input:api-key}", "x")
    monkeypatch.setenv("DOVETAIL_INPUT_API_KEY", "k")
    assert with_variables(["${input:api-key}"], "x") == ["k"]


ASK = """
import json
from dovetail.gateway.gateway_config import with_variables
print(json.dumps(with_variables(["${input:api-key}", "${input:api-key}"], "x")), flush=True)
"""


def test_an_input_is_asked_for_once(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", ASK],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            start_new_session=True,
        )
        asked = b""
        while b"api-key: " not in asked:
            asked += os.read(ours, 1024)
        os.write(ours, b"typed\n")
        output, _ = child.communicate(timeout=60)
    finally:
        os.close(theirs)
        os.close(ours)
    assert json.loads(output) == ["typed", "typed"]
