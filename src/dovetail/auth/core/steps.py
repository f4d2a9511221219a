"""What an authorization flow asks of its surroundings, one step at a time.

A flow is a generator: it yields a step, is sent what became of it, and returns what it was started for. It does no
I/O, has no clock and no dice of its own, so a test is a function call. `auth.client.driving` carries the steps out.
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
    """Holds secrets, so that it shows nothing of itself."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Ask(Quiet, frozen=True, kw_only=True):
    """Send this request; be sent the `Answer`."""

    what: str
    """What is asked for, in messages."""
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    configured: bool = False
    """The address is the user's own word, so that it may lie in a private network."""
    fault: Fault = "authorization server"
    """Whose fault it is if there is no answer."""


class Answer(Quiet, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def read(self, kind: type[M], what: str, fault: Fault) -> M:
        """The body as ``kind``.

        Raises:
            AuthError: it is no JSON, or a member has another type.
        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.ValidationError as error:
            raise AuthError(f"{what} is not valid: {error}", fault=fault) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise AuthError(f"{what} is no JSON", fault=fault) from None


class Listen(Struct, frozen=True):
    """Be ready for a browser that comes back; be sent the URI it is to come back to, ``known`` if that is possible."""

    known: str | None = None


class Browse(Quiet, frozen=True):
    """Let the user visit ``url``; be sent the URL that the browser was sent back to."""

    url: str
    redirect_uri: str
    state: str


class Show(Struct, frozen=True):
    """Tell the user to visit a page and type in a code."""

    verification_uri: str
    user_code: str
    complete: str | None
    """A page that knows the code already."""
    expires_in: float


class Pause(Struct, frozen=True):
    seconds: float


class Load(Struct, frozen=True):
    """Be sent what the store has under ``key``, or None."""

    key: tuple[str, ...]


class Save(Quiet, frozen=True):
    """Put ``value`` into the store; None takes out what is there."""

    key: tuple[str, ...]
    value: bytes | None


class Supply(Struct, frozen=True):
    """Be sent what ``source`` returns: a token that the user gets from elsewhere."""

    source: Callable[[], Any]
    what: str


class Progress(Struct, frozen=True):
    """A step of the flow went well; for whoever wants to follow it."""

    step: str
    detail: str


Step: TypeAlias = Ask | Listen | Browse | Show | Pause | Load | Save | Supply | Progress
Flow: TypeAlias = Generator[Step, Any, T]


class Prover(Protocol):
    """Whoever holds the key that tokens are bound to (RFC 9449)."""

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """The ``DPoP`` header for one request."""
        ...

    def take_nonce(self, url: str, nonce: str) -> None:
        """Use this nonce for what is sent to the origin of ``url`` from now on."""
        ...

    @property
    def thumbprint(self) -> str:
        """What tokens are bound to."""
        ...


class Sources(Protocol):
    """Time, chance and keys, from outside."""

    @property
    def prover(self) -> Prover | None:
        """Whoever proves that tokens are ours; None where whoever has them may use them."""
        ...

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def random(self) -> str:
        """43 characters nobody can guess, fit for URLs."""
        ...


def ask(request: Ask) -> Flow[Answer]:
    answer: Answer = yield request
    return answer


def post(
    what: str, url: str, form: Mapping[str, str], headers: Mapping[str, str], *, configured: bool = False
) -> Ask:
    """A form to be sent; its values are secrets."""
    more = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    body = urlencode(form).encode()
    return Ask(
        what=what, url=url, method="POST", headers={**more, **headers}, body=body, configured=configured
    )


def load(key: tuple[str, ...], kind: type[M]) -> Flow[M | None]:
    """What the store has; what cannot be read any more is as good as nothing."""
    data: bytes | None = yield Load(key)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def save(key: tuple[str, ...], value: Struct | None) -> Flow[None]:
    yield Save(key, None if value is None else msgspec.json.encode(value))
