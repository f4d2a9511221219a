"""Sealed tokens open only for the principal and purpose that they were created for."""

import base64
import hashlib
import hmac

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from dovetail.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dovetail.wire.seal import OWN_TOKENS_KEPT, Keys, Seal, bind, digest

SECRET = b"a secret of thirty-two bytes ..."
seal = Seal(Keys(SECRET))


def refused(
    token: str, *, purpose: str = "state", now: float = 0, bound: bytes = b"", by: Seal = seal
) -> None:
    with pytest.raises(ProtocolError) as caught:
        by.open(purpose, token, now=now, bound=bound)  # type: ignore[arg-type]
    assert caught.value.kind == "invalid_request_state"
    assert caught.value.message == "invalid or expired requestState"
    assert caught.value.data is UNSET


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=30))
def test_what_was_sealed_opens(payload: bytes, bound: bytes) -> None:
    token = seal.seal("state", payload, expires=100, bound=bound)
    assert Seal(Keys(SECRET)).open("state", token, now=99, bound=bound) == payload
    for _ in range(2):  # what was made here is known again once; then it is opened like any other
        assert seal.open("state", token, now=99, bound=bound) == payload


def test_a_token_that_was_made_here_is_refused_like_any_other() -> None:
    for wrong in ({"now": 101}, {"purpose": "cursor"}, {"bound": b"another"}):
        token = seal.seal("state", b"the payload", expires=100, bound=b"somebody")
        refused(token, **{"bound": b"somebody", **wrong})  # type: ignore[arg-type]


def test_tokens_that_never_come_back_do_not_gather() -> None:
    mine = Seal(Keys(SECRET))
    first = mine.seal("state", b"the payload", expires=100)
    for _ in range(OWN_TOKENS_KEPT):
        mine.seal("state", b"another", expires=100)
    assert mine.open("state", first, now=99) == b"the payload"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_change_anywhere_is_refused(data: st.DataObject) -> None:
    token = seal.seal("state", b"the payload", expires=100)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda c: c != token[place]))
    refused(token[:place] + other + token[place + 1 :])
    refused(token[:place])
    refused(token + other)


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=60) | st.binary(max_size=60).map(lambda b: "v1." + base64.urlsafe_b64encode(b).decode())
)
def test_any_text_is_refused_the_same_way(token: str) -> None:
    refused(token)
    refused(f"v1.{seal.keys.current.id}.{token}.{token}")


def test_a_token_opens_for_what_it_is_bound_to_alone() -> None:
    token = seal.seal("state", b"x", expires=100, bound=bind("alice", "tools/call", digest({"a": 1})))
    assert seal.open("state", token, now=0, bound=bind("alice", "tools/call", digest({"a": 1}))) == b"x"
    for bound in (
        bind("bob", "tools/call", digest({"a": 1})),
        bind(None, "tools/call", digest({"a": 1})),
        bind("alice", "prompts/get", digest({"a": 1})),
        bind("alice", "tools/call", digest({"a": 2})),
        b"",
    ):
        refused(token, bound=bound)


def test_a_token_of_one_purpose_does_not_open_as_another() -> None:
    token = seal.seal("cursor", b"5", expires=100)
    assert seal.open("cursor", token, now=0) == b"5"
    refused(token, purpose="state")
    refused(token, purpose="session")


def test_a_token_expires() -> None:
    token = seal.seal("state", b"x", expires=100)
    assert seal.open("state", token, now=100) == b"x"
    refused(token, now=100.5)
    assert seal.open("state", seal.seal("state", b"x", expires=float("inf")), now=2**53) == b"x"
    refused(seal.seal("state", b"x", expires=-5), now=1)


def test_older_keys_still_open_and_forgotten_ones_do_not() -> None:
    token = seal.seal("state", b"x", expires=100)
    rotated = Seal(Keys(b"another secret, younger", SECRET))
    assert rotated.open("state", token, now=0) == b"x"
    refused(rotated.seal("state", b"x", expires=100))
    refused(token, by=Seal(Keys(b"another secret, younger")))


def test_the_payload_cannot_be_read_and_two_tokens_never_look_alike() -> None:
    tokens = {seal.seal("state", b"the answer is a secret" * 4, expires=100) for _ in range(20)}
    assert len(tokens) == 20
    for token in tokens:
        body = base64.urlsafe_b64decode(token.split(".")[2] + "==")
        assert b"secret" not in body


def test_the_token_is_what_the_design_says() -> None:
    token = seal.seal("state", b"payload", expires=100, bound=b"bound")
    version, key_id, text = token.split(".")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    body, tag = data[:-32], data[-32:]
    derive = lambda label: hmac.digest(SECRET, b"dovetail seal v2 " + label, "sha256")  # noqa: E731
    assert (version, key_id) == ("v2", derive(b"name")[:6].hex())
    assert int.from_bytes(body[16:24], "big") == 100
    stream = hashlib.shake_256(derive(b"encrypt state") + body[:16]).digest(7)
    assert bytes(a ^ b for a, b in zip(body[24:], stream, strict=True)) == b"payload"
    authenticated = (5).to_bytes(8, "big") + b"bound" + body
    assert tag == hashlib.blake2b(authenticated, key=derive(b"authenticate state"), digest_size=32).digest()


def test_there_is_one_spelling_of_a_token() -> None:
    token = seal.seal("state", b"1", expires=100)
    body = token.split(".")[2]
    refused(token.replace(body, body + "=" * (-len(body) % 4)) if len(body) % 4 else token + "=")
    refused(token + "\n")
    refused(" " + token)


def test_tokens_beyond_the_limit_are_neither_made_nor_read() -> None:
    small = Seal(Keys(SECRET), limit=150)
    with pytest.raises(LocalProtocolError):
        small.seal("state", b"x" * 200, expires=100)
    refused(seal.seal("state", b"x" * 200, expires=100), by=small)


def test_weak_keys_are_refused_and_secrets_are_not_shown() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        Keys("short")
    assert "secret" not in repr(Keys(SECRET)) + repr(Keys(SECRET).current)
    assert Keys.random().current.id != Keys.random().current.id


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a", "b"), ("ab", "")), (("a", None), ("a", "")), ((b"1:", b""), (b"", b"1:")), (("a",), ("a", None))],
)
def test_different_parts_bind_differently(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert bind(*one) != bind(*other)


def test_a_digest_does_not_depend_on_order_and_white_space() -> None:
    same = digest({"a": 1, "b": {"c": [1, 2], "d": None}})
    assert digest(msgspec.Raw(b' { "b" : {"d":null,"c":[1, 2]},\n"a":1}')) == same
    assert digest(b'{"a":1,"b":{"c":[1,2],"d":null}}') == same
    for other in (
        {"a": 1, "b": {"c": [2, 1], "d": None}},
        {"a": "1", "b": {"c": [1, 2], "d": None}},
        [],
        None,
    ):
        assert digest(other) != same
    assert digest(UNSET) == digest({})


def test_a_digest_of_what_is_no_json_is_the_peers_fault() -> None:
    for raw in (b"{", b'{"a":1e999}', b"[" * 100_000):
        with pytest.raises(RemoteProtocolError) as caught:
            digest(raw)
        assert caught.value.kind == "invalid_params"


def test_servers_that_share_keys_open_none_of_each_others_tokens() -> None:
    one, other = Seal(Keys(SECRET), owner="one"), Seal(Keys(SECRET), owner="other")
    token = one.seal("session", b"x", expires=100)
    assert one.open("session", token, now=0) == b"x"
    for stranger in (other, seal):
        with pytest.raises(ProtocolError):
            stranger.open("session", token, now=0)
