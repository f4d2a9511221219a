"""The matrix: every pairing, run one after the other, and how it is shown."""

from __future__ import annotations

import asyncio
import datetime
import platform
from collections.abc import Callable, Iterator

from .. import peers
from . import hosts, ours, theirs
from .features import FEATURES, OK, Case, Row
from .hosts import Host
from .theirs import Guest

Report = Callable[[Row], None]


def failed(case: Case, error: Exception, absent: dict[str, str]) -> Row:
    """The row of a case that did not come so far."""
    message = f"{type(error).__name__}: {error}"[:400]
    return Row(case, "", dict.fromkeys(FEATURES, message), absent)


def with_our_client(only: str = "") -> Iterator[Row]:
    """Our client visits every host."""
    for host in (*hosts.HOSTS, hosts.OURS):
        if only and only.lower() not in host.name.lower():
            continue
        for transport in host.transports:
            yield from _visited(host, transport)


def _visited(host: Host, transport: str) -> Iterator[Row]:
    stage = ours.EVERYTHING if host.name == "server-everything" else ours.INTEROP
    for era in host.eras:
        case = Case("Dovetail", host.name, transport, era)
        absent = host.lacks(transport, era)
        try:
            if transport == "stdio":
                found = asyncio.run(ours.visit(host.command("stdio"), era, stage, absent, hosts.environ()))
            else:
                with hosts.listening(host, transport) as url:
                    found = asyncio.run(ours.visit(url, era, stage, absent))
            yield Row(case, *found, absent)
        except Exception as error:
            yield failed(case, error, absent)


def with_our_server(only: str = "") -> Iterator[Row]:
    """Every guest visits our server."""
    for guest in (*theirs.GUESTS, *theirs.FRAMEWORKS, theirs.INSPECTING):
        if only and only.lower() not in guest.name.lower():
            continue
        for transport in hosts.OURS.transports:
            for era in guest.eras:
                yield _guest(guest, transport, era)


def _guest(guest: Guest, transport: str, era: str) -> Row:
    case = Case(guest.name, "Dovetail", transport, era)
    absent = dict(guest.absent)

    def run(target: list[str]) -> Row:
        if guest is theirs.INSPECTING:
            return Row(case, *theirs.inspect(transport, era, target), absent)
        return Row(case, *theirs.visit(guest, transport, era, target), absent)

    try:
        if transport == "stdio":
            return run(hosts.OURS.command("stdio"))
        with hosts.listening(hosts.OURS, transport) as url:
            return run([url])
    except Exception as error:
        return failed(case, error, absent)


def versions() -> dict[str, str]:
    """Who took part, in which version."""
    node = {"server-everything", "inspector", "client", "server"}
    found = {peer.title: peers.version(peer) for peer in (peers.DOVETAIL, peers.SDK, peers.FASTMCP)}
    for package in sorted(node):
        peer = peers.TYPESCRIPT._replace(package=f"@modelcontextprotocol/{package}")
        found[peer.package] = peers.version(peer)
    for guest in theirs.FRAMEWORKS:
        found[guest.package] = peers.version(peers.TYPESCRIPT._replace(package=guest.package))
    return found


def _cell(row: Row, feature: str) -> str:
    if feature in row.absent:
        return "·"
    return "yes" if row.outcome.get(feature) == OK else "**no**"


def markdown(rows: list[Row], more: list[str]) -> str:
    """The page for the documentation."""
    today = datetime.date.today().isoformat()
    lines = [
        "# Interoperability",
        "",
        f"Written by `make interop` on {today}, Python {platform.python_version()}. Do not edit.",
        "",
        ", ".join(f"{name} {version}" for name, version in versions().items()) + ".",
        "",
        "A dot (`·`) means that the other implementation does not offer the feature, or that it was not tried. The",
        "notes give the reason.",
        "",
        "| client | server | transport | era | revision | " + " | ".join(FEATURES) + " |",
        "|" + "---|" * (5 + len(FEATURES)),
    ]
    for row in rows:
        cells = [*row.case, row.revision or "—", *(_cell(row, feature) for feature in FEATURES)]
        lines.append("| " + " | ".join(cells) + " |")
    notes = {(_other(row), why) for row in rows for why in row.absent.values()}
    lines += ["", *more, "## Notes", "", *(f"- {who}: {why}." for who, why in sorted(notes)), ""]
    return "\n".join(lines)


def _other(row: Row) -> str:
    return row.case.client if row.case.server.endswith("Dovetail") else row.case.server.rpartition("→ ")[2]


def plain(row: Row) -> str:
    """One line for the terminal."""
    marks = "  ".join(f"{feature} {_cell(row, feature).strip('*')}" for feature in FEATURES)
    return f"{row.case!s:58} {row.revision:12} {marks}"
