"""`Upload`: files as arguments of tools, inline in base64 or sent to a URL before the call.

========  =============================================================================================
step      what happens
========  =============================================================================================
ask       the tool ``create_upload`` returns a URL below `UPLOAD_PATH` with a sealed token: who may use it,
          the name and type of the file, until when
send      the file is sent there with PUT, once; the server stores it in its store, in pieces
use       the URL is the value of the argument; the handler gets an `Upload` with the bytes
========  =============================================================================================

The token is sealed with the keys of the server and the file is in its store, so every worker serves every step. A file
belongs to the caller that asked for the URL, for `FILE_LIFETIME` seconds. Without HTTP, or for small files, the
argument is the file itself: base64, or a ``data:`` URL.
"""

from __future__ import annotations

import hashlib
import re
import typing
from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.principal import Principal
from ..core.route_handlers import CustomRoute, RouteRequest, RouteResponse
from ..errors import ProtocolError, ToolError
from ..stores.base import BoundedStore, Store, StoreFull
from ..stores.quotas import BYTES_PER_SLOT, Quota, quota_owner, release
from ..stores.versioned_records import VersionedRecords
from ..wire.seal import Expired
from .context import Context
from .dispatcher import UPLOAD_PATH, UPLOAD_TOOL
from .handles import owner
from .http_address import base_url
from .signatures.depends import CONTEXT

if TYPE_CHECKING:
    from .dispatcher import Dispatcher
    from .signatures.objects import Field
    from .signatures.parameters import Signature

URL_LIFETIME: Final = 600.0
"""Seconds for which a file can be sent to a URL."""
FILE_LIFETIME: Final = 3600.0
"""Seconds for which a file can be used after it was sent."""
FILES_PER_OWNER: Final = 4
"""Files of the largest size that one principal or address may have stored."""
FILES: Final = 16
"""Files of the largest size that all callers may have stored."""
PIECE_BYTES: Final = 256 << 10
"""Bytes of one piece of a file in the store."""
MAX_NAME: Final = 255
"""Characters of the name of a file."""

_DESCRIPTION: Final = (
    f"A file: base64 of its bytes, a data: URL, or a URL of the tool {UPLOAD_TOOL} to which it was sent."
)
_TEXT: Final = msgspec.Meta(min_length=1)
_DATA_URL: Final = re.compile(r"data:([^,]*),", re.IGNORECASE)
_UNKNOWN: Final = (
    f"the upload URL is not valid: nothing was sent to it, it has expired, or it belongs to another caller. "
    f"Get a new one from {UPLOAD_TOOL}, send the file to it with PUT, and call again"
)
_JSON: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Upload:
    """A file that a client sent as an argument: ``def import_rows(file: Upload) -> int``.

    The handler has all of its bytes. The name and the type are what the client says.
    """

    __slots__ = ("data", "mime_type", "name")

    def __init__(
        self, data: bytes, *, name: str = "file", mime_type: str = "application/octet-stream"
    ) -> None:
        self.data = data
        self.name = name
        """A file name without folders."""
        self.mime_type = mime_type

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    @property
    def text(self) -> str:
        """The file as text in UTF-8.

        Raises:
            UnicodeDecodeError: it is something else.
        """
        return self.data.decode()

    def __repr__(self) -> str:
        return f"Upload(name={self.name!r}, mime_type={self.mime_type!r}, size={self.size})"


class UploadUrl(Struct, rename="camel"):
    """What ``create_upload`` returns."""

    url: str
    """Where the file is sent, and the value of the argument afterwards."""
    method: str
    max_bytes: int
    expires_in: int
    instructions: str


class UploadToken(Struct, array_like=True):
    """The sealed content of a URL."""

    owner: str
    """The folder of the caller, as of a handle."""
    name: str
    mime_type: str


class StoredUpload(Struct, array_like=True):
    """The record of a file. Its bytes are in pieces."""

    name: str
    mime_type: str
    size: int


_records = VersionedRecords(StoredUpload)


