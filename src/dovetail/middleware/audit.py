"""`Audit`: a tamper-evident log of requests.

Every request, refused ones included, is one line of JSON that contains the hash of the previous line. After
each ``checkpoint`` lines, and when the file is closed, a line with a signature of the hash is added. Only a
holder of the key can therefore rewrite the file unnoticed. ``dovetail audit verify FILE`` finds changed,
removed and reordered lines. A file larger than ``rotate_bytes`` is renamed to ``FILE.1``, ``FILE.2``, …; the
next file starts with the last hash. ``FILE.head`` stores the last line number, so that lines missing at the
end are noticed.

Arguments are hashed unless ``arguments`` says "redacted" or "none". The hashes are keyed, because hashes of
short values can be guessed. If the file cannot be written, requests are refused with 1079. With
``on_full="continue"`` they are served and the gap is recorded.
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
from typing import IO, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from ..drivers.middleware_chain import Middleware, Next, Request
from ..errors import NAME_ECHO, STORE_FULL_MS, DovetailError, ProtocolError
from ..settings import check_choice, check_kinds
from ..settings.parameter_kinds import CLOCK, NAMES, PATH, WHOLE, or_none
from .call_outcome import code_of, created_task, of_error, of_result
from .sensitive_data import one_line, redacted

AUDIT_CHECKPOINT: Final = 1000
"""Lines between two signatures, by default."""
AUDIT_ROTATE_BYTES: Final = 256 << 20
"""Bytes of one file, by default."""
MAX_AUDIT_LINE_BYTES: Final = 1 << 20
"""Bytes of one line."""
MAX_AUDIT_WRITERS: Final = 1000
"""Processes that may write to one audit log."""


log = logging.getLogger("dovetail.audit")

FIRST: Final = "0" * 64
"""The previous hash in the first line of all."""
KEY_VARIABLE: Final = "DOVETAIL_AUDIT_KEY"
Arguments = Literal["hashed", "redacted", "none"]


class Audit(Middleware):
    """Write every request to an audit file as a chain of hashes."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        checkpoint: int = AUDIT_CHECKPOINT,
        *,
        key: str | bytes | None = None,
        arguments: Arguments = "hashed",
        rotate_bytes: int = AUDIT_ROTATE_BYTES,
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
        check_kinds(
            {
                "path": PATH,
                "checkpoint": WHOLE,
                "key": (str | bytes | None, "a string or bytes, or None"),
                "rotate_bytes": WHOLE,
                "methods": or_none(NAMES),
                "clock": CLOCK,
            },
            locals(),
        )
        check_choice("arguments", arguments, get_args(Arguments))
        check_choice("on_full", on_full, ("refuse", "continue"))
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
        """Write a signature and close the file. The next request reopens it."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                if self._since:
                    self._write(file, self._signed())
            self._head.close()

    # --- writing ----------------------------------------------------------------------------------------------------

    def _check_room(self) -> None:
        """Refuse the request if it cannot be written. Raises: ProtocolError."""
        try:
            self._note_missed(self._open())
        except OSError as error:
            raise self._full(error) from None

    def _note_missed(self, file: IO[bytes]) -> None:
        if self.missed:
            self._write(file, {"missed": self.missed, "time": self._now()})
            self.missed = 0

    def _full(self, error: OSError) -> ProtocolError:
        log.error("audit file cannot be written, check the disk: %s", error)
        return ProtocolError(
            "storage_full",
            "the request was refused because the audit log cannot be written",
            data={"retryAfterMs": STORE_FULL_MS},
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
                self._rotate_file()
        except OSError as error:
            self.missed += 1
            log.error("audit record not written: %s", error)

    def _now(self) -> float:
        return round(self._clock(), 3)

    def _hashed(self, given: Any) -> str:
        return hmac.digest(self._key or b"", msgspec.json.encode(given, order="sorted"), "sha256").hex()

    def _write(self, file: IO[bytes], record: dict[str, Any]) -> None:
        number = self._number + 1
        line = one_line({"n": number, "before": self._hash, **record})
        data = line.encode() + b"\n"
        try:
            if file.write(data) != len(data):  # the disk is full
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            # A partial line would break the chain: remove it.
            file.truncate(self._whole)
            file.seek(self._whole)
            raise
        self._whole = file.tell()
        self._number, self._hash = number, hashlib.sha256(line.encode()).hexdigest()
        self._head.write(ChainHead(number, self._hash, self._key))

    def _signed(self) -> dict[str, Any]:
        self._since = 0
        record: dict[str, Any] = {"checkpoint": self._number, "time": self._now()}
        if self._key is not None:
            record["signature"] = sign(self._key, self._hash, self._number)
        return record

    def _open(self) -> IO[bytes]:
        """Open and lock the file. Each worker that shares a path writes to a separate numbered file next to
        it.
        """
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for number in range(1, MAX_AUDIT_WRITERS):
                self.path = self._given if number == 1 else _numbered(self._given, number)
                file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", 0)
                if _lock(file):
                    self._resume(file)
                    self._file = file
                    return file
                file.close()
            raise OSError(f"{MAX_AUDIT_WRITERS} processes already write to {self._given}")
        return self._file

    def _resume(self, file: IO[bytes]) -> None:
        """Continue the chain at the end of the file. Remove a partial line and follow a rotated file."""
        end, line = _last_line(file)
        file.truncate(end)
        file.seek(end)
        self._whole = end
        if line is None and (earlier := rotated_files(self.path)):
            with earlier[-1].open("rb") as before:
                line = _last_line(before)[1]
        if line is not None:
            self._number, self._hash = _read(self.path.name, 0, line)["n"], hashlib.sha256(line).hexdigest()
        self._head = _HeadFile(self.path)
        head = self._head.read()
        if head is not None and head.number > self._number:
            # Lines are missing at the end. Continue with the stored number: `verify` reports the gap.
            log.error(
                "audit file %s is truncated: it ends with line %d, but %d lines were written",
                self.path,
                self._number,
                head.number,
            )
            self._number, self._hash = head.number, head.hash

    def _rotate_file(self) -> None:
        self.close()
        count = len(rotated_files(self.path)) + 1
        os.replace(self.path, self.path.with_name(f"{self.path.name}.{count}"))


def _last_line(file: IO[bytes]) -> tuple[int, bytes | None]:
    """Return the end offset of the last complete line, and that line. Read only the end of the file."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - 2 * MAX_AUDIT_LINE_BYTES)
    file.seek(start)
    data = file.read(size - start)
    end = data.rfind(b"\n")
    if end < 0:
        if start:
            raise InvalidAuditLog(
                f"not an audit log: no line of at most {MAX_AUDIT_LINE_BYTES} bytes is at its end"
            )
        return 0, None
    return start + end + 1, data[data.rfind(b"\n", 0, end) + 1 : end]


