"""Processes that share the token files of one user: a refresh token is used once."""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from dovetail.auth import TokenStore
from tests.support.waiting import HANG, until

from .provider import Provider, log_in, oauth, provided

CHILD = """
import asyncio, sys
from dovetail import Client
from dovetail.auth import OAuth, TokenStore

def never(url):
    raise AssertionError("the user was asked again")

async def main():
    url, folder = sys.argv[1:]
    auth = OAuth(store=TokenStore(folder), open_browser=never)
    calls = 0
    async with Client(url, revision="modern", auth=auth) as client:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        enough = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        while not enough.done() or not calls:
            await asyncio.gather(*(client.call_tool("echo", {"a": 1}) for _ in range(4)))
            calls += 4
    print(calls)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks of files")
def test_processes_take_turns_at_a_refresh_token_that_rotates(tmp_path: Path) -> None:
    async def test(provider: Provider) -> None:
        provider.lifetime = 1  # so short that each has to renew several times
        await log_in(provider, oauth(store=TokenStore(tmp_path)))
        words = [sys.executable, "-c", CHILD, provider.url, str(tmp_path)]
        children = [
            await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            for _ in range(3)
        ]
        for child in children:
            assert child.stdout is not None
            assert await child.stdout.readline() == b"ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"go\n")

        def used() -> Counter[str]:
            return Counter(form["refresh_token"] for form in provider.forms() if "refresh_token" in form)

        await until(lambda: len(used()) >= 3 or any(child.returncode is not None for child in children))
        for out, err in await asyncio.gather(*(child.communicate(b"enough\n") for child in children)):
            assert int(out or b"0") > 0, err.decode()[-2000:]
        assert len(used()) >= 3
        assert set(used().values()) == {1}
        assert len(provider.authorizations()) == 1

    async def inside() -> None:
        async with asyncio.timeout(2 * HANG), provided() as provider:
            await test(provider)

    asyncio.run(inside())
