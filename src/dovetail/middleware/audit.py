"""`Audit`: who did what, in a file nobody can change unnoticed.

Every request is one line of JSON with the hash of the line before, refusals included. Each ``checkpoint`` lines, and
when the file is closed, a line signs the hash so far with the key; whoever has the key can tell a file that was written
anew from one that was kept. ``dovetail audit verify FILE`` finds a changed, removed or reordered line. A file that has
grown beyond ``rotate_bytes`` is set aside as ``FILE.1``, ``FILE.2``, …; the next one begins with the hash the last one
ended with. How far it was written stands in ``FILE.head``, so that nobody takes lines from its end unnoticed.

Arguments are hashed unless ``arguments`` says "redacted" or "none". Hashes of short values can be guessed, so they are
keyed. When the file cannot be written, calls are refused with 1079; with ``on_full="continue"`` they go on, and the gap
is noted.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct

from ..drivers.middleware_chain import Middleware, Next, Request
from ..errors import NAME_ECHO, STORE_FULL_MS, DovetailError, ProtocolError
from .call_outcome import code_of, created_task, of_error, of_result
from .sensitive_data import one_line, redacted

AUDIT_CHECKPOINT: Final = 1000
"""Lines between two signatures, by default."""
AUDIT_ROTATE: Final = 256 << 20
"""Bytes of one file, by default."""
AUDIT_LINE: Final = 1 << 20
"""Bytes of one line."""
AUDIT_WRITERS: Final = 1000
"""Processes that may write to one audit log."""


log = logging.getLogger("dovetail.audit")

FIRST: Final = "0" * 64
"""What the first line of all names as the hash before it."""
KEY_VARIABLE: Final = "DOVETAIL_AUDIT_KEY"
Arguments = Literal["hashed", "redacted", "none"]


class Audit(Middleware):
    """Write every request to an audit file, as a chain of hashes."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        checkpoint: int = AUDIT_CHECKPOINT,
        *,
        key: str | bytes | None = None,
        arguments: Arguments = "hashed",
        rotate_bytes: int = AUDIT_ROTATE,
        on_full: Literal["refuse", "continue"] = "refuse",
        methods: frozenset[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the file and what is written to it.

        Args:
            path: The file to append to.
            checkpoint: Lines between two signed checkpoints.
            key: The key of the signatures; by default ``DOVETAIL_AUDIT_KEY``. Without a key, the file is not
                signed.
            arguments: Write the arguments "hashed", "redacted", or not at all ("none").
            rotate_bytes: The size at which the file is renamed and a new one is started, in bytes.
            on_full: What to do when the file cannot be written: "refuse" requests, or "continue" without the
                record.
            methods: The requests to write; by default tool calls, resource reads, prompts and ``initialize``.
        """
        self.path = self._given = Path(path)
        self._checkpoint, self._rotate, self._arguments, self._clock = (
            checkpoint,
            rotate_bytes,
            arguments,
            clock,
        )
        self._key = _key(key)
        self._refuses = on_full == "refuse"
        self._methods = methods or frozenset({"tools/call", "resources/read", "prompts/get", "initialize"})
        self._file: IO[bytes] | None = None
        self._hash, self._number = FIRST, 0
        _check_log(self._given)
        self._head = _HeadFile(self._given)
        self._since = 0
        self.missed = 0
        """Requests that could not be written."""

    async def message(self, request: Request, call_next: Next) -> Struct | Raw:
        if request.method not in self._methods:
            return await call_next(request)
        if self._refuses:
            self._check_room()
        task: list[str] = []

        def became_task(id: str) -> None:
            task.append(id)
            if not request.resumed:
                self._record(request, "begun", None, id)

        request.on_task(became_task)
        try:
            result = await call_next(request)
        except BaseException as error:
            self._record(request, of_error(error), code_of(error), *task)
            raise
        begun = created_task(result)
        self._record(
            request, of_result(result) if begun is None else "begun", None, *task, *filter(None, [begun])
        )
        return result

    def stopped(self) -> None:
        self.close()

    def close(self) -> None:
        """Sign what was written, and let go of the file; the next request opens it again."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                if self._since:
                    self._write(file, self._signed())
            self._head.close()

    # --- writing ----------------------------------------------------------------------------------------------------

    def _check_room(self) -> None:
        """Raises: ProtocolError: what is done now could not be written down."""
        try:
            self._note_missed(self._open())
        except OSError as error:
            raise self._full(error) from None

    def _note_missed(self, file: IO[bytes]) -> None:
        if self.missed:
            self._write(file, {"missed": self.missed, "time": self._now()})
            self.missed = 0

    def _full(self, error: OSError) -> ProtocolError:
        log.error("the audit file cannot be written: %s", error)
        return ProtocolError(
            "storage_full", "this request cannot be audited", data={"retryAfterMs": STORE_FULL_MS}
        )

    def _record(self, request: Request, outcome: str, code: int | None, task: str | None = None) -> None:
        call = request.call
        record: dict[str, Any] = {
            "time": self._now(),
            "method": call.method,
            "name": request.name[:NAME_ECHO],
            "principal": None if call.principal is None else str(call.principal)[:NAME_ECHO],
            "session": None if call.session is None else call.session.id,
            "outcome": outcome,
            "code": code,
            "task": task,
            "revision": call.revision.name,
        }
        given = UNSET if self._arguments == "none" else request.arguments
        if given is not UNSET:
            record["arguments"] = redacted(given) if self._arguments == "redacted" else self._hashed(given)
        try:
            file = self._open()
            self._note_missed(file)
            self._write(file, {name: value for name, value in record.items() if value not in (None, "")})
            self._since += 1
            if self._since >= self._checkpoint:
                self._write(file, self._signed())
            if file.tell() >= self._rotate:
                self._set_aside()
        except OSError as error:
            self.missed += 1
            log.error("a request could not be audited: %s", error)

    def _now(self) -> float:
        return round(self._clock(), 3)

    def _hashed(self, given: Any) -> str:
        return hmac.digest(self._key or b"", msgspec.json.encode(given, order="sorted"), "sha256").hex()

    def _write(self, file: IO[bytes], record: dict[str, Any]) -> None:
        number = self._number + 1
        line = one_line({"n": number, "before": self._hash, **record})
        data = line.encode() + b"\n"
        try:
            if file.write(data) != len(data):  # the last bytes of the disk
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            # A line that was written in part would break the chain for good.
            file.truncate(self._whole)
            file.seek(self._whole)
            raise
        self._whole = file.tell()
        self._number, self._hash = number, hashlib.sha256(line.encode()).hexdigest()
        self._head.write(Head(number, self._hash, self._key))

    def _signed(self) -> dict[str, Any]:
        self._since = 0
        record: dict[str, Any] = {"checkpoint": self._number, "time": self._now()}
        if self._key is not None:
            record["signature"] = sign(self._key, self._hash, self._number)
        return record

    def _open(self) -> IO[bytes]:
        """The file, ours alone: where several workers share a path, each has one of its own beside it."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for number in range(1, AUDIT_WRITERS):
                self.path = self._given if number == 1 else _beside(self._given, number)
                file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", 0)
                if _is_ours(file):
                    self._resume(file)
                    self._file = file
                    return file
                file.close()
            raise OSError(f"{AUDIT_WRITERS} processes write to {self._given} already")
        return self._file

    def _resume(self, file: IO[bytes]) -> None:
        """Go on where the file ends; what a crash left half-written is cut off, a rotated file is followed."""
        end, line = _last_line(file)
        file.truncate(end)
        file.seek(end)
        self._whole = end
        if line is None and (earlier := older(self.path)):
            with earlier[-1].open("rb") as before:
                line = _last_line(before)[1]
        if line is not None:
            self._number, self._hash = _read(self.path.name, 0, line)["n"], hashlib.sha256(line).hexdigest()
        self._head = _HeadFile(self.path)
        head = self._head.read()
        if head is not None and head.number > self._number:
            # Lines are missing at the end. What follows is written as if they were there: `verify` finds the gap.
            log.error("%s ends with line %d, and %d were written", self.path, self._number, head.number)
            self._number, self._hash = head.number, head.hash

    def _set_aside(self) -> None:
        self.close()
        count = len(older(self.path)) + 1
        os.replace(self.path, self.path.with_name(f"{self.path.name}.{count}"))


def _last_line(file: IO[bytes]) -> tuple[int, bytes | None]:
    """Where the last whole line of a file ends, and that line without its end; only the end of the file is read."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - 2 * AUDIT_LINE)
    file.seek(start)
    data = file.read(size - start)
    end = data.rfind(b"\n")
    if end < 0:
        if start:
            raise Broken(f"this is no audit log: no line of at most {AUDIT_LINE} bytes is at its end")
        return 0, None
    return start + end + 1, data[data.rfind(b"\n", 0, end) + 1 : end]


def _check_log(path: Path) -> None:
    """Check that what is at ``path`` may be written on.

    Raises:
        Broken: a file is there that is no audit log.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        whole, line = _last_line(file)
        if line is not None:
            _read(path.name, 0, line)
        elif file.seek(0, os.SEEK_END) > whole and not file.seek(0) and file.read(1) != b"{":
            raise Broken(f"{path} is no audit log: name another file")


class Head:
    """How far a chain was written: the number and the hash of its last line."""

    def __init__(self, number: int, hash: str, key: bytes | None) -> None:
        self.number, self.hash = number, hash
        self.signature = "" if key is None else sign(key, f"head {hash}", number)

    def __bytes__(self) -> bytes:
        # Always as long: what is written over what was there needs no room on a disk that is full.
        return f"{self.number:020} {self.hash} {self.signature:64}\n".encode()


class _HeadFile:
    """Where it stands, beside the chain."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".head")
        self._number: int | None = None

    def write(self, head: Head) -> None:
        try:
            if self._number is None:
                self._number = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.lseek(self._number, 0, os.SEEK_SET)
            os.write(self._number, bytes(head))
        except OSError as error:  # an older one is true as well
            log.warning("%s cannot be written: %s", self._path, error)

    def read(self) -> Head | None:
        """What stands there, or None; whether it is signed is for `Head.signature` to compare."""
        with suppress(OSError, ValueError):
            number, hash, *signature = self._path.read_text("ascii").split()
            head = Head(int(number), hash, None)
            head.signature = "".join(signature)
            return head
        return None

    def close(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            os.close(number)


def _beside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}-{number}")


def _is_ours(file: IO[bytes]) -> bool:
    """Whether nobody else writes this file; where files cannot be locked, one process is all there may be."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _key(given: str | bytes | None) -> bytes | None:
    key = given if given is not None else os.environ.get(KEY_VARIABLE) or None
    return key.encode() if isinstance(key, str) else key


def sign(key: bytes, hash: str, number: int) -> str:
    """The signature of a chain that has reached ``hash`` with line ``number``."""
    return hmac.digest(key, f"{number}:{hash}".encode(), "sha256").hex()


def older(path: Path) -> list[Path]:
    """The files that were set aside, the oldest first."""
    found = [one for one in path.parent.glob(f"{path.name}.*") if one.suffix[1:].isdecimal()]
    return sorted(found, key=lambda one: int(one.suffix[1:]))


# --- verifying --------------------------------------------------------------------------------------------------------


class Broken(DovetailError):
    """The file is not what was written. The message says where."""


class Verified(Struct, frozen=True):
    """What was found in a file that is whole."""

    lines: int
    checkpoints: int
    signed: int
    """Checkpoints whose signature was checked."""
    unsigned: int
    """Lines after the last checkpoint."""
    ended: bool
    """Nothing is missing at its end; False where nothing says how far it was written."""


def verify(path: str | os.PathLike[str], *, key: str | bytes | None = None) -> Verified:
    """Check a file, and what was set aside before it.

    Raises:
        Broken: a line was changed, removed or put elsewhere, lines are missing at the end, or a signature is wrong.
        OSError: there is no such file.
    """
    secret, where = _key(key), Path(path)
    before, number, checkpoints, signed, since = FIRST, 0, 0, 0, 0
    earlier, head = older(where), _HeadFile(where).read()
    # A file that has just been set aside has no successor yet.
    for name, place, line in _lines([*earlier, where] if where.exists() or not earlier else earlier):
        record = _read(name, place, line)
        if record["n"] != number + 1 or record["before"] != before:
            raise Broken(
                f"{name}, line {place}: it does not follow line {number}, which was changed, removed or moved"
            )
        since += 1
        if "checkpoint" in record:
            checkpoints, since = checkpoints + 1, 0
            given = record.get("signature")
            if secret is not None:
                wanted = sign(secret, before, number)
                if not isinstance(given, str) or not hmac.compare_digest(given, wanted):
                    raise Broken(f"{name}, line {place}: the signature is not made with this key")
                signed += 1
        number, before = record["n"], hashlib.sha256(line).hexdigest()
        if head is not None and number == head.number and before != head.hash:
            raise Broken(f"{name}, line {place}: it is not the one that was written last")
    _check_end(where.name, number, head, secret)
    return Verified(number, checkpoints, signed, since, head is not None)


def _check_end(name: str, number: int, head: Head | None, secret: bytes | None) -> None:
    if head is None:
        return
    if number < head.number:
        raise Broken(f"{name}, line {number}: it is the last one, and {head.number} were written")
    if secret is not None and not hmac.compare_digest(
        head.signature, Head(head.number, head.hash, secret).signature
    ):
        raise Broken(f"{name}.head, line 1: the signature is not made with this key")


def _lines(paths: list[Path]) -> Iterator[tuple[str, int, bytes]]:
    for path in paths:
        with path.open("rb") as file:
            for place, line in enumerate(iter(lambda: file.readline(AUDIT_LINE), b""), 1):
                if not line.endswith(b"\n"):
                    raise Broken(f"{path.name}, line {place}: it has no end")
                yield path.name, place, line[:-1]


def _read(name: str, place: int, line: bytes) -> dict[str, Any]:
    try:
        record: Any = json.loads(line)
        if isinstance(record["n"], int) and isinstance(record["before"], str):
            return record
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    where = f"{name}, line {place}" if place else f"{name}, its last line"
    raise Broken(f"{where}: this is no line of an audit")
