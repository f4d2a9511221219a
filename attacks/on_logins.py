"""Attacks on the pages by which users log in: what browsers and clients may send there, and how much of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote, urlencode

from .issuer import Issuer
from .on_tokens import ask, enter, guarded
from .report import GotThrough, Scale, attack
from .victim import Json, Wire, http

PAGES = (
    "authorize",
    "consent",
    "auth/callback",
    "token",
    "revoke",
    "register",
    ".well-known/oauth-authorization-server",
)
BACK = "http://127.0.0.1:9999/callback"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TEXTS = (
    "",
    "\0",
    "é" * 50,
    "\r\nset-cookie: a=b",
    "<script>alert(1)</script>",
    "x" * 5000,
    "%",
    "[",
    "dt-AAAA",
    "javascript:alert(1)",
    "https://[",
    "https://a@b/c",
    "//x",
    "9" * 400,
)
NAMES = (
    "client_id",
    "redirect_uri",
    "state",
    "code",
    "code_verifier",
    "code_challenge",
    "scope",
    "resource",
    "request",
    "id",
    "token",
    "refresh_token",
    "grant_type",
    "response_type",
    "iss",
    "decision",
    "client_secret",
)


def _pages(issuer: Issuer) -> Iterator[bytes]:
    """Requests that no page expects."""
    port = issuer.url.rpartition(":")[2]
    inside = [
        f"https://{host}/latest/document"
        for host in (
            "169.254.169.254",
            "[::1]",
            f"127.0.0.1:{port}",
            f"localhost:{port}",
            "0x7f.1",
            "2130706433",
            "[::ffff:169.254.169.254]",
            "127.1",
            "x.invalid",
        )
    ]
    wholes = [urlencode({name: text}) for name in NAMES for text in TEXTS[:8]]
    wholes += [urlencode(dict.fromkeys(NAMES, text)) for text in TEXTS]
    wholes += [
        urlencode({"client_id": text, "redirect_uri": BACK, "response_type": "code"}) for text in inside
    ]
    wholes += [
        "a=1&a=2",
        "&".join(["a"] * 5000),
        "%ff=%fe",
        "a" * 9000,
        "=",
        "&&;;",
        "state=%ED%A0%80",
        "id=0123456789abcdef&request=AAAA",
    ]
    for page in PAGES:
        for whole in wholes if page != PAGES[-1] else wholes[:5]:
            yield http("GET", f"/{page}?{whole}", {"Cookie": "__Host-dovetail-0123456789abcdef=x; =; a"})
            yield http("POST", f"/{page}", FORM, whole.encode())
        for body in (
            b"",
            b"{",
            b"[" * 5000,
            b"\xff",
            b'{"redirect_uris":5}',
            b'{"redirect_uris":["javascript:x"]}',
            b"x" * 100_000,
        ):
            yield http("POST", f"/{page}", {"Authorization": "Basic " + "A" * 300}, body)
        yield from (http(method, f"/{page}") for method in ("PUT", "HEAD", "OPTIONS", "X"))


@attack("http", seconds=120, own=True)
async def pages_of_a_login(host: str, scale: Scale) -> str:
    """Parameters that are missing, doubled, endless, not text, private addresses, and unknown methods."""
    answers, every = Counter[int](), scale.of(9, 1)
    async with guarded(host) as (victim, issuer):
        await enter(victim, issuer)
        known = Counter(issuer.asked)
        for number, data in enumerate(_pages(issuer)):
            if number % every:
                continue
            status, headers, body = await ask(victim, data)
            answers[status] += 1
            if (status >= 500 and status != 503) or b"Traceback" in body:
                raise GotThrough(f"{data[:200]!r} was answered {status} {body[:200]!r}")
            _look(data, headers, body)
        if issuer.asked - known:
            raise GotThrough(f"somebody else was asked because a page said so: {issuer.asked - known}")
        await enter(victim, issuer, sub="bob")
    return f"answers {dict(sorted(answers.items()))}"


def _look(data: bytes, headers: dict[str, str], body: bytes) -> None:
    """Whether a page says what a stranger has put into it."""
    if b"<script" in body or headers.get("set-cookie", "").startswith("a=b"):
        raise GotThrough(f"{data[:200]!r} is repeated as it was")
    if headers.get("content-type", "").startswith(
        "text/html"
    ) and "frame-ancestors 'none'" not in headers.get("content-security-policy", ""):
        raise GotThrough(f"the page for {data[:200]!r} may be framed")
    if not headers.get("location", BACK).startswith(BACK):
        raise GotThrough(f"{data[:200]!r} sends a browser to {headers['location'][:200]}")


@attack("http", seconds=120, own=True)
async def registrations_without_end(host: str, scale: Scale) -> str:
    """Clients register, ask for consent and give it all day, with long names, and never log in."""
    async with guarded(host) as (victim, issuer):
        await enter(victim, issuer)
        before, wire = 0, await victim.connect()
        count = scale.of(150, 3000)
        for number in range(count):
            if number == count // 4:
                before = victim.memory()
            await _begin(wire, number)
        grown = (victim.memory() - before) >> 20
        await enter(victim, issuer, sub="bob")
    if grown > 48:
        raise GotThrough(f"{count} logins that go no further cost {grown} MiB")
    return f"{count} logins that go no further cost {grown} MiB"


async def _ask(wire: Wire, data: bytes) -> tuple[int, dict[str, str], bytes]:
    wire.send(data)
    return await wire.response()


async def _begin(wire: Wire, number: int) -> None:
    wanted: Json = {
        "redirect_uris": [BACK],
        "client_name": f"{number}" + "x" * 1000,
        "token_endpoint_auth_method": "none",
    }
    status, _, body = await _ask(wire, http("POST", "/register", body=wanted))
    if status != 201:
        raise GotThrough(f"an honest registration was answered {status} {body[:200]!r}")
    query = {
        "response_type": "code",
        "client_id": json.loads(body)["client_id"],
        "redirect_uri": BACK,
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
        "state": "s" * 1000,
    }
    status, headers, body = await _ask(wire, http("GET", f"/authorize?{urlencode(query)}"))
    fields = dict(part.split(b'" value="')[:2] for part in body.split(b'type="hidden" name="')[1:])
    if status != 200 or not fields:
        raise GotThrough(f"an honest question was answered {status} {body[:200]!r}")
    form = {name.decode(): value.partition(b'"')[0].decode() for name, value in fields.items()}
    cookie = headers["set-cookie"].partition(";")[0]
    answer = urlencode({**form, "decision": "allow"}, quote_via=quote).encode()
    status, headers, _ = await _ask(wire, http("POST", "/consent", {**FORM, "Cookie": cookie}, answer))
    if status != 303:
        raise GotThrough(f"an honest answer was answered {status}")
