"""What a client says of itself is judged once: the second time nothing is decided differently."""

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest

from dovetail.core.admit import Admission
from dovetail.core.channel import Call, Rejection
from dovetail.core.client_metadata_cache import (
    MAX_CACHED,
    MAX_CACHED_BYTES,
    MAX_CACHED_DEPTH,
    ClientMetadataCache,
    FrozenDict,
    ValidatedMetadata,
)
from dovetail.errors import RemoteProtocolError
from dovetail.model import ClientCapabilities, ServerCapabilities
from dovetail.wire.dialects import DIALECTS
from dovetail.wire.frames import decode
from tests.core.messages import CAPABILITIES, CLIENT_INFO, LOG_LEVEL, VERSION, headers, server_admission

USUAL: dict[str, Any] = {
    VERSION: "2026-07-28",
    CAPABILITIES: {"elicitation": {"form": {}}},
    CLIENT_INFO: {"name": "peer", "version": "1"},
}
PARAMS: dict[str, Any] = {"name": "add", "arguments": {"a": 1}, "_meta": USUAL}


def message(params: Any = PARAMS, method: str = "tools/call", **more: Any) -> bytes:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **more}
    return json.dumps(body, separators=(",", ":")).encode()


def changed(**members: Any) -> bytes:
    return message({**PARAMS, "_meta": {**USUAL, **members}})


def told(admission: Admission, data: bytes, said: Any) -> Any:
    """Everything that is decided about a message, in values that can be compared."""
    try:
        found = admission.admit(decode(data), None, headers=said)
    except RemoteProtocolError as error:
        return error.kind, error.message
    if isinstance(found, Call):
        params = type(found.params), msgspec.json.encode(found.params)
        return (*params, found.id, found.revision, found.meta, found.capabilities, found.client_info)
    assert isinstance(found, Rejection)
    return found.status, found.body


def warmed() -> Admission:
    admission = server_admission()
    for _ in range(2):
        assert isinstance(
            admission.admit(decode(message()), None, headers=headers("tools/call", "add")), Call
        )
    return admission