def _check_log(path: Path) -> None:
    """Check that ``path`` can be appended to.

    Raises:
        InvalidAuditLog: the file exists and is not an audit log.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        whole, line = _last_line(file)
        if line is not None:
            _read(path.name, 0, line)
        elif file.seek(0, os.SEEK_END) > whole and not file.seek(0) and file.read(1) != b"{":
            raise InvalidAuditLog(f"{path} is not an audit log; choose another file")


class ChainHead:
    """The number and the hash of the last line of a chain."""

    def __init__(self, number: int, hash: str, key: bytes | None) -> None:
        self.number, self.hash = number, hash
        self.signature = "" if key is None else sign(key, f"head {hash}", number)

    def __bytes__(self) -> bytes:
        # Fixed length: overwriting the old content needs no additional space on a full disk.
        return f"{self.number:020} {self.hash} {self.signature:64}\n".encode()


class _HeadFile:
    """The ``.head`` file next to the log."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".head")
        self._number: int | None = None

    def write(self, head: ChainHead) -> None:
        try:
            if self._number is None:
                self._number = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.lseek(self._number, 0, os.SEEK_SET)
            os.write(self._number, bytes(head))
        except OSError as error:  # the older content stays valid
            log.warning("audit head file %s cannot be written: %s", self._path, error)

    def read(self) -> ChainHead | None:
        """Return the stored head, or None. The caller compares `ChainHead.signature`."""
        with suppress(OSError, ValueError):
            number, hash, *signature = self._path.read_text("ascii").split()
            head = ChainHead(int(number), hash, None)
            head.signature = "".join(signature)
            return head
        return None

    def close(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            os.close(number)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}-{number}")


