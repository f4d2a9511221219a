"""Events of requests and connections, for callbacks.

```python
Client(url, on_event=print)

@server.on_event
def heard(event: TelemetryEvent) -> None: ...
```

======================  ====================================================================================
name                    data
======================  ====================================================================================
``request.start``       ``method``, ``name``; on a server also ``id``
``request.stop``        the same, ``seconds``, ``outcome``: ok, failed or broken
``request.exception``   the same, ``outcome``, ``code`` and ``kind`` of the error, or the exception's class
``transition``          ``from``, ``to``, ``reason``: of a client's connection, or of a legacy session
``invalid_message``     ``kind``, ``detail``: a message that could not be read, or broke the protocol
``unknown_response``    ``kind``, ``detail``: a response without a pending request; after a timeout this is normal
======================  ====================================================================================

A callback must not block. Its exceptions are logged and have no other effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Final, Literal

from msgspec import Raw, Struct

from ..core.channel import Session
from ..drivers.middleware_chain import Middleware, Next, Request, admission_of, subject_of
from ..errors import DovetailError, RemoteProtocolError
from ..middleware.call_outcome import code_of, of_error, of_result
from ..server import Server

log = logging.getLogger("dovetail.events")

Side = Literal["client", "server"]
Heard = Callable[["TelemetryEvent"], Any]
_ANSWERS: Final = frozenset({"unknown_answer", "late_answer"})


class TelemetryEvent(Struct, frozen=True):
    """One event; the table of the module lists the names."""

    name: str
    side: Side
    data: Mapping[str, Any]


class EventReporter(Middleware):
    """Calls ``heard`` for each event: around every call, and as a `Watcher` of invalid messages."""

    observes = True

    def __init__(self, side: Side, heard: Heard) -> None:
        self._side: Side = side
        self._heard = heard

    def tell(self, name: str, /, **data: Any) -> None:
        try:
            self._heard(TelemetryEvent(name, self._side, data))
        except Exception:
            log.exception("on_event failed on %s", name)

    def wrap(self, call_next: Next) -> Next:
        async def told(request: Request) -> Struct | Raw:
            call = request.call
            about: dict[str, Any] = {"method": call.method, "name": subject_of(call)}
            if self._side == "server":  # a request of a client has no id before it is sent
                about["id"] = call.id
            if not request.resumed:
                self.tell("request.start", **about)
            begun, over = perf_counter(), list[str]()

            def became_task(id: str) -> None:
                over.append(id)
                self.tell("request.stop", **about, seconds=perf_counter() - begun, outcome="ok")

            request.on_task(over.append if request.resumed else became_task)
            try:
                result = await call_next(request)
            except BaseException as error:
                kind = error.kind if isinstance(error, DovetailError) else type(error).__name__
                about |= {"seconds": perf_counter() - begun, "outcome": of_error(error)}
                if not over:
                    self.tell("request.exception", **about, code=code_of(error), kind=kind)
                raise
            if not over:
                self.tell("request.stop", **about, seconds=perf_counter() - begun, outcome=of_result(result))
            return result

        return told

    def attach(self, service: Any) -> None:
        admission = admission_of(service)
        if self not in admission.watchers:
            admission.watchers += (self,)

    def watch_session(self, session: Session) -> None:
        """Report the transitions of a legacy session."""
        session.on_phase = self.moved

    def moved(self, before: str, after: str, reason: str | None) -> None:
        """Report a change of state of a connection or session."""
        # A mapping, because "from" is a Python keyword.
        self.tell("transition", **{"from": before, "to": after, "reason": reason})

    # --- the `Watcher` of an `Admission` ----------------------------------------------------------------

    def refused(self, error: DovetailError) -> None:
        if isinstance(error, RemoteProtocolError):
            self.tell("invalid_message", kind=error.kind, detail=error.message)

    def violated(self, kind: str, detail: str) -> None:
        self.tell("unknown_response" if kind in _ANSWERS else "invalid_message", kind=kind, detail=detail)

    def undelivered(self, method: str) -> None:
        self.tell("notification_not_delivered", method=method)

    def coerced(self, tool: str) -> None: ...

    def resumed(self) -> None: ...


def listen(server: Server, heard: Heard) -> Heard:
    """Call ``heard`` for all further events of ``server``."""
    events = EventReporter("server", heard)
    server.dispatcher.pipeline.add(events)
    server.subscriptions.session_listeners.append(events.watch_session)
    return heard
