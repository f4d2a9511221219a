"""The contract of AgentCore Runtime: address, path, and a session id that the platform adds to every request."""

from pathlib import Path

import pytest

from tests.deploy.projects import command, create, files, initialize, instructions, legacy, modern, started

DOCKERFILE = files("agentcore")["Dockerfile"]
PLATFORM = {
    "Host": "127.0.0.1:8000",
    "Mcp-Session-Id": "0f4a1f53-9d2b-4f0e-9f0a-5a3d8f7c4b1e-session-of-the-platform",
    "X-Amzn-Bedrock-AgentCore-Runtime-Session-Id": "0f4a1f53-9d2b-4f0e-9f0a-5a3d8f7c4b1e-session-of-the-platform",
    "X-Amzn-Trace-Id": "Root=1-67891233-abcdef012345678912345678",
    "Baggage": "userId=ada",
}


def test_the_container_is_for_arm64_and_serves_port_8000_of_every_interface() -> None:
    assert dict(instructions(DOCKERFILE))["FROM"].startswith("--platform=linux/arm64 ")
    words = command(DOCKERFILE)
    assert "--public" in words
    assert words[words.index("--port") + 1] == "8000"


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_request_has_the_session_id_of_the_platform(revision: str, tmp_path: Path) -> None:
    project = create(tmp_path, "agentcore")
    with started([word.replace("8000", "0") for word in command(DOCKERFILE)], project) as server:
        assert "0.0.0.0" in server.line
        headers, body = initialize(revision)
        reply = server.ask("POST", "/mcp", PLATFORM | headers, body)
        assert reply.status == 200, reply.body
        assert reply.message["result"]["protocolVersion"] == revision
        headers, body = legacy("notifications/initialized", revision=revision)
        assert server.ask("POST", "/mcp", PLATFORM | headers, body).status == 202
        headers, body = legacy("tools/list", revision=revision)
        assert len(server.ask("POST", "/mcp", PLATFORM | headers, body).message["result"]["tools"]) == 3
        call = {"name": "add_note", "arguments": {"title": "Tea", "text": "Green"}}
        headers, body = legacy("tools/call", call, revision)
        reply = server.ask("POST", "/mcp", PLATFORM | headers, body)
        assert (reply.events or [reply.message])[-1]["result"]["content"][0]["text"] == "1 notes"
        headers, body = modern("find_notes", word="tea")
        assert server.ask("POST", "/mcp", PLATFORM | headers, body).status == 200
