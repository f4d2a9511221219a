"""The metrics page, its alerts and its dashboard name only metrics that exist, and promtool accepts them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from dovetail.telemetry.metric_definitions import FAMILIES
from tests.support.prometheus import PROMTOOL
from tests.support.waiting import HANG

DOCS = Path(__file__).resolve().parents[2] / "docs"
METRIC = re.compile(r"dovetail_[a-z_]+")
PARTS = ("_bucket", "_sum", "_count")


def families(text: str) -> set[str]:
    """The metrics that are named in ``text``; the parts of a histogram are itself."""
    found: set[str] = set()
    for name in METRIC.findall(text):
        whole = next((name.removesuffix(part) for part in PARTS if name.endswith(part)), name)
        found.add(whole if whole in FAMILIES else name)
    return found


def expressions() -> list[str]:
    board = json.loads((DOCS / "grafana.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_every_metric_of_the_dashboard_and_the_alerts_exists_and_none_is_left_out() -> None:
    shown = set[str]().union(*map(families, expressions()))
    assert shown == set(FAMILIES)
    assert families((DOCS / "alerts.yml").read_text()) <= set(FAMILIES)


def test_histograms_are_queried_by_their_buckets() -> None:
    for expression in expressions():
        for name in METRIC.findall(expression):
            assert not (name in FAMILIES and FAMILIES[name].kind == "histogram"), expression


def test_every_label_of_the_dashboard_exists() -> None:
    for panel in json.loads((DOCS / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            known = {"le"}.union(*(FAMILIES[name].labels for name in families(target["expr"])))
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            said = {label.strip() for group in grouped for label in group.split(",")}
            said |= set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert said <= known, panel["title"]


def test_the_page_describes_every_metric_as_it_is() -> None:
    rows = re.findall(
        r"^\| `(dovetail_\w+)` \| (\w+) \|\s*(.*?)\s*\|", (DOCS / "metrics.md").read_text(), re.M
    )
    described = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert described == {name: (family.kind, family.labels) for name, family in FAMILIES.items()}


def test_the_page_explains_every_alert() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (DOCS / "alerts.yml").read_text()))
    assert alerts == set(re.findall(r"`(Dovetail\w+)`", (DOCS / "metrics.md").read_text()))


def checked(path: Path) -> str:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(path)], capture_output=True, text=True, timeout=HANG, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.prometheus
def test_promtool_understands_the_alerts_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    assert checked(DOCS / "alerts.yml") == ""
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(expressions())
    ]
    path = tmp_path / "panels.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert checked(path) == ""
    path.write_text(path.read_text().replace("sum by", "sum buy", 1))
    assert "parse error" in checked(path)


@pytest.mark.parametrize("page", ["grafana.json", "alerts.yml"])
def test_the_page_links_to_what_it_promises(page: str) -> None:
    assert f"({page})" in (DOCS / "metrics.md").read_text()
