"""The custom handler of the Azure Functions page, with the environment and the requests of the Functions host."""

import json
from pathlib import Path

from tests.deploy.projects import create, files, initialize, legacy, started, takes_a_note
from tests.support.redis import free_port

HANDLER = json.loads(files("azure-functions")["host.json"])["customHandler"]
FORWARDED = {
    "Host": "my-notes.azurewebsites.net",
    "X-Forwarded-For": "198.51.100.7:4711",
    "X-Forwarded-Proto": "https",
    "X-Functions-Key": "secret",
    "X-Original-URL": "/mcp",
    "X-ARR-LOG-ID": "0d6d9b5b-6f3f-4f0e-8a52-0e62a5f0a5f1",
}


def test_the_handler_listens_on_the_port_of_the_host_and_answers_under_the_public_name(
    tmp_path: Path,
) -> None:
    project, port = create(tmp_path, "azure-functions"), free_port()
    described = HANDLER["description"]
    words = [described["defaultExecutablePath"], *described["arguments"]]
    with started(words, project, {"FUNCTIONS_CUSTOMHANDLER_PORT": str(port), "PORT": "1"}) as server:
        assert server.port == port
        takes_a_note(server, FORWARDED)
        reply = server.ask("POST", "/mcp", FORWARDED | initialize()[0], initialize()[1])
        assert (reply.status, reply.headers.get("mcp-session-id")) == (200, None)
        headers, body = legacy("tools/list")
        assert server.ask("POST", "/mcp", FORWARDED | headers, body).status == 200


def test_the_port_of_the_file_is_the_default_of_the_program() -> None:
    assert f'"FUNCTIONS_CUSTOMHANDLER_PORT", "{HANDLER["port"]}"' in files("azure-functions")["function.py"]
