"""Constructors of the public API refuse an argument of the wrong type, and name it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
from msgspec import structs

from dovetail import Client, Server
from dovetail.auth import (
    ApiKeys,
    ClientCredentials,
    DeviceCode,
    IdentityAssertion,
    IntrospectionVerifier,
    JwtVerifier,
    KeyringStore,
    OAuth,
    OAuthProxy,
    OidcProxy,
    StaticTokens,
    TokenExchange,
    TokenStore,
    WorkloadIdentity,
)
from dovetail.client import ResponseCache
from dovetail.client.client_config import ClientOptions
from dovetail.errors import RegistrationError
from dovetail.extensions import App, Events, Idempotency, ServerCard, Tasks
from dovetail.middleware import (
    Audit,
    Caching,
    CircuitBreaker,
    ConcurrencyLimit,
    Logging,
    Policy,
    RateLimit,
    ResponseLimit,
    Retry,
    Timeout,
    Timing,
)
from dovetail.settings import HttpOptions, Limits, Reconnect, TaskOptions, Timeouts
from dovetail.stores import MemoryStore, RedisStore, SqliteStore

URL: Final = "https://issuer.example.com"
REQUIRED: Final[Mapping[Callable[..., Any], Mapping[str, Any]]] = {
    Server: {"name": "shop"},
    Client: {"target": "http://127.0.0.1:1/mcp"},
    Audit: {"path": "audit.jsonl"},
    Caching: {"ttl": 5},
    CircuitBreaker: {},
    ConcurrencyLimit: {"total": 5},
    Logging: {},
    Policy: {},
    RateLimit: {"total": "5/s"},
    ResponseLimit: {"max_bytes": 5000},
    Retry: {},
    Timeout: {"seconds": 5},
    Timing: {},
    MemoryStore: {},
    RedisStore: {"url": "redis://127.0.0.1"},
    SqliteStore: {"path": "state.db"},
    App: {},
    Events: {},
    Idempotency: {},
    ServerCard: {"name": "com.example/shop", "url": f"{URL}/mcp"},
    Tasks: {},
    ResponseCache: {},
    HttpOptions: {},
    Limits: {},
    Reconnect: {},
    TaskOptions: {},
    Timeouts: {},
    ApiKeys: {"keys": {}},
    StaticTokens: {"tokens": {}},
    JwtVerifier: {"issuer": URL, "audience": URL},
    IntrospectionVerifier: {"endpoint": URL, "client_id": "a", "client_secret": "b", "audience": URL},
    OAuth: {},
    ClientCredentials: {"client_id": "a", "client_secret": "b"},
    DeviceCode: {},
    IdentityAssertion: {
        "client_id": "a", "idp_token_endpoint": URL, "idp_client_id": "b", "idp_id_token": "c",
    },
    WorkloadIdentity: {"token": "a"},
    TokenExchange: {"client_id": "a", "issuer": URL},
    TokenStore: {},
    KeyringStore: {"backend": object()},
    OAuthProxy: {"authorize": URL, "token": URL, "client_id": "a", "audience": f"{URL}/mcp"},
    OidcProxy: {"config_url": URL, "client_id": "a", "audience": f"{URL}/mcp"},
}  # fmt: skip
"""The constructors, with the arguments that each needs."""
ANYTHING: Final = {
    (Server, "auth"), (Client, "target"), (Client, "auth"), (Client, "ssl"), (Client, "http"),
    (KeyringStore, "backend"), (HttpOptions, "auth"),
}  # fmt: skip
"""Arguments whose type is open: what they are is decided by their methods."""


class Wrong:
    """A value that no argument accepts."""


def _arguments(constructor: Callable[..., Any]) -> Iterator[str]:
    if constructor is Client:
        yield from ("target", *ClientOptions.__annotations__)
        return
    for name, parameter in inspect.signature(constructor).parameters.items():
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            yield name


CASES: Final = [
    (constructor, name)
    for constructor in REQUIRED
    for name in _arguments(constructor)
    if (constructor, name) not in ANYTHING
]


@pytest.mark.parametrize(
    ("constructor", "name"), CASES, ids=[f"{constructor.__name__}-{name}" for constructor, name in CASES]
)
def test_an_argument_of_the_wrong_type_is_refused_by_name(constructor: Callable[..., Any], name: str) -> None:
    with pytest.raises((TypeError, ValueError, RegistrationError)) as caught:
        constructor(**{**REQUIRED[constructor], name: Wrong()})
    assert name in str(caught.value)


TEXT_FOR: Final = [
    (ConcurrencyLimit, "per_tool"),
    (Timeout, "seconds"),
    (Retry, "attempts"),
    (MemoryStore, "max_bytes"),
    (Server, "icons"),
    (Server, "middleware"),
    (Client, "middleware"),
    (Policy, "disabled"),
    (Caching, "tools"),
    (HttpOptions, "allowed_hosts"),
    (App, "permissions"),
    (JwtVerifier, "algorithms"),
]


@pytest.mark.parametrize(
    ("constructor", "name"),
    TEXT_FOR,
    ids=[f"{constructor.__name__}-{name}" for constructor, name in TEXT_FOR],
)
def test_a_string_is_neither_a_number_nor_a_list(constructor: Callable[..., Any], name: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        constructor(**{**REQUIRED[constructor], name: "x"})
    assert name in str(caught.value)


@pytest.mark.parametrize("constructor", REQUIRED, ids=lambda constructor: constructor.__name__)
def test_the_required_arguments_are_enough(
    constructor: Callable[..., Any], tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = {"client_secret": "a secret of the provider"} if "Proxy" in constructor.__name__ else {}
    constructor(**REQUIRED[constructor], **secret)


def test_the_value_of_a_secret_is_not_shown() -> None:
    with pytest.raises(TypeError) as caught:
        OAuth(client_secret=b"hush")  # pyright: ignore[reportArgumentType]
    assert "client_secret" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_true_is_not_a_number() -> None:
    with pytest.raises(TypeError, match="per_tool is a whole number, or None, not True"):
        ConcurrencyLimit(per_tool=True)


def test_lists_of_strings_may_be_lists() -> None:
    options = HttpOptions(allowed_hosts=["a", "b"])  # pyright: ignore[reportArgumentType]
    assert structs.asdict(options)["allowed_hosts"] == ["a", "b"]
