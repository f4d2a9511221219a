"""Keep-alive: a ping now and then on a legacy connection, so that a silent end is noticed before the next call is.

Off unless asked for with ``Client(keep_alive=seconds)``. Modern servers have no ping, and no connection worth keeping.
"""

from __future__ import annotations

from ...drivers.clock import Clock
from ...errors import ProtocolError, RequestTimeout, TransportError
from ...model import RequestParams
from ...settings import Timeouts
from ..conversation import Conversation


async def keep_alive(conversation: Conversation, clock: Clock, every: float) -> None:
    """Ping until the connection is gone; one that does not answer within ``every`` seconds is taken for dead."""
    limits = Timeouts(idle=None, total=every)
    while not conversation.gone.done():
        await clock.sleep(every)
        try:
            await conversation.request("ping", RequestParams(), limits)
        except RequestTimeout:
            text = f"the server did not answer a ping within {every:g} s"
            conversation.lost(TransportError(text, cause="idle"))
        except ProtocolError:
            pass  # it does not know ping, but it does answer
        except TransportError:
            return
