"""What FastMCP's suite takes from ``fastmcp.utilities`` to test with, which is no part of a server."""

import asyncio
import contextlib
import logging
import multiprocessing
import socket
from contextlib import asynccontextmanager, contextmanager

import fastmcp

from dovetail.compat.common.schemas import without_titles


@contextmanager
def temporary_settings(**given):
    before = {name: fastmcp.settings.get_setting(name) for name in given}
    try:
        for name, value in given.items():
            fastmcp.settings.set_setting(name, value)
        yield
    finally:
        for name, value in before.items():
            fastmcp.settings.set_setting(name, value)


def find_available_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def run_server_async(server, port=None, transport="http", path="/mcp", host="127.0.0.1"):
    port = port or find_available_port()
    work = asyncio.create_task(
        server.run_http_async(host=host, port=port, transport=transport, path=path, show_banner=False)
    )
    try:
        while not work.done():
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                await asyncio.wait({work}, timeout=0.02)
            else:
                writer.close()
                break
        else:
            work.result()
        yield f"http://{host}:{port}{path}"
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


@contextmanager
def run_server_in_process(server_fn, *args, host="127.0.0.1", port=None, **kwargs):
    port = port or find_available_port()
    process = multiprocessing.get_context("fork").Process(
        target=server_fn, args=(host, port, *args), kwargs=kwargs, daemon=True
    )
    process.start()
    try:
        while process.is_alive():
            with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
                break
            process.join(0.05)
        yield f"http://{host}:{port}"
    finally:
        process.terminate()
        process.join(5)


class HeadlessOAuth:
    """Logs in without a browser; the tests that would use it are not written yet."""

    def __init__(self, mcp_url):
        self.mcp_url = mcp_url


@contextmanager
def caplog_for_fastmcp(caplog):
    logger = logging.getLogger("fastmcp")
    logger.addHandler(caplog.handler)
    try:
        yield
    finally:
        logger.removeHandler(caplog.handler)


def compress_schema(schema, prune_titles=False, **_):
    return without_titles(schema, bare=False) if prune_titles else schema
