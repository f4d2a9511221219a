"""The conversations of the two server dialects once more, with a process at the other end of two pipes."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from dovetail.core.channel import Link
from tests.support.aio import run_limited
from tests.support.transcripts import Listener, Transcript, load_all, speak

ROOT = Path(__file__).resolve().parents[2]
SERVE = """
import sys
from tests.support import fixture_servers
fixture_servers.make(sys.argv[1], sys.argv[2]).run()
"""
SPOKEN = [
    transcript
    for transcript in load_all()
    if transcript.spoken and transcript.path.parent.name in ("erlmcp", "minimcp")
]


class PipeLink:
    """Just enough of a link to send lines to a child."""

    def __init__(self, pipe: asyncio.StreamWriter) -> None:
        self._pipe = pipe

    def send(self, message: bytes) -> None:
        assert b"\n" not in message
        self._pipe.write(message + b"\n")


async def converse(transcript: Transcript) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVE,
        transcript.headers["server"],
        transcript.dialect,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    listener = Listener()
    listener.connected(cast("Link", PipeLink(child.stdin)))
    listening = asyncio.create_task(listen(child.stdout, listener))
    try:
        await speak(transcript, listener)
        child.stdin.close()
        assert await child.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        await listening


async def listen(pipe: asyncio.StreamReader, listener: Listener) -> None:
    async for line in pipe:
        assert line.endswith(b"\n")
        listener.received(line)
    listener.lost(None)


@pytest.mark.parametrize("transcript", SPOKEN, ids=lambda transcript: transcript.id)
def test_the_server_keeps_to_its_lines_over_pipes(transcript: Any) -> None:
    run_limited(converse(transcript))
