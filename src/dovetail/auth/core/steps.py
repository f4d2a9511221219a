"""Steps of authorization flows.

A flow is a generator: it yields a step, receives the result of the step, and returns the result of the flow.
It has no I/O, clock or random numbers, so a test is a function call. `auth.client.flow_runner` executes the
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from .auth_errors import AuthError, Fault

T = TypeVar("T")
M = TypeVar("M")


class Quiet(Struct, frozen=True):
    """A struct with secrets: its repr is hidden."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Ask(Quiet, frozen=True, kw_only=True):
    """Send this request. The result is an `Answer`."""

    what: str
    """The name of the request in messages."""
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    configured: bool = False
    """The user configured the URL, so it may be in a private network."""
    fault: Fault = "authorization server"
    """The party at fault if no response arrives."""


class Answer(Quiet, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def read(self, kind: type[M], what: str, fault: Fault) -> M:
        """Decode the body as ``kind``.

        Raises:
            AuthError: it is not JSON, or a member has another type.
        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.ValidationError as error:
            raise AuthError(f"{what} is not valid: {error}", fault=fault) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise AuthError(f"{what} is not JSON", fault=fault) from None


class Listen(Struct, frozen=True):
    """Wait for a browser redirect. The result is the redirect URI, ``known`` if possible."""

    known: str | None = None


class Browse(Quiet, frozen=True):
    """Let the user visit ``url``. The result is the URL of the redirect."""

    url: str
    redirect_uri: str
    state: str


class Show(Struct, frozen=True):
    """Show the user a page and a code to enter."""

    verification_uri: str
    user_code: str
    complete: str | None
    """A URL that contains the code."""
    expires_in: float


class Pause(Struct, frozen=True):
    seconds: float


class Load(Struct, frozen=True):
    """Read the store entry ``key``. The result is its value or None."""

    key: tuple[str, ...]


class Save(Quiet, frozen=True):
    """Write ``value`` to the store; None removes the entry."""

    key: tuple[str, ...]
    value: bytes | None


class Supply(Struct, frozen=True):
    """Call ``source``, which returns a token from elsewhere."""

    source: Callable[[], Any]
    what: str


class Progress(Struct, frozen=True):
    """A completed step of a flow, for progress messages."""

    step: str
    detail: str


Step: TypeAlias = Ask | Listen | Browse | Show | Pause | Load | Save | Supply | Progress
Flow: TypeAlias = Generator[Step, Any, T]


class Prover(Protocol):
    """The holder of the key that tokens are bound to (RFC 9449)."""

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """Return the ``DPoP`` header for one request."""
        ...

    def take_nonce(self, url: str, nonce: str) -> None:
        """Use this nonce for requests to the origin of ``url``."""
        ...

    @property
    def thumbprint(self) -> str:
        """What tokens are bound to."""
        ...


class Sources(Protocol):
    """The sources of time, random numbers and keys."""

    @property
    def prover(self) -> Prover | None:
        """The holder of the key for bound tokens; None for plain bearer tokens."""
        ...

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def random(self) -> str:
        """Return 43 random URL-safe characters."""
        ...


def ask(request: Ask) -> Flow[Answer]:
    answer: Answer = yield request
    return answer


def post(
    what: str, url: str, form: Mapping[str, str], headers: Mapping[str, str], *, configured: bool = False
) -> Ask:
    """Return a POST request with a form. Its values are secrets."""
    more = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    body = urlencode(form).encode()
    return Ask(
        what=what, url=url, method="POST", headers={**more, **headers}, body=body, configured=configured
    )


def load(key: tuple[str, ...], kind: type[M]) -> Flow[M | None]:
    """Read a store entry. An unreadable one counts as missing."""
    data: bytes | None = yield Load(key)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def save(key: tuple[str, ...], value: Struct | None) -> Flow[None]:
    yield Save(key, None if value is None else msgspec.json.encode(value))
