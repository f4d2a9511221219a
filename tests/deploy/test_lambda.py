"""The function of the Lambda page: Mangum with events of AWS, and the contract of the Lambda Web Adapter."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import lambda_events
from tests.deploy.projects import (
    command,
    create,
    environment,
    files,
    initialize,
    legacy,
    modern,
    started,
    takes_a_note,
)
from tests.support.redis import free_port
from tests.support.waiting import wait_until

DOCKERFILE = files("lambda")["web-adapter.Dockerfile"]
FUNCTION = yaml.safe_load(files("lambda")["template.yaml"])["Resources"]["Server"]["Properties"]
EVENTS = [lambda_events.function_url, lambda_events.http_api, lambda_events.rest_api]


@contextmanager
def runtime(project: Path) -> Iterator[Callable[[Any], Any]]:
    """The function in a process like that of Lambda: a callable that takes an event."""
    words = [sys.executable, str(Path(__file__).with_name("lambda_runtime.py")), FUNCTION["Handler"]]
    with subprocess.Popen(
        words, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def invoke(event: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(event) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        try:
            yield invoke
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            process.kill()


def said(response: Any) -> Any:
    assert response["statusCode"] == 200, response
    body = response["body"]
    return json.loads(base64.b64decode(body) if response["isBase64Encoded"] else body)["result"]


@pytest.mark.parametrize("event", EVENTS)
def test_mangum_serves_every_kind_of_event_on_every_revision(event: Any, tmp_path: Path) -> None:
    with runtime(create(tmp_path, "lambda", "lambda")) as invoke:
        found = said(invoke(event("POST", "/mcp", *modern("add_note", title="Tea", text="Green"))))
        assert found["content"][0]["text"] == "1 notes"
        for revision in ("2025-03-26", "2025-06-18", "2025-11-25"):
            opened = said(invoke(event("POST", "/mcp", *initialize(revision))))
            assert opened["protocolVersion"] == revision
            ready = invoke(event("POST", "/mcp", *legacy("notifications/initialized", revision=revision)))
            assert ready["statusCode"] == 202
            call = {"name": "find_notes", "arguments": {"word": "tea"}}
            found = said(invoke(event("POST", "/mcp", *legacy("tools/call", call, revision))))
            assert "Tea" in found["content"][0]["text"]
        headers, _ = legacy("ping")
        assert invoke(event("GET", "/mcp", headers, None))["statusCode"] == 405  # a stream would never end


def test_the_archive_has_what_the_template_names() -> None:
    module, _, name = FUNCTION["Handler"].rpartition(".")
    assert f"\n{name} = Mangum(" in files("lambda")[f"{module}.py"]
    assert "mangum" in files("lambda")["requirements.txt"]


def test_the_web_adapter_finds_a_server_that_is_ready_and_forwards_events_to_it(tmp_path: Path) -> None:
    project, env = create(tmp_path, "lambda", "lambda"), environment(DOCKERFILE)
    port = free_port()
    with started(command(DOCKERFILE), project, env | {"PORT": str(port)}) as server:
        assert server.port == port
        path = env["AWS_LWA_READINESS_CHECK_PATH"]
        wait_until(lambda: server.ask("GET", path, {"Host": f"127.0.0.1:{port}"}).status == 200)
        forwarded = {
            "Host": lambda_events.HOST,
            "X-Forwarded-For": "198.51.100.7",
            "X-Forwarded-Proto": "https",
            "X-Amzn-Request-Context": json.dumps({"accountId": "anonymous", "http": {"method": "POST"}}),
            "X-Amzn-Lambda-Context": json.dumps({"request_id": "e1506fd5", "deadline": 1795118400000}),
        }
        takes_a_note(server, forwarded)
        assert server.ask("POST", "/mcp", forwarded | initialize()[0], initialize()[1]).status == 200
        # A tool that requests input fails immediately: the request has no session.
        call = {"name": "delete_note", "arguments": {"title": "Tea"}}
        reply = server.ask(
            "POST", "/mcp", forwarded | legacy("tools/call", call)[0], legacy("tools/call", call)[1]
        )
        result = (reply.events or [reply.message])[-1]
        assert "error" in result or result["result"]["isError"]


def test_the_web_adapter_listens_on_the_port_of_the_server() -> None:
    env = environment(DOCKERFILE)
    assert env["PORT"] == "8080"  # the default of the adapter
    assert "--public" not in command(DOCKERFILE)
    assert env["AWS_LWA_INVOKE_MODE"] == "response_stream"
