"""Detection of duplicate JSON keys.

Parsers disagree on which one counts, so a proxy and a server could read different messages.

Counting keys while decoding would be slow, but there is a cheap proof that no key is repeated. The shortest
encoding of the decoded members has a known length. A message of exactly that length has no room for another
key. Most messages are encoded that way; `frames.decode` re-encodes small ones to measure it. Python's json
writes a space after each comma and colon, so the additional length must equal the number of those spaces.
Other messages (other white space, escapes in keys) are scanned key by key.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

from ..lazy_pattern import lazy_pattern

decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_key = msgspec.json.Decoder(str).decode
_KEY: Final = lazy_pattern(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def first_duplicate(data: bytes | Raw) -> str | None:
    """Return the first duplicate key in the outermost object of ``data``, else None.

    ``data`` must be valid JSON; values other than objects have no keys.
    """
    try:
        members = decode_members(data)
    except msgspec.ValidationError:
        return None
    return _walk(msgspec.json.format(bytes(data), indent=-1), members)


def _walk(text: bytes, members: dict[str, Raw]) -> str | None:
    """Scan the keys of an object without white space; ``members`` are the decoded ones."""
    seen: set[str] = set()
    position = 1
    while len(seen) < len(members) or text[position : position + 1] == b'"':
        literal = _KEY.match(text, position)
        assert literal is not None, "the text must be an object without white space"
        key = _decode_key(literal[0])
        value = msgspec.json.format(bytes(members[key]), indent=-1)
        position = literal.end() + 1
        end = position + len(value)
        # A number may be a prefix of another one, so the next character is compared too.
        if key in seen or text[position:end] != value or text[end] not in b",}":
            return key  # a later duplicate replaced its value
        seen.add(key)
        position = end + 1
    return None
