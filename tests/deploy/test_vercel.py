"""The application of the Vercel page, on an ASGI server that forwards the public name over loopback."""

import json
import sys
from pathlib import Path

from tests.deploy.projects import create, files, initialize, started, takes_a_note
from tests.support.redis import free_port

PUBLIC = {
    "Host": "my-notes.vercel.app",
    "X-Forwarded-Proto": "https",
    "X-Vercel-Id": "fra1::abc",
    "X-Forwarded-For": "198.51.100.7",
}


def test_the_application_answers_under_its_public_name(tmp_path: Path) -> None:
    project, port = create(tmp_path, "vercel"), free_port()
    words = [sys.executable, "-m", "uvicorn", "--port", str(port), "app:app"]
    with started(words, project, status=(0, -15)) as server:
        takes_a_note(server, PUBLIC)
        reply = server.ask("POST", "/mcp", PUBLIC | initialize()[0], initialize()[1])
        assert (reply.status, reply.headers.get("mcp-session-id")) == (200, None)


def test_the_configuration_names_the_entrypoint() -> None:
    shown = files("vercel")
    assert {*json.loads(shown["vercel.json"])["functions"]} == {"app.py"} <= {*shown}
