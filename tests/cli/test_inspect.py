"""``dovetail inspect`` as a process: the link it prints opens the page, and nothing else does."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest

from tests.support.waiting import HANG

DEMO = Path(__file__).resolve().parents[1] / "inspector" / "demo.py"
LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)")


def test_the_link_it_prints_opens_the_page_and_the_target_is_connected() -> None:
    words = [sys.executable, "-m", "dovetail.cli.main", "inspect", str(DEMO), "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = LINK.search(process.stdout.readline())
        assert found is not None
        origin, token = found.groups()
        try:
            assert b"Dovetail Inspector" in urlopen(f"{origin}/?token={token}", timeout=HANG).read()
            with pytest.raises(HTTPError, match="403"):
                urlopen(f"{origin}/", timeout=HANG)
            body = msgspec.json.encode({"connection": 1})
            asked = Request(f"{origin}/api/list", body, {"X-Dovetail-Token": token})
            listed = msgspec.json.decode(urlopen(asked, timeout=HANG).read())
            assert "forecast" in [tool["name"] for tool in listed["tools"]]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANG)
    assert process.returncode == 130


def test_a_target_that_is_none_is_a_wrong_command_line() -> None:
    words = [sys.executable, "-m", "dovetail.cli.main", "inspect", "https://", "--no-browser"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stdout) == (2, "")
    assert "lacks a host" in done.stderr
