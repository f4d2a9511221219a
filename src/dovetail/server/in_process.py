"""Calls of a server in its own process, without a transport: `Server.call_tool` and similar methods.

The request takes the same path as one from a client, including decoding and encoding, so every check and every
middleware applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct

from .. import model as m
from ..core.channel import Session
from ..core.metadata import modern_meta, with_meta
from ..core.principal import Principal, as_principal
from ..drivers.exchange import exchange
from ..wire.frames import decode
from ..wire.methods import METHODS

if TYPE_CHECKING:
    from .dispatcher import Dispatcher


async def call_tool(
    dispatcher: Dispatcher, name: str, arguments: Mapping[str, Any] | None, principal: Principal | None
) -> m.CallToolResult:
    """`Server.call_tool`."""
    written = UNSET if arguments is None else Raw(msgspec.json.encode(arguments))
    return await _ask(dispatcher, "tools/call", m.CallToolRequestParams(name, arguments=written), principal)


async def read_resource(
    dispatcher: Dispatcher, uri: str, principal: Principal | None
) -> m.ReadResourceResult:
    """`Server.read_resource`."""
    return await _ask(dispatcher, "resources/read", m.ReadResourceRequestParams(uri), principal)


async def get_prompt(
    dispatcher: Dispatcher, name: str, arguments: Mapping[str, str] | None, principal: Principal | None
) -> m.GetPromptResult:
    """`Server.get_prompt`."""
    given = UNSET if arguments is None else dict(arguments)
    return await _ask(dispatcher, "prompts/get", m.GetPromptRequestParams(name, arguments=given), principal)


async def _ask(dispatcher: Dispatcher, method: str, params: Struct, principal: Principal | None) -> Any:
    codec = dispatcher.admission.newest
    session, sent = None, params
    if codec.revision.modern:
        sent = with_meta(
            method,
            params,
            modern_meta(codec.revision, {}, {"name": dispatcher.name, "version": dispatcher.info.version}),
        )
    else:
        session = Session(
            revision=codec.revision, codec=codec, capabilities=m.ClientCapabilities(), phase="ready"
        )
    message = codec.encode_request(1, method, sent)
    _, reply = await exchange(dispatcher, message, session=session, principal=as_principal(principal))
    assert reply is not None  # every request gets a response
    frame = decode(reply)
    if isinstance(frame.error, Raw):
        raise codec.decode_error(frame.error)
    assert isinstance(frame.result, Raw)
    return codec.decode_result(METHODS[method], frame.result)
