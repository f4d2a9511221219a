"""The service of the Cloud Run page."""

from pathlib import Path

import yaml

from tests.deploy.projects import create, files, initialize, legacy, started, takes_a_note
from tests.support.redis import free_port

SERVICE = yaml.safe_load(files("cloud-run")["service.yaml"])
[CONTAINER] = SERVICE["spec"]["template"]["spec"]["containers"]
FRONT_END = {
    "Host": "my-notes-abc-ew.a.run.app",
    "X-Forwarded-For": "198.51.100.7",
    "X-Forwarded-Proto": "https",
    "X-Cloud-Trace-Context": "105445aa7843bc8bf206b12000100000/1;o=1",
    "Traceparent": "00-105445aa7843bc8bf206b12000100000-0000000000000001-01",
}


def test_probes_ask_the_port_of_the_container() -> None:
    [port] = CONTAINER["ports"]
    for probe in ("startupProbe", "livenessProbe"):
        assert CONTAINER[probe]["httpGet"]["port"] == port["containerPort"]


def test_the_container_listens_on_the_port_that_cloud_run_names(tmp_path: Path) -> None:
    project, port = create(tmp_path, "cloud-run", "cloud-run"), free_port()
    with started(CONTAINER["args"], project, {"PORT": str(port), "K_SERVICE": "my-notes"}) as server:
        assert server.port == port
        for probe in ("startupProbe", "livenessProbe"):
            assert server.ask("GET", CONTAINER[probe]["httpGet"]["path"]).status == 200
        takes_a_note(server, FRONT_END)


def test_any_instance_serves_any_request(tmp_path: Path) -> None:
    project = create(tmp_path, "cloud-run", "cloud-run")
    with started(CONTAINER["args"], project) as one, started(CONTAINER["args"], project) as other:
        first = one.ask("POST", "/mcp", FRONT_END | initialize()[0], initialize()[1])
        assert (first.status, first.headers.get("mcp-session-id")) == (200, None)
        headers, body = legacy("tools/list")
        assert other.ask("POST", "/mcp", FRONT_END | headers, body).status == 200
