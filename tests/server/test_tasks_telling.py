"""Tasks of the extension tell: on listen streams, and by their progress."""

import asyncio
from typing import Any

from tests.server.works import Works, accepted, begun, reaches
from tests.support.aio import run
from tests.support.peer import Peer


async def listening(peer: Peer, *ids: str) -> "asyncio.Task[Any]":
    peer.notes.clear()
    peer.told.clear()
    stream = asyncio.create_task(peer.send("subscriptions/listen", notifications={"taskIds": list(ids)}))
    await peer.told.wait()
    return stream


def heard(peer: Peer) -> list[str]:
    return [note["params"]["status"] for note in peer.notes if note["method"] == "notifications/tasks"]


@run
async def test_a_listen_stream_gets_notifications_of_its_listed_tasks() -> None:
    works = Works()
    peer, stream_peer = works.peer(), works.peer()
    id = await begun(peer, "confirm")
    await reaches(peer, id, "input_required")
    stream = await listening(stream_peer, id)
    acknowledged = stream_peer.notes[0]["params"]["notifications"]
    assert acknowledged["taskIds"] == [id]
    await peer.result("tasks/update", taskId=id, inputResponses={"who": accepted("Ann")})
    await reaches(peer, id, "completed")
    assert heard(stream_peer) == ["working", "completed"]
    last = stream_peer.notes[-1]["params"]
    assert last["result"]["content"][0]["text"] == "Hello, Ann!"
    assert "io.modelcontextprotocol/subscriptionId" in last["_meta"]
    works.server.subscriptions.end_listening()
    await stream


@run
async def test_a_listen_stream_is_notified_immediately_of_a_finished_task() -> None:
    works = Works()
    works.gate.set()
    peer, stream_peer = works.peer(), works.peer()
    id = await begun(peer, "wait")
    await reaches(peer, id, "completed")
    stream = await listening(stream_peer, id)
    assert heard(stream_peer) == ["completed"]
    works.server.subscriptions.end_listening()
    await stream


@run
async def test_a_listen_stream_gets_no_notifications_of_foreign_tasks() -> None:
    works = Works()
    mine, other = works.peer(principal="me"), works.peer(principal="you")
    id = await begun(mine, "wait")
    stream = await listening(other, id)
    assert other.notes[0]["params"]["notifications"].get("taskIds", []) == []
    works.gate.set()
    await reaches(mine, id, "completed")
    assert heard(other) == []
    works.server.subscriptions.end_listening()
    await stream


@run
async def test_progress_becomes_what_the_task_says_about_itself() -> None:
    works = Works()
    peer = works.peer()
    id = await begun(peer, "report")
    await works.reached.wait()
    task = await reaches(peer, id, "working")
    assert task["statusMessage"] == "half way"
    assert peer.notes == []
    works.gate.set()
    await reaches(peer, id, "completed")
