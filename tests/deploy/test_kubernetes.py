"""The manifests of the Kubernetes page fit each other and the server that they start."""

import re
from pathlib import Path
from typing import Any

import yaml

from dovetail.settings import HttpOptions
from tests.deploy.projects import create, environment, files, initialize, legacy, started, takes_a_note

FILES = files("kubernetes")
MANIFESTS = {one["kind"]: one for one in yaml.safe_load_all(FILES["kubernetes/server.yaml"])}
AUTOSCALER = yaml.safe_load(FILES["kubernetes/autoscaler.yaml"])
ADAPTER = yaml.safe_load(FILES["kubernetes/prometheus-adapter.yaml"])
POD = MANIFESTS["Deployment"]["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]
POD_ADDRESS = {"Host": "10.1.2.3:8000", "User-Agent": "kube-probe/1.34"}


def probed(probe: dict[str, Any]) -> str:
    """The path of a probe, whose port is the one the server listens on."""
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports[probe["httpGet"]["port"]] == int(environment(files("docker")["Dockerfile"])["PORT"])
    return probe["httpGet"]["path"]


def test_the_parts_name_each_other() -> None:
    labels = POD["metadata"]["labels"]
    assert MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"] == labels
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    [port] = MANIFESTS["Service"]["spec"]["ports"]
    assert port["targetPort"] in {one["name"] for one in CONTAINER["ports"]}
    of = AUTOSCALER["spec"]["scaleTargetRef"]
    assert (of["kind"], of["name"]) == ("Deployment", MANIFESTS["Deployment"]["metadata"]["name"])
    assert {one["name"] for one in CONTAINER["volumeMounts"]} == {
        one["name"] for one in POD["spec"]["volumes"]
    }
    assert f"USER {POD['spec']['securityContext']['runAsUser']}\n" in files("docker")["Dockerfile"]


def test_a_pod_has_more_time_to_end_than_the_server_takes() -> None:
    assert POD["spec"]["terminationGracePeriodSeconds"] > HttpOptions().shutdown_grace_period + 11


def test_the_container_serves_its_probes_and_the_metric_of_the_autoscaler(tmp_path: Path) -> None:
    project = create(tmp_path, "kubernetes", "kubernetes")
    note = POD["metadata"]["annotations"]
    [metric] = AUTOSCALER["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"]
    [rule] = ADAPTER["rules"]["custom"]
    assert rule["name"]["as"] == name
    assert rule["seriesQuery"].startswith(name + "{")
    with started(CONTAINER["args"], project, {"DOVETAIL_STORE": "sqlite:///state.db"}) as server:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert server.ask("GET", probed(CONTAINER[probe]), POD_ADDRESS).status == 200
        takes_a_note(server)
        text = server.ask("GET", note["prometheus.io/path"]).body.decode()
        assert re.search(rf"^{name} [0-9.]+$", text, re.MULTILINE)


def test_probes_and_scrapers_with_a_token_pass_where_the_host_is_restricted(tmp_path: Path) -> None:
    project, token = create(tmp_path, "kubernetes", "kubernetes"), {"DOVETAIL_METRICS_TOKEN": "s3cret"}
    with started([*CONTAINER["args"], "--allowed-host", "api.example.com"], project, token) as server:
        assert server.ask("GET", "/metrics", POD_ADDRESS | {"Authorization": "Bearer s3cret"}).status == 200
        assert server.ask("GET", "/metrics", POD_ADDRESS).status == 401
        page = {"Origin": "https://evil.example", "Authorization": "Bearer s3cret"}
        assert server.ask("GET", "/metrics", POD_ADDRESS | page).status == 403
        assert server.ask("GET", "/readyz", POD_ADDRESS).status == 200
        assert (
            server.ask("POST", "/mcp", {**initialize()[0], "Host": "other.example"}, initialize()[1]).status
            == 403
        )
        takes_a_note(server, {"Host": "api.example.com"})


def test_a_session_of_one_pod_is_served_by_another(tmp_path: Path) -> None:
    project = create(tmp_path, "kubernetes", "kubernetes")
    store = {"DOVETAIL_STORE": f"sqlite:///{tmp_path}/state.db"}
    with (
        started(CONTAINER["args"], project, store) as one,
        started(CONTAINER["args"], project, store) as other,
    ):
        session = one.ask("POST", "/mcp", *initialize()).headers["mcp-session-id"]
        headers, body = legacy("tools/list")
        assert other.ask("POST", "/mcp", headers | {"Mcp-Session-Id": session}, body).status == 200
