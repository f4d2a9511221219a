"""Keys that come twice. Parsers disagree which one counts, so whoever reads a message after us could read another.

Nobody counts keys while decoding, but there is a cheap proof that none came twice: the shortest text that decodes to
these members has a known length, and a text of just that length has no room for one more. Usual messages are written
that way, and `frames.decode` measures it by writing a small one again. Python's json writes a space after each comma
and colon: whatever a text has more than the shortest one must be as many spaces. For all others (other spaces, escapes
in keys) the text is walked from key to key.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_key = msgspec.json.Decoder(str).decode
_KEY: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def twice(data: bytes | Raw) -> str | None:
    """The first key that comes a second time in the outermost object of ``data``; None when there is none.

    ``data`` must be valid JSON; what is no object has no keys.
    """
    try:
        members = decode_members(data)
    except msgspec.ValidationError:
        return None
    return _walk(msgspec.json.format(bytes(data), indent=-1), members)


def _walk(text: bytes, members: dict[str, Raw]) -> str | None:
    """Go from key to key of an object without spaces; ``members`` are those that won."""
    seen: set[str] = set()
    position = 1
    while len(seen) < len(members) or text[position : position + 1] == b'"':
        literal = _KEY.match(text, position)
        assert literal is not None, "the text is no object without spaces"
        key = _decode_key(literal[0])
        value = msgspec.json.format(bytes(members[key]), indent=-1)
        position = literal.end() + 1
        end = position + len(value)
        # A number may begin with another one, so what comes behind the value counts too.
        if key in seen or text[position:end] != value or text[end] not in b",}":
            return key  # its value lost against a later one
        seen.add(key)
        position = end + 1
    return None
