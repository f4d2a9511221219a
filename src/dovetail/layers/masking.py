"""`Masking`: secrets and personal data do not leave the house.

```python
Server("shop", layers=[Masking("secrets", "email", order=r"ORD-\\d{6}")])
```
"""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from ..core.channel import Call, Channel
from ..drivers.layering import Layer, Respond
from .redaction import MASK, PERSONAL, SECRETS

_SETS = {"secrets": SECRETS, "personal": PERSONAL}


class Masking(Layer):
    """Replace what looks like a secret or personal data in results of tools, resources and prompts.

    Name "secrets", "personal", or single patterns of them ("email", "card", "iban", "phone", "jwt", "bearer",
    "api_key", "private_key"); patterns of your own by keyword. Without any: secrets. Only texts are looked at, never
    names of members, so the shape of a result stays.

    Raises:
        ValueError: there is no such pattern.
    """

    def __init__(self, *names: str, **patterns: str | re.Pattern[str]) -> None:
        self._patterns: dict[str, re.Pattern[str]] = {}
        for name in names or (() if patterns else ("secrets",)):
            found = _SETS.get(name) or {
                one: group[one] for group in _SETS.values() for one in group if one == name
            }
            if not found:
                raise ValueError(
                    f"there is no pattern {name!r}: use {', '.join((*_SETS, *SECRETS, *PERSONAL))}"
                )
            self._patterns.update(found)
        self._patterns.update({name: re.compile(pattern) for name, pattern in patterns.items()})
        self.masked: dict[str, int] = {}
        """How often each pattern was found."""

    async def call_tool(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        return self._without(await proceed(call, channel))

    async def read_resource(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        return self._without(await proceed(call, channel))

    async def get_prompt(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        return self._without(await proceed(call, channel))

    def _without(self, result: Struct | Raw) -> Struct | Raw:
        plain: Any = msgspec.json.decode(result) if isinstance(result, Raw) else msgspec.to_builtins(result)
        changed, clean = self._clean(plain, "")
        if not changed:
            return result
        if isinstance(result, Raw):
            return Raw(msgspec.json.encode(clean))
        return msgspec.convert(clean, type(result))

    def _clean(self, value: Any, name: str) -> tuple[bool, Any]:
        if isinstance(value, str):
            # What is base64 was text to nobody, and a masked piece of it would be no base64 any more.
            return (False, value) if name in ("data", "blob", "type", "mimeType") else self._text(value)
        if isinstance(value, dict):
            members = {key: self._clean(one, key) for key, one in cast("dict[str, Any]", value).items()}
            changed = any(found for found, _ in members.values())
            return changed, {key: one for key, (_, one) in members.items()}
        if isinstance(value, list):
            items = [self._clean(one, name) for one in cast("list[Any]", value)]
            changed = any(found for found, _ in items)
            return changed, [one for _, one in items]
        return False, value

    def _text(self, text: str) -> tuple[bool, str]:
        before = text
        for name, pattern in self._patterns.items():
            text, count = pattern.subn(MASK, text)
            if count:
                self.masked[name] = self.masked.get(name, 0) + count
        return text is not before and text != before, text
