"""A real Prometheus, and its judge of texts; what it is notified of is only on loopback."""

import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .redis import free_port
from .waiting import HANG, wait_until

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")

CONFIG = """
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: dovetail
    static_configs: [{targets: ["127.0.0.1:PORT"]}]
"""


def problems(text: bytes) -> str:
    """What ``promtool check metrics`` has to say; nothing, if it is content."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, timeout=HANG, check=False
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0 or said, "promtool fails without a word"
    return said


class Prometheus:
    """One that scrapes ``port``, five times a second."""

    def __init__(self, port: int) -> None:
        assert PROMETHEUS is not None
        self._port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="dovetail-prometheus-"))
        config = self._folder / "prometheus.yml"
        config.write_text(CONFIG.replace("PORT", str(port)))
        self._process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={config}",
                f"--storage.tsdb.path={self._folder}/data",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._ready)

    def _get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=HANG) as response:
                return response.read()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def _ready(self) -> bool:
        return self._get("/-/ready") is not None

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values of what an expression finds."""
        found = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        answer: dict[str, Any] = json.loads(found or b"{}")
        return [(one["metric"], float(one["value"][1])) for one in answer.get("data", {}).get("result", ())]

    def value(self, expression: str) -> float | None:
        """The only value of an expression; None if it has no value yet."""
        found = self.query(expression)
        return found[0][1] if len(found) == 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(HANG)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(HANG)
        shutil.rmtree(self._folder, ignore_errors=True)
