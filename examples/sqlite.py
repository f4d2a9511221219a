"""A database for a model: look at its tables, ask questions in SQL, nothing that changes it. `dovetail run sqlite.py`

SQLITE_FILE names the database. SQLite itself enforces that it is only read; a query has a second and a thousand rows.
"""

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dovetail import Server, ToolError

FILE = Path(os.environ.get("SQLITE_FILE", "data.db"))
SECONDS = 1.0
ROWS = 1000
Cell = str | int | float | None

server = Server("sqlite", version="1.0.0", instructions="Look at the tables before you write SQL.")


@dataclass
class Table:
    name: str
    sql: str
    rows: int


@dataclass
class Answer:
    columns: list[str]
    rows: list[list[Cell]]
    more: bool
    """There were further rows."""


@contextmanager
def opened() -> Generator[sqlite3.Connection]:
    """The database, only to be read, for as long as a query may take."""
    with closing(sqlite3.connect(f"{FILE.resolve().as_uri()}?mode=ro", uri=True)) as database:
        until = time.monotonic() + SECONDS
        database.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        database.execute("PRAGMA query_only = ON")
        database.set_authorizer(allowed)
        yield database


FORBIDDEN = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA)
"""A query that opens another file, or lifts what protects this one."""


def allowed(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_DENY if action in FORBIDDEN else sqlite3.SQLITE_OK


def shown(value: bytes | Cell) -> Cell:
    return f"{len(value)} bytes" if isinstance(value, bytes) else value


@server.tool(annotations={"readOnlyHint": True})
def tables() -> list[Table]:
    """Every table and view, with the SQL that made it."""
    with opened() as database:
        made = database.execute(
            "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        )
        found = [(str(name), str(sql)) for name, sql in made if sql]
        return [Table(name, sql, count(database, name)) for name, sql in found]


def count(database: sqlite3.Connection, table: str) -> int:
    quoted = '"' + table.replace('"', '""') + '"'
    return int(database.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0])


@server.tool(annotations={"readOnlyHint": True})
def query(sql: str, values: list[Cell] | None = None) -> Answer:
    """Ask with one SELECT; `?` in it stands for the values."""
    try:
        with opened() as database:
            cursor = database.execute(sql, values or [])
            rows = cursor.fetchmany(ROWS + 1)
            columns = [str(column[0]) for column in cursor.description or []]
    except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
        raise ToolError(f"SQLite says: {error}") from None
    return Answer(columns, [[shown(value) for value in row] for row in rows[:ROWS]], len(rows) > ROWS)


@server.resource("table://{name}", mime_type="text/plain")
def schema(name: str) -> str:
    """The SQL of one table."""
    for table in tables():
        if table.name == name:
            return table.sql
    raise ToolError(f"There is no table {name}.")


@server.completion(ref="table://{name}", argument="name")
def names(value: str) -> list[str]:
    return [table.name for table in tables() if table.name.startswith(value)]