def _lock(file: IO[bytes]) -> bool:
    """Lock the file for this process. Without file locks, only one process is assumed."""
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
    """Return the signature of a chain whose line ``number`` has the hash ``hash``."""
    return hmac.digest(key, f"{number}:{hash}".encode(), "sha256").hex()


def rotated_files(path: Path) -> list[Path]:
    """Return the rotated files, oldest first."""
    found = [one for one in path.parent.glob(f"{path.name}.*") if one.suffix[1:].isdecimal()]
    return sorted(found, key=lambda one: int(one.suffix[1:]))


# --- verification
# -----------------------------------------------------------------------------------------------------


class InvalidAuditLog(DovetailError):
    """The audit log was modified or damaged. The message names the line."""


class VerificationResult(Struct, frozen=True):
    """The result of verifying an intact log."""

    lines: int
    checkpoints: int
    signed: int
    """Checkpoints whose signature was verified."""
    unsigned: int
    """Lines after the last checkpoint."""
    ended: bool
    """Whether the end of the log was verified. False without a head file."""


def verify(path: str | os.PathLike[str], *, key: str | bytes | None = None) -> VerificationResult:
    """Verify a log and its rotated files.

    Raises:
        InvalidAuditLog: a line was changed, removed or moved, lines are missing at the end, or a signature is wrong.
        OSError: the file does not exist or cannot be read.
    """
    secret, where = _key(key), Path(path)
    before, number, checkpoints, signed, since = FIRST, 0, 0, 0, 0
    earlier, head = rotated_files(where), _HeadFile(where).read()
    # A file that was just rotated has no successor yet.
    for name, place, line in _lines([*earlier, where] if where.exists() or not earlier else earlier):
        record = _read(name, place, line)
        if record["n"] != number + 1 or record["before"] != before:
            raise InvalidAuditLog(
                f"{name}, line {place}: it does not follow line {number}, which was changed, removed or moved"
            )
        since += 1
        if "checkpoint" in record:
            checkpoints, since = checkpoints + 1, 0
            given = record.get("signature")
            if secret is not None:
                wanted = sign(secret, before, number)
                if not isinstance(given, str) or not hmac.compare_digest(given, wanted):
                    raise InvalidAuditLog(f"{name}, line {place}: the signature does not match this key")
                signed += 1
        number, before = record["n"], hashlib.sha256(line).hexdigest()
        if head is not None and number == head.number and before != head.hash:
            raise InvalidAuditLog(f"{name}, line {place}: it is not the line that was written last")
    _check_end(where.name, number, head, secret)
    return VerificationResult(number, checkpoints, signed, since, head is not None)


def _check_end(name: str, number: int, head: ChainHead | None, secret: bytes | None) -> None:
    if head is None:
        return
    if number < head.number:
        raise InvalidAuditLog(
            f"{name}, line {number}: the file ends here, but {head.number} lines were written"
        )
    if secret is not None and not hmac.compare_digest(
        head.signature, ChainHead(head.number, head.hash, secret).signature
    ):
        raise InvalidAuditLog(f"{name}.head, line 1: the signature does not match this key")


def _lines(paths: list[Path]) -> Iterator[tuple[str, int, bytes]]:
    for path in paths:
        with path.open("rb") as file:
            for place, line in enumerate(iter(lambda: file.readline(MAX_AUDIT_LINE_BYTES), b""), 1):
                if not line.endswith(b"\n"):
                    raise InvalidAuditLog(f"{path.name}, line {place}: the line is incomplete")
                yield path.name, place, line[:-1]


def _read(name: str, place: int, line: bytes) -> dict[str, Any]:
    try:
        record: Any = json.loads(line)
        if isinstance(record["n"], int) and isinstance(record["before"], str):
            return record
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    where = f"{name}, line {place}" if place else f"{name}, its last line"
    raise InvalidAuditLog(f"{where}: not a line of an audit log")
