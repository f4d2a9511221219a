"""Held calls for which their client comes back to another process: the answers go there, what comes of them comes back.

The news of the store carries both, under the id of the held call. The process that holds it gives signs of life until
the call behind ends or asks again; without any the client is told to begin again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from ..core.channel import NoBackChannel, PlainChannel
from ..core.principal import key_of
from ..errors import DovetailError, ProtocolError
from ..model import ClientCapabilities, Error
from ..model.meta import CLIENT_CAPABILITIES
from ..stores.base import Store
from ..stores.bounds import LETTER_SECONDS, LETTERS_WAITING
from ..stores.outbox import Outbox
from ..wire.dialects.base import wire_error
from ..wire.methods import METHODS, OpenParams
from ..wire.unknown import whole
from .bounds import HELD_SIGN

if TYPE_CHECKING:
    from .held import HeldCall
    from .passing import Passing


class _Round(Struct, array_like=True):
    """A client has come back: what it says, and the topic where it is to be answered."""

    reply: str
    owner: str | None
    params: Raw
    meta: dict[str, Any]


class _Said(Struct):
    """One of: a sign of life (nothing at all), a notification, the result, or why there is none."""

    method: str = ""
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_ALIVE: Final = _Said()
_write = msgspec.json.Encoder().encode
_read_round = msgspec.json.Decoder(_Round).decode
_read_said = msgspec.json.Decoder(_Said).decode
_GONE: Final = "the call that asked is over, or the process that held it is gone: begin again"


class _Far(PlainChannel):
    """The channel of a call whose client is connected to another process."""

    def __init__(self, say: Callable[[_Said], None]) -> None:
        self._say = say

    def notify(self, method: str, params: Struct | None) -> None:
        self._say(_Said(method, Raw(_write(whole(params)))))

    async def request(self, method: str, params: Struct) -> Any:
        raise NoBackChannel("its client has to be asked with the result")

    async def drain(self) -> None: ...


class HeldElsewhere:
    """The way between the processes that have ``store`` in common; ``resume`` is `HeldCalls.resume`."""

    def __init__(self, store: Store, resume: Callable[..., Any]) -> None:
        self._store, self._resume = store, resume
        self._outbox = Outbox(store, LETTERS_WAITING)
        self._serving: set[asyncio.Task[None]] = set()

    def offer(self, held: HeldCall) -> Callable[[], None]:
        """Have it answered from elsewhere too, until what is returned is called."""
        return self._store.subscribe(f"held/{held.id}", partial(self._take, held))

    def _take(self, held: HeldCall, message: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(held, _read_round(message)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, held: HeldCall, round: _Round) -> None:
        before, say = held.passing.call, partial(self._say, round.reply)
        if round.owner != key_of(before.principal):
            return
        call = replace(
            before,
            params=before.codec.decode_params(held.passing.own_row or METHODS[before.method], round.params),
            meta=round.meta,
            capabilities=ClientCapabilities(round.meta[CLIENT_CAPABILITIES]),
        )
        passing = held.passing.beside(call, _Far(say))
        work = asyncio.ensure_future(self._resume(held.id, passing, passing.rounds()))
        stop = self._store.subscribe(f"{round.reply}/end", lambda _: work.cancel() and None)
        say(_ALIVE)
        try:
            while not (await asyncio.wait({work}, timeout=HELD_SIGN))[0]:
                say(_ALIVE)
            if not work.cancelled():
                result = work.result()
                say(_Said(result=result if isinstance(result, Raw) else call.codec.prepare(result)))
        except DovetailError as error:
            code, text, data = wire_error(error, call.revision, call.codec.dialect)
            say(_Said(error=Raw(_write(Error(code, text, data=data)))))
        finally:
            stop()
            work.cancel()

    async def pass_on(self, id: str, passing: Passing) -> Raw:
        """Hand over what the client in front came back with, and wait for what comes of it.

        Raises:
            ProtocolError: nobody has the call, or nobody any more; or what the server behind answered.
        """
        call, reply = passing.call, f"held/{secrets.token_hex(8)}"
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        stop = self._store.subscribe(reply, heard.put_nowait)
        params = call.params.together() if isinstance(call.params, OpenParams) else call.params
        round = _Round(reply, key_of(call.principal), Raw(_write(params)), dict(call.meta))
        self._outbox.put(f"held/{id}", _write(round))
        try:
            while True:
                async with asyncio.timeout(LETTER_SECONDS):
                    said = _read_said(await heard.get())
                if said.params is not UNSET:
                    passing.tell(said.method, call.codec.decode_params(METHODS[said.method], said.params))
                elif said.result is not UNSET:
                    return said.result
                elif said.error is not UNSET:
                    raise call.codec.decode_error(said.error)
        except TimeoutError:
            raise ProtocolError("invalid_request_state", _GONE) from None
        except asyncio.CancelledError:
            self._outbox.put(f"{reply}/end", b"")
            raise
        finally:
            stop()

    def _say(self, reply: str, said: _Said) -> None:
        self._outbox.put(reply, _write(said))

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        await self._outbox.close()
