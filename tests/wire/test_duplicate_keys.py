"""A key that comes twice is refused, however it is spelt; everything else passes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import ProtocolError
from dovetail.wire.duplicate_keys import first_duplicate
from dovetail.wire.frames import decode, decode_entry, split_batch

REQUEST = '"jsonrpc":"2.0","id":1,"method":"tools/call"'

REFUSED = [
    '{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}',
    '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
    '{"jsonrpc":"2.0","id":1,"method":"ping","m\\u0065thod":"tools/list"}',
    '{"jsonrpc":"2.0","id":1,"m\\u0065thod":"tools/list","method":"ping"}',
    '{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":1}',
    '{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}',
    '{"jsonrpc":"2.0","method":"x","params":{},"params":{"a":1}}',
    '{"jsonrpc": "2.0", "id": 1, "id": 1, "method": "ping"}',
    '{"jsonrpc":"2.0","id":1,"result":{},"result":{"a":1}}',
    '{"jsonrpc":"2.0","id":"a","id":"b","result":{}}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"error":{"code":2,"message":""}}',
    '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""},"error":{"code":2,"message":""}}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"id":null}',
    f'{{{REQUEST},"params":{{"name":"a","name":"b"}}}}',
    f'{{{REQUEST},"params":{{"name":"a","name":"a"}}}}',
    f'{{{REQUEST},"params":{{"name":"a","n\\u0061me":"b"}}}}',
    f'{{{REQUEST},"params":{{"n\\u0061me":"a","name":"b"}}}}',
    f'{{{REQUEST},"params":{{"name":"a","arguments":{{}},"arguments":{{"a":1}}}}}}',
    f'{{{REQUEST},"params":{{ "name" : "a" , "name" : "a" }}}}',
    f'{{{REQUEST},"params":{{"\\u00e9":1,"é":1}}}}',
    # Spaces in a key, a value or an id must not pass for those between the members.
    f'{{{REQUEST},"params":{{"a":1,"a":1,"      ":1}}}}',
    f'{{{REQUEST},"params":{{"a":"      ","a":"      "}}}}',
    f'{{{REQUEST},"params":{{"a":"x","a":"      "}}}}',
    '{"jsonrpc":"2.0","id":"       ","id":"       ","method":"ping"}',
    '{"jsonrpc":"2.0","id":"            ","x":1,"x":1,"method":"ping"}',
    '{"jsonrpc":"2.0","id":1,"x":1,"x":1,"method":"p            g"}',
    '{"jsonrpc":"2.0","id":1,"x":"            ","x":1,"method":"ping"}',
]

TAKEN = [
    '{"jsonrpc":"2.0","id":1,"method":"ping"}',
    '{ "jsonrpc" : "2.0" ,\n\t"id" : 1 , "method" : "ping" }',
    '{"j\\u0073onrpc":"2.0","id":1,"method":"ping"}',
    '{"jsonrpc":"2.0","id":"\\u00e9","method":"ping","params":{"a\\"b":1,"a":2}}',
    f'{{{REQUEST},"params":{{"name":"name","arguments":{{"a":1,"a":2}}}}}}',
    f'{{{REQUEST},"params":{{}}}}',
    f'{{{REQUEST},"params":{{ }}}}',
    f'{{{REQUEST},"params":{{"é":"\\u00e9","e":{{"e":1}}}}}}',
    '{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}',
    '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""},"x":1}',
]


@pytest.mark.parametrize("message", REFUSED)
def test_a_key_that_comes_twice_is_an_invalid_request(message: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(message.encode())
    assert caught.value.kind == "invalid_request"
    assert "duplicate key" in caught.value.message


@pytest.mark.parametrize("message", TAKEN)
def test_other_messages_pass_however_they_are_written(message: str) -> None:
    assert decode(message.encode()).id is not None


def test_a_member_of_a_batch_is_refused_alone() -> None:
    good, bad = map(decode_entry, split_batch(f"[{TAKEN[0]},{REFUSED[0]}]".encode(), 2))
    assert not isinstance(good, ProtocolError)
    assert isinstance(bad, ProtocolError)


keys = st.text(max_size=4)
values = st.one_of(
    st.integers(), st.text(max_size=8), st.lists(st.integers(), max_size=3), st.just({"a": {}})
)


@given(pairs=st.lists(st.tuples(keys, values), max_size=6), spaces=st.booleans(), escapes=st.booleans())
def test_it_sees_what_a_list_of_pairs_shows(
    pairs: list[tuple[str, object]], spaces: bool, escapes: bool
) -> None:
    separators = (" , ", "\n: ") if spaces else (",", ":")
    members = [
        f"{json.dumps(key, ensure_ascii=escapes)}{separators[1]}"
        f"{json.dumps(value, ensure_ascii=escapes, separators=separators)}"
        for key, value in pairs
    ]
    try:
        text = ("{" + separators[0].join(members) + "}").encode()
    except UnicodeEncodeError:
        return  # a lone surrogate is refused long before
    if b"\\ud" in text:
        return
    _compare([key for key, _ in pairs], text)


def test_a_number_that_begins_with_the_one_that_won_is_another_value() -> None:
    assert first_duplicate(b'{"a":100,"a":1}') == "a"
    assert first_duplicate(b'{"a":1.5,"b":2,"a":1}') == "a"


spaced = st.text(alphabet=" ab", max_size=8)


@given(
    pairs=st.lists(st.tuples(spaced, st.one_of(spaced, st.integers())), max_size=5),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,  ", ": ")]),
    id=st.one_of(spaced, st.integers(0, 9)),
)
def test_spaces_between_members_hide_nothing(
    pairs: list[tuple[str, object]], separators: tuple[str, str], id: object
) -> None:
    comma, colon = separators
    members = [f"{json.dumps(key)}{colon}{json.dumps(value)}" for key, value in pairs]
    params = "{" + comma.join(members) + "}"
    outer = [
        f'"jsonrpc"{colon}"2.0"',
        f'"id"{colon}{json.dumps(id)}',
        f'"method"{colon}"x"',
        f'"params"{colon}{params}',
    ]
    text = ("{" + comma.join(outer) + "}").encode()
    names = [key for key, _ in pairs]
    try:
        decode(text)
    except ProtocolError:
        assert len(set(names)) < len(names)
    else:
        assert len(set(names)) == len(names)
    doubled = ("{" + comma.join([*outer, outer[1]]) + "}").encode()
    with pytest.raises(ProtocolError):
        decode(doubled)


def _compare(names: list[str], text: bytes) -> None:
    found = first_duplicate(text)
    assert (found is not None) is (len(set(names)) < len(names))
    assert found is None or names.count(found) > 1
