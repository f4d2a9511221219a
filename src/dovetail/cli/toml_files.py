"""Edit TOML files: set or remove one table and keep all other bytes.

tomlkit finds the text of a table: its header, its values and the tables below it. Comments after the last value stay.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import extras

if TYPE_CHECKING:
    from tomlkit.container import Container
    from tomlkit.items import Table


def read(text: str) -> dict[str, Any]:
    """Parse ``text``; raises ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def snippet(section: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the table ``[section.name]`` with the values of ``entry``."""
    kit = _tomlkit()
    table = kit.table()
    for key, value in entry.items():
        if isinstance(value, Mapping):
            inline = kit.inline_table()
            inline.update(value)
            table.add(key, inline)
        else:
            table.add(key, value)
    outer = kit.table(is_super_table=True)
    outer.add(name, table)
    return kit.document().add(section, outer).as_string()


def put(text: str, path: tuple[str, ...], entry: Mapping[str, Any]) -> str:
    """Return ``text`` with ``entry`` at ``path``: instead of the present table, or at the end."""
    section, name = path
    newline = _newline(text)
    block = snippet(section, name, entry).replace("\n", newline)
    if name in read(text).get(section, {}):
        document = _parse(text)
        if _replace(document, path, block):
            return document.as_string()
        text = document.as_string()  # without an entry in another form, such as an inline table
    if text and not text.endswith("\n"):
        text += newline
    return text + ("" if not text or text.endswith(newline * 2) else newline) + block


def take(text: str, path: tuple[str, ...]) -> str:
    """Return ``text`` without the entry at ``path``."""
    document = _parse(text)
    _replace(document, path, "")
    after, gap = document.as_string(), _newline(text) * 2
    # The empty line above the last entry separated it from the rest.
    return after.removesuffix(_newline(text)) if after.endswith(gap) and not text.endswith(gap) else after


def _replace(container: Container, path: Sequence[str], block: str) -> bool:
    """Replace the first table at ``path`` by ``block`` and remove all others; return whether there was one."""
    from tomlkit.items import InlineTable, Table, Whitespace

    done = False
    for index, (key, item) in enumerate(container.body):
        if key is None or key.key != path[0]:
            continue
        if len(path) > 1:
            if isinstance(item, InlineTable) and path[1] in item:
                item.remove(path[1])
            elif isinstance(item, Table):
                done |= _replace(item.value, path[1:], "" if done else block)
            continue
        text = ""
        if isinstance(item, Table) and not key.is_dotted():
            behind = _behind(item)
            if block and not done and not item.is_super_table():
                indent = item.trivia.indent
                text = "".join(indent + line for line in block.splitlines(keepends=True)) + behind
                done = True
            elif behind.strip():
                text = behind.lstrip("\r\n")
        # Only the text of the document is used from here on, so the entry may become text.
        container.body[index] = (None, Whitespace(text))
    return done


def _behind(table: Table) -> str:
    """Return the empty lines and comments after the last value of ``table``."""
    from tomlkit.items import Table

    found = ""
    for key, item in reversed(table.value.body):
        if key is not None:
            return (_behind(item) if isinstance(item, Table) and not key.is_dotted() else "") + found
        found = item.as_string() + found
    return found


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _parse(text: str) -> Any:
    kit = _tomlkit()
    from tomlkit.exceptions import TOMLKitError

    try:
        document = kit.parse(text)
    except TOMLKitError as error:
        raise ValueError(str(error)) from None
    if document.as_string() != text:  # tomlkit gathers an array of tables that other tables interrupt
        raise ValueError("it has an array of tables with other tables between its parts")
    return document


def _tomlkit() -> Any:
    try:
        import tomlkit
    except ModuleNotFoundError:
        raise extras.missing("tomlkit", "editing a TOML file") from None
    return tomlkit