class Uploads:
    """The files that were sent to one server."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._max_bytes = dispatcher.limits.max_upload_bytes

    async def create(
        self,
        ctx: Context,
        name: Annotated[str, msgspec.Meta(max_length=MAX_NAME)] = "file",
        mime_type: Annotated[str, msgspec.Meta(max_length=MAX_NAME)] = "application/octet-stream",
    ) -> UploadUrl:
        """Get a URL to send one file to, as the value of an argument of another tool.

        Args:
            name: The name of the file.
            mime_type: The type of the file.
        """
        base = base_url(ctx.scope)
        if base is None:
            raise ToolError(
                "this connection has no HTTP address to send files to: put the base64 of the file into the argument"
            )
        token = UploadToken(owner(ctx.principal), _plain_name(name), mime_type)
        expires = self._dispatcher.clock() + URL_LIFETIME
        sealed = self._dispatcher.seal.seal("upload", msgspec.msgpack.encode(token), expires=expires)
        url = f"{base}{UPLOAD_PATH}{sealed}"
        same = "" if ctx.principal is None else " with the same Authorization header as this request"
        told = f"Send the file{same}, for example: curl -T FILE '{url}'. Then pass this URL as the argument."
        return UploadUrl(url, "PUT", self._max_bytes, int(URL_LIFETIME), told)

    def route(self, path: str) -> tuple[CustomRoute, dict[str, str]] | None:
        """Return the route of a URL that this server has sealed, also of an expired one; None for other paths."""
        text = path.removeprefix(UPLOAD_PATH)
        now = self._dispatcher.clock()
        try:
            data = self._dispatcher.seal.open("upload", text, now=now)
        except Expired:
            data = None
        except ProtocolError:
            return None
        token = None if data is None else msgspec.msgpack.decode(data, type=UploadToken)

        async def receive(request: RouteRequest) -> RouteResponse:
            return await self._receive(text, token, request)

        methods = frozenset(("PUT", "POST"))
        route = CustomRoute(
            UPLOAD_PATH + "{token}", receive, methods, auth=True, max_body_bytes=self._max_bytes
        )
        return route, {"token": text}

    async def _receive(self, text: str, token: UploadToken | None, request: RouteRequest) -> RouteResponse:
        """Answer a file: 201, 403 of another caller, 409 of a URL that was used, 410 of an expired one, 507."""
        if token is None:
            return _refused(410, f"This URL has expired. Get a new one from {UPLOAD_TOOL}.")
        if token.owner != owner(request.principal):
            return _refused(403, "This URL belongs to another caller.")
        store, digest = self._store, _digest(text)
        # The claim outlives the token, so no URL takes two files.
        if not await store.put(
            f"upload-claim/{digest}", b"", ttl=URL_LIFETIME + FILE_LIFETIME, only_new=True
        ):
            return _refused(409, f"A file was sent to this URL already. Get a new one from {UPLOAD_TOOL}.")
        try:
            await self._keep(store, token, digest, request)
        except BaseException as error:
            await store.delete(f"upload-claim/{digest}")
            if isinstance(error, StoreFull):
                return _refused(507, "Too many files are stored; try again later, or send a smaller file.")
            raise
        size = len(request.body)
        return RouteResponse({"size": size, "expiresIn": int(FILE_LIFETIME)}, 201, _JSON)

    async def _keep(self, store: Store, token: UploadToken, digest: str, request: RouteRequest) -> None:
        body = request.body
        slots = await self._quota(store).acquire(
            quota_owner(request.principal, request.scope), FILE_LIFETIME, len(body)
        )
        pieces = range(-(-len(body) // PIECE_BYTES))
        try:
            for number in pieces:
                piece = body[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
                await store.put(_piece(digest, number), piece, ttl=FILE_LIFETIME)
            record = StoredUpload(token.name, token.mime_type, len(body))
            await store.put(f"upload/{token.owner}/{digest}", _records.encode(record), ttl=FILE_LIFETIME)
        except BaseException:
            for number in pieces:
                await store.delete(_piece(digest, number))
            await release(store, slots)
            raise

    def _quota(self, store: Store) -> Quota:
        largest = 1 + self._max_bytes // BYTES_PER_SLOT
        total = FILES * largest
        if isinstance(store, BoundedStore):  # the rest of its space is for sessions and tasks
            total = max(1, min(total, store.max_bytes // 2 // BYTES_PER_SLOT, store.max_entries // 4))
        return Quota(store, "upload", own=min(total, FILES_PER_OWNER * largest), total=total)

    @property
    def _store(self) -> Store:
        return self._dispatcher.lifecycle.page_store

    async def load(self, text: str, principal: Principal | None, loaded: dict[str, Upload]) -> Upload:
        """Return the file that an argument means. ``loaded`` are the stored files of the call so far, by token.

        Raises:
            ToolError: it is neither base64 nor a URL of this caller, or the file is too large.
        """
        head, found, tail = text.rpartition(UPLOAD_PATH)
        if found and head.lower().startswith(("http://", "https://")):
            # A call may name one file many times: it is in memory once.
            if tail not in loaded:
                loaded[tail] = await self._load(tail, principal)
            return loaded[tail]
        return self._inline(text)

    async def _load(self, token: str, principal: Principal | None) -> Upload:
        store, digest = self._store, _digest(token)
        data = await store.get(f"upload/{owner(principal)}/{digest}")
        if data is None:
            raise ToolError(_UNKNOWN)
        record = _records.decode(data)
        pieces = range(-(-record.size // PIECE_BYTES))
        body = b"".join([await store.get(_piece(digest, number)) or b"" for number in pieces])
        if len(body) != record.size:  # it expired while it was read
            raise ToolError(_UNKNOWN)
        return Upload(body, name=record.name, mime_type=record.mime_type)

    def _inline(self, text: str) -> Upload:
        options: dict[str, str] = {}
        found = _DATA_URL.match(text)
        mime_type, encoded = "application/octet-stream", text
        if found is not None:
            kind, *others = found[1].split(";")
            mime_type, encoded = kind.lower() or "text/plain", text[found.end() :]
            for other in others:
                key, _, value = other.partition("=")
                options[key] = value
            if "base64" not in options:
                return self._checked(_unquoted(encoded), options, mime_type)
        if len(encoded) * 3 // 4 > self._max_bytes + 3:
            raise self._too_large()
        try:
            # Models break lines, leave out the padding, and some write the alphabet of URLs.
            plain = "".join(encoded.split()).rstrip("=").replace("-", "+").replace("_", "/")
            data = b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        except ValueError:
            raise ToolError(
                "it is not the base64 of a file, no data: URL, and no URL of the tool " + UPLOAD_TOOL
            ) from None
        return self._checked(data, options, mime_type)

    def _checked(self, data: bytes, options: Mapping[str, str], mime_type: str) -> Upload:
        if len(data) > self._max_bytes:
            raise self._too_large()
        name = _unquoted(options.get("name", "file")).decode(errors="replace")
        return Upload(data, name=_plain_name(name), mime_type=mime_type)

    def _too_large(self) -> ToolError:
        return ToolError(f"the file is larger than {self._max_bytes} bytes")


def with_uploads(signature: Signature) -> Signature | None:
    """Return a signature that loads the parameters annotated `Upload` first; None where it has none."""
    wanted = {one.name: several for one in signature.parameters if (several := _is_upload(one)) is not None}
    if not wanted:
        return None
    own, function, is_async = signature.context_parameter, signature.call, signature.is_async

    async def call(**arguments: Any) -> Any:
        context: Context = arguments[own or CONTEXT]
        if own is None:
            del arguments[CONTEXT]
        dispatcher = context.server.dispatcher
        uploads = dispatcher.uploads or dispatcher.offer_uploads()
        loaded: dict[str, Upload] = {}
        for name, several in wanted.items():
            given: Any = arguments.get(name)
            try:
                if several and given:
                    arguments[name] = [await uploads.load(one, context.principal, loaded) for one in given]
                elif isinstance(given, str):
                    arguments[name] = await uploads.load(given, context.principal, loaded)
            except ToolError as error:
                raise ToolError(f"{name}: {error.message}") from None
        return await (
            function(**arguments) if is_async else context.server.lifecycle.runner.call(function, **arguments)
        )

    return replace(
        signature,
        call=call,
        is_async=True,
        context_parameter=own or CONTEXT,
        parameters=tuple(
            _as_text(one, signature.docstring.parameters.get(one.name, "")) if one.name in wanted else one
            for one in signature.parameters
        ),
    )


def _is_upload(parameter: Field) -> bool | None:
    """Whether a parameter takes several files; None where it takes none."""
    annotation = _bare(parameter.annotation)
    members = typing.get_args(annotation)
    for member in (annotation, *(members if type(None) in members else ())):
        if _bare(member) is Upload:
            return False
        items = typing.get_args(member)
        if typing.get_origin(member) is list and items and _bare(items[0]) is Upload:
            return True
    return None


def _bare(annotation: Any) -> Any:
    """An annotation without the metadata of ``Annotated``."""
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is Annotated else annotation


def _as_text(parameter: Field, words: str) -> Field:
    """A parameter as clients see it; ``words`` is what the docstring says."""
    for one in getattr(parameter.annotation, "__metadata__", ()):
        words = getattr(one, "description", None) or words
    description = f"{words} {_DESCRIPTION}".lstrip()
    if _is_upload(parameter):
        kind: Any = Annotated[list[Annotated[str, _TEXT]], msgspec.Meta(description=description)]
    else:
        kind = Annotated[str, msgspec.Meta(min_length=1, description=description)]
    optional = type(None) in typing.get_args(_bare(parameter.annotation))
    return replace(parameter, annotation=typing.Optional[kind] if optional else kind)  # noqa: UP045


def _refused(status: int, text: str) -> RouteResponse:
    headers = {"cache-control": "no-store"}
    return RouteResponse(f"{text}\n", status, headers | ({"retry-after": "60"} if status == 507 else {}))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _piece(digest: str, number: int) -> str:
    return f"upload-piece-{digest}/{number}"


def _plain_name(name: str) -> str:
    """Return a file name without folders and control characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    plain = "".join(letter for letter in last if letter.isprintable()).strip()
    return "file" if plain in ("", ".", "..") else plain[:MAX_NAME]


def _unquoted(text: str) -> bytes:
    from urllib.parse import unquote_to_bytes  # it takes time to load

    return unquote_to_bytes(text)
