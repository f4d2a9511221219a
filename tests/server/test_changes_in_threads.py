"""Lists changed by plain functions, which run in worker threads: subscribers are notified on their own loop."""

import threading

from dovetail import Server
from tests.drivers.parrot import connected
from tests.support.aio import run


@run
async def test_a_tool_in_a_thread_may_change_the_list_and_subscribers_are_notified_on_the_loop() -> None:
    server = Server("changing")
    told_in: list[int] = []

    def extra() -> str:
        """Come later."""
        return "here"

    @server.tool
    def grow() -> str:
        """Add a tool."""
        assert threading.get_ident() != loop_thread
        server.add_tool(extra)
        return "grown"

    loop_thread = threading.get_ident()
    client, duplex = await connected(server, "2025-11-25")
    received = client.received

    def noting(message: bytes) -> None:
        told_in.append(threading.get_ident())
        received(message)

    client.received = noting  # type: ignore[method-assign]
    await client.request("tools/call", {"name": "grow", "arguments": {}})
    await client.notification("notifications/tools/list_changed")
    assert set(told_in) == {loop_thread}
    await client.close()
    await duplex.wait_closed()
    await server.lifecycle.stop()