CASES: list[bytes] = [
    message(),
    changed(**{VERSION: "2025-11-25"}),
    changed(**{VERSION: "2099-01-01"}),
    changed(**{VERSION: 5}),
    changed(**{VERSION: ["2026-07-28"]}),
    changed(**{CAPABILITIES: []}),
    changed(**{CAPABILITIES: None}),
    changed(**{CAPABILITIES: {"sampling": {}}}),
    changed(**{CLIENT_INFO: "peer"}),
    changed(**{CLIENT_INFO: {"name": "another"}}),
    changed(**{LOG_LEVEL: "loud"}),
    changed(**{LOG_LEVEL: "info"}),
    changed(progressToken=1.5),
    changed(progressToken=3),
    changed(**{"com.example/trace": "a"}),
    message({"name": "add", "arguments": {"a": 1}}),
    message({"name": "add", "_meta": USUAL}),
    message({"arguments": {}, "_meta": USUAL}),
    message({"name": 5, "_meta": USUAL}),
    message({"name": None, "arguments": None, "_meta": USUAL}),
    message({**PARAMS, "arguments": None}),
    message({**PARAMS, "arguments": [1]}),
    message({**PARAMS, "progressToken": 9}),
    message({**PARAMS, "unknown": 9}),
    message({**PARAMS, "task": {"ttl": 5}}),
    message({**PARAMS, "requestState": "s", "inputResponses": {"a": {"action": "accept"}}}),
    message({**PARAMS, "requestState": 5, "inputResponses": {}}),
    message({**PARAMS, "requestState": "s", "inputResponses": []}),
    message({**PARAMS, "requestState": "s", "inputResponses": None}),
    message({**PARAMS, "requestState": "s"}),
    message({**PARAMS, "requestState": "s", "other": 1}),
    message({**PARAMS, "_meta": None}),
    message({**PARAMS, "_meta": []}),
    message(method="tools/list"),
    message(method="no/such"),
    message().replace(b'"name":"add"', b'"name":"add","name":"sub"'),
    message().replace(b'"_meta":', b'"_meta":{},"_meta":'),
    message().replace(b'"params":', b'"params":{},"params":'),
    message().replace(b'"a":1', b'"a":1,"a":2'),
    message().replace(b":", b": "),
    message().replace(b"add", b"\\u0061dd"),
    message().replace(b"peer", "pär".encode()),
    message().replace(b"peer", b"p\xff"),
    message().replace(b"peer", b"\\ud800"),
]
SAID = {
    "the same": headers("tools/call", "add"),
    "no headers": None,
    "another method": headers("tools/list", "add"),
    "another name": headers("tools/call", "sub"),
    "no name": headers("tools/call"),
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
@pytest.mark.parametrize("data", CASES, ids=range(len(CASES)))
def test_earlier_outcomes_of_a_host_do_not_affect_later_attempts(data: bytes, said: Any) -> None:
    new, known = server_admission(), warmed()
    first = told(new, data, said)
    assert told(known, data, said) == first
    assert told(known, data, said) == first


def test_another_version_header_is_refused_after_the_right_one() -> None:
    wrong = headers("tools/call", "add")
    wrong.version = "2025-11-25"
    found = warmed().admit(decode(message()), None, headers=wrong)
    assert isinstance(found, Rejection)
    assert b"-32020" in found.body


def test_what_is_served_is_asked_each_time() -> None:
    admission = warmed()
    admission.set_capabilities(ServerCapabilities())
    assert isinstance(
        admission.admit(decode(message()), None, headers=headers("tools/call", "add")), Rejection
    )


def call(admission: Admission, data: bytes) -> Call:
    found = admission.admit(decode(data), None)
    assert isinstance(found, Call)
    return found


def test_shared_objects_cannot_be_changed() -> None:
    admission = warmed()
    shared = call(admission, message())
    assert call(admission, message()).meta is shared.meta
    inner: Any = (shared.meta, shared.capabilities, shared.client_info, shared.capabilities["elicitation"])
    for one in inner:
        for change in (
            lambda one: one.update(a=1),
            lambda one: one.setdefault("a", 1),
            lambda one: one.__setitem__("a", 1),
            lambda one: one.__delitem__("name"),
            lambda one: one.__ior__({"a": 1}),
            lambda one: one.pop("name"),
            lambda one: one.popitem(),
            lambda one: one.clear(),
        ):
            with pytest.raises(TypeError, match="read-only"):
                change(one)
        for own in (copy.copy(one), copy.deepcopy(one), one.copy(), pickle.loads(pickle.dumps(one))):
            own["a"] = 1
            assert type(own) is dict
    assert shared.meta == USUAL
    assert shared.capabilities.elicitation_form


def kept(*metas: Any) -> ClientMetadataCache:
    """What is kept of these, each said once."""
    found, codec = ClientMetadataCache(), server_admission().newest
    for meta in metas:
        introduction = ValidatedMetadata(
            codec, meta, ClientCapabilities(meta[CAPABILITIES]), meta.get(CLIENT_INFO)
        )
        found.store(json.dumps(meta).encode(), introduction)
    return found


@pytest.mark.parametrize("more", [{"progressToken": 1}, {"traceparent": "00-1"}, {LOG_LEVEL: "info"}])
def test_what_changes_from_call_to_call_is_not_kept(more: dict[str, Any]) -> None:
    admission = server_admission()
    assert call(admission, changed(**more)).meta is not call(admission, changed(**more)).meta


def test_a_list_could_be_changed_and_is_not_kept() -> None:
    assert not kept({**USUAL, CAPABILITIES: {"experimental": {"x": [1]}}})


def test_what_is_kept_is_bounded_in_number_bytes_and_depth() -> None:
    many = [{**USUAL, CLIENT_INFO: {"name": f"peer {number}"}} for number in range(MAX_CACHED + 5)]
    assert len(kept(*many)) == 5
    assert not kept({**USUAL, CLIENT_INFO: {"name": "x" * MAX_CACHED_BYTES}})
    deep: Any = {}
    for _ in range(MAX_CACHED_DEPTH + 1):
        deep = {"x": deep}
    assert not kept({**USUAL, CAPABILITIES: deep})


def test_what_an_alias_put_into_it_is_not_kept_for_others() -> None:
    found, codec = ClientMetadataCache(), server_admission().newest
    found.store(
        json.dumps(USUAL).encode(), ValidatedMetadata(codec, {**USUAL, "more": 1}, ClientCapabilities(), None)
    )
    assert not found


def test_messages_that_are_long_are_not_taken_apart() -> None:
    long = decode(message({**PARAMS, "arguments": {"a": "x" * 5000}}))
    assert long.members is None
    spaced = decode(message().replace(b":", b": "))
    assert spaced.members is None


def test_peers_cannot_set_the_metadata_of_the_transport() -> None:
    assert decode(message({}, members={"name": 1})).members is None


def test_no_alias_of_a_call_hides_inside_its_members() -> None:
    """A call that has just the members it should have is not searched for aliases."""
    for dialect in DIALECTS.values():
        for alias in dialect.field_in.get("tools/call", ()):
            assert alias.needles in ((), (b'"progressToken"',))


def test_a_fixed_object_is_written_as_any_other() -> None:
    assert json.dumps(FrozenDict(a=FrozenDict())) == '{"a": {}}'
