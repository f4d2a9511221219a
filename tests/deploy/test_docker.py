"""The image of the Docker page, without Docker: its files, its command and its health check."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.projects import (
    command,
    create,
    environment,
    files,
    initialize,
    instructions,
    legacy,
    started,
    takes_a_note,
)
from tests.support.redis import RedisServer

DOCKERFILE = files("docker")["Dockerfile"]
COMPOSE = yaml.safe_load(files("docker")["compose.yaml"])


def copied() -> list[str]:
    return [name for word, rest in instructions(DOCKERFILE) if word == "COPY" for name in rest.split()[:-1]]


def image(tmp_path: Path) -> Path:
    """A folder with the files that the image has."""
    project, folder = create(tmp_path, "docker", "docker"), tmp_path / "app"
    folder.mkdir()
    for name in copied():
        (folder / name).write_bytes((project / name).read_bytes())
    return folder


def test_everything_that_is_copied_is_in_the_build_context() -> None:
    ignored = files("docker")[".dockerignore"].split()
    assert ignored[0] == "*"
    assert copied() == [line.removeprefix("!") for line in ignored[1:]]


def test_the_command_serves_every_interface_and_the_health_check_passes_until_it_ends(tmp_path: Path) -> None:
    check = json.loads(dict(instructions(DOCKERFILE))["HEALTHCHECK"].removeprefix("CMD "))
    with started(command(DOCKERFILE), image(tmp_path)) as server:
        assert "0.0.0.0" in server.line
        takes_a_note(server)
        env = {**os.environ, "PORT": str(server.port)}
        words = [sys.executable, *check[1:]]
        assert subprocess.run(words, env=env, timeout=60, check=False).returncode == 0
    assert subprocess.run(words, env=env, timeout=60, check=False, stderr=subprocess.DEVNULL).returncode != 0


def test_the_port_is_the_one_that_is_exposed_and_published() -> None:
    port = environment(DOCKERFILE)["PORT"]
    assert dict(instructions(DOCKERFILE))["EXPOSE"] == port
    assert COMPOSE["services"]["server"]["ports"] == [f"{port}:{port}"]


def test_compose_names_services_and_volumes_that_there_are() -> None:
    services = COMPOSE["services"]
    assert {*services["server"]["depends_on"]} <= {*services}
    assert "healthcheck" in services["redis"]
    assert [one.partition(":")[0] for one in services["redis"]["volumes"]] == [*COMPOSE["volumes"]]
    assert int(services["server"]["stop_grace_period"].removesuffix("s")) > 10 + 11


@pytest.mark.redis
def test_the_command_of_compose_keeps_sessions_in_redis(tmp_path: Path) -> None:
    folder = image(tmp_path)
    with RedisServer() as redis:
        words = shlex.split(COMPOSE["services"]["server"]["command"])
        words = [word.replace("redis:6379", f"127.0.0.1:{redis.port}") for word in words]
        with started(words, folder) as server:
            session = server.ask("POST", "/mcp", *initialize()).headers["mcp-session-id"]
            assert server.ask("GET", "/metrics").status == 200
        with started(words, folder) as server:
            headers, body = legacy("tools/list")
            reply = server.ask("POST", "/mcp", headers | {"Mcp-Session-Id": session}, body)
            assert (reply.status, len(reply.message["result"]["tools"])) == (200, 3)


@pytest.mark.slow
def test_the_image_is_built_by_its_commands(tmp_path: Path) -> None:
    """RUN without the user of the container, in an empty environment with our wheel."""
    folder, wheels, environment = image(tmp_path), tmp_path / "wheels", tmp_path / "venv"
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels)]
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, *words, str(root)], check=True, timeout=300)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=300)
    [run] = [rest for word, rest in instructions(DOCKERFILE) if word == "RUN"]
    install = run.partition(" && ")[0]
    env = {
        **os.environ,
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_FIND_LINKS": f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}",
    }
    env.pop("PYTHONPATH", None)
    done = subprocess.run(
        shlex.split(install), cwd=folder, env=env, capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stderr
    with started([str(environment / "bin" / "dovetail"), *command(DOCKERFILE)[1:]], folder, env) as server:
        takes_a_note(server)
