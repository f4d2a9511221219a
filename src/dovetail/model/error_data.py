"""What stands in the ``data`` of an error whose code promises something there."""

from typing import Any

from .base import Definition
from .elicitation import ElicitRequestParams


class UnsupportedProtocolVersionData(Definition):
    """With -32022, and with -32602 to ``initialize``: pick one of ``supported`` and try again."""

    supported: list[str]
    requested: str


class MissingRequiredClientCapabilityData(Definition):
    """With -32021: repeat the request declaring these capabilities, if you have them."""

    required_capabilities: dict[str, Any]


class URLElicitationRequiredData(Definition):
    """With -32042, in 2025-11-25 only: send the user to these URLs first. Each has an ``elicitation_id``."""

    elicitations: list[ElicitRequestParams]


class ResourceNotFoundData(Definition, gc=False):
    """With -32002, or -32602 since 2026-07-28."""

    uri: str
