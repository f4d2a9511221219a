"""A SQLite database that a model may ask but not change. ``DATABASE=shop.db dovetail run sqlite_notes.py``"""

import os
import sqlite3
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from dovetail import Depends, Server, ToolError

server = Server("sqlite", instructions="Look at schema://tables before you ask.")


def database() -> Iterator[sqlite3.Connection]:
    """A connection that can only read, for one call."""
    place = quote(os.environ.get("DATABASE", "notes.db"))
    connection = sqlite3.connect(f"file:{place}?mode=ro", uri=True, check_same_thread=False)
    try:
        yield connection
    finally:
        connection.close()


@server.tool(annotations={"readOnlyHint": True}, timeout=10)
def query(sql: str, limit: int = 100, db: sqlite3.Connection = Depends(database)) -> list[dict[str, Any]]:
    """Run one SELECT and return its rows.

    Args:
        sql: a single statement that reads
        limit: rows to return at most
    """
    try:
        cursor = db.execute(sql)
    except sqlite3.Error as error:
        raise ToolError(f"SQLite says: {error}") from None
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchmany(limit)]


@server.resource("schema://tables", mime_type="text/plain")
def tables(db: sqlite3.Connection = Depends(database)) -> str:
    """The statements that made the tables."""
    return "\n".join(row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
