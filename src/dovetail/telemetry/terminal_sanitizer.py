"""What others sent, shown on a terminal: nothing of it steers that, or changes the order of what is read."""

import logging

_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control and format characters (those of bidirectional text among them), lone surrogates, separators of lines."""
_HARMLESS = "\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def printable(text: str) -> str:
    """``text`` with escapes for what steers a terminal. They are those of JSON, so that a document stays the same."""
    if text.isprintable():
        return text
    from json import dumps  # a server that starts and logs as usual needs neither
    from unicodedata import category

    return "".join(dumps(c)[1:-1] if category(c) in _STEERING and c not in _HARMLESS else c for c in text)


class _Escaping(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def log_to_stderr(level: str = "warning") -> None:
    """What is logged goes to stderr, made `printable`: it may quote anybody."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Escaping("%(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
