"""`dovetail login|logout|whoami|doctor auth` and `--auth`, run as a user runs them."""

import asyncio
import base64
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.client.fake_http import Reply, modern
from tests.support.waiting import HANG

from .oidc import free_port
from .provider import Provider, answer, provided, refuse, visit

BROWSER = """#!{python}
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=20).status, file=open({log!r}, "a"))
"""


class Terminal:
    """Runs commands with a home of their own, and a browser whose user agrees to everything."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self.folder = folder
        self.provider = provider
        self.visits = folder / "visits"
        browser = folder / "browser"
        browser.write_text(BROWSER.format(python=sys.executable, log=str(self.visits)))
        browser.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name != "DOVETAIL_TOKEN"}
        self.environment = {**kept, "XDG_DATA_HOME": str(folder / "data"), "BROWSER": f"{browser} %s"}

    async def __call__(self, *words: str, **environment: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dovetail.cli.main",
            *words,
            env={**self.environment, **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(HANG):
            out, err = await process.communicate()
        assert process.returncode is not None
        said = (out + err).decode()
        assert not [secret for secret in self.provider.secrets if secret in said]
        return process.returncode, out.decode(), err.decode()

    def files(self) -> list[Path]:
        return [path for path in (self.folder / "data").rglob("*") if path.is_file()]


def run(folder: Path, test: Callable[[Terminal, Provider], Any]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(100), provided() as provider:
            await test(Terminal(folder, provider), provider)

    asyncio.run(inside())


def test_login_once_and_every_command_is_logged_in_until_logout(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        code, out, err = await dovetail("login", provider.url)
        assert (code, out) == (0, f"logged in to {provider.url} by {provider.issuer}\n"), err
        assert dovetail.visits.read_text() == "200\n"

        code, out, err = await dovetail("call", provider.url, "echo")
        assert code == 0, err
        assert out == "{}\n"

        code, out, _ = await dovetail("whoami", provider.url, "--json")
        known = json.loads(out)
        assert (code, known["issuer"], known["scopes"]) == (0, provider.issuer, "base")

        code, out, _ = await dovetail("logout", provider.url)
        assert (code, out) == (0, "logged out\n")
        assert [form["token_type_hint"] for form in provider.forms("/revoke")] == [
            "refresh_token",
            "access_token",
        ]
        code, _, err = await dovetail("whoami", provider.url)
        assert code == 1
        assert "dovetail login" in err
        code, _, err = await dovetail("call", provider.url, "echo")
        assert code == 1
        assert "401" in err

    run(tmp_path, test)


def test_tokens_lie_in_files_that_only_their_owner_may_read(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        await dovetail("login", provider.url)
        files = dovetail.files()
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        folders = {path.parent for path in files}
        assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
        assert all(path.is_relative_to(tmp_path / "data" / "dovetail") for path in files)
        token = next(iter(provider.granted))
        assert any(token in path.read_text() for path in files)

    run(tmp_path, test)


def test_auth_takes_a_token_and_none_beats_the_environment(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        provider.granted["from-me"] = "base"
        assert (await dovetail("call", provider.url, "echo", "--auth", "from-me"))[0] == 0
        assert (await dovetail("call", provider.url, "echo", DOVETAIL_TOKEN="from-me"))[0] == 0
        assert (await dovetail("call", provider.url, "echo", "--auth", "none", DOVETAIL_TOKEN="from-me"))[
            0
        ] == 1
        assert (await dovetail("call", provider.url, "echo", "--header", "Authorization: Bearer from-me"))[
            0
        ] == 0
        assert provider.authorizations() == []

    run(tmp_path, test)


def test_auth_oauth_logs_in_by_the_way(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        code, out, err = await dovetail("call", provider.url, "echo", "a=1", "--auth", "oauth")
        assert code == 0, err
        assert "a" in out
        assert len(provider.authorizations()) == 1

    run(tmp_path, test)


def test_a_server_that_requires_no_login_is_reported(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        from tests.client.fake_http import modern

        provider.answers["/mcp"] = modern
        code, out, _ = await dovetail("login", provider.url)
        assert (code, out) == (0, f"{provider.url} answers without authorization: no login is needed\n")

    run(tmp_path, test)


@pytest.mark.parametrize("command", ["login", "logout", "whoami"])
def test_what_is_no_url_is_a_wrong_command_line(tmp_path: Path, command: str) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        code, _, err = await dovetail(command, "server.py")
        assert code == 2
        assert "URL" in err

    run(tmp_path, test)


def test_a_login_that_fails_says_why(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        provider.metadata["code_challenge_methods_supported"] = None
        code, _, err = await dovetail("login", provider.url)
        assert code == 1
        assert "S256" in err
        assert dovetail.files() == [] or all(path.suffix == ".lock" for path in dovetail.files())

    run(tmp_path, test)


STEERING = "\x9b31m\u202e\x1b[2J"


def test_nothing_an_authorization_server_says_steers_the_terminal(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        provider.answers["/token"] = lambda _: refuse("invalid_grant", f"no{STEERING}")
        provider.resource["authorization_servers"] = [provider.issuer, STEERING]
        for words in (("login",), ("doctor", "auth", "--login")):
            for more in ((), ("--json",)):
                code, *said = await dovetail(*words, provider.url, *more)
                assert code == 1
                assert not set(STEERING[:1] + STEERING[4:6]) & set("".join(said))
        made = {"access_token": "a", "token_type": "Bearer", "scope": f"all{STEERING}"}
        provider.answers["/token"] = lambda _: answer(200, made)
        for words in (("login",), ("whoami",)):
            for more in ((), ("--json",)):
                code, *said = await dovetail(*words, provider.url, *more)
                assert code == 0
                assert not set(STEERING[:1] + STEERING[4:6]) & set("".join(said))

    run(tmp_path, test)


# --- doctor -----------------------------------------------------------------------------------------------------------


def test_the_doctor_stops_before_the_browser(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        code, out, err = await dovetail("doctor", "auth", provider.url)
        assert code == 0, out + err
        steps = [line.split()[1].rstrip(":") for line in out.splitlines() if line.startswith("ok")]
        assert steps == ["challenge", "resource", "metadata", "pkce", "registration", "authorization"]
        assert (provider.authorizations(), provider.asked("/register")) == ([], [])

    run(tmp_path, test)


def test_the_doctor_checks_the_token_on_request(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        code, out, err = await dovetail("doctor", "auth", provider.url, "--login", "--json")
        assert code == 0, out + err
        found = json.loads(out)
        assert found["ok"]
        assert [finding["check"] for finding in found["findings"]][-2:] == ["token", "accepted"]

    run(tmp_path, test)


Broken = Callable[[Provider], Any]
BROKEN: list[tuple[str, Broken, str, str]] = [
    ("resource", lambda p: p.resource.update(resource="https://other.example"), "server", "other.example"),
    (
        "resource",
        lambda p: p.answers.update({RESOURCE: lambda _: Reply(200, {}, b"{")}),
        "server",
        "cannot be read",
    ),
    ("metadata", lambda p: p.resource.update(authorization_servers=[]), "server", "authorization_servers"),
    (
        "metadata",
        lambda p: p.metadata.update(issuer="https://x.example"),
        "authorization server",
        "identical",
    ),
    ("metadata", lambda p: p.answers.update({METADATA: lambda _: Reply(500)}), "authorization server", "500"),
    (
        "pkce",
        lambda p: p.metadata.update(code_challenge_methods_supported=["plain"]),
        "authorization server",
        "S256",
    ),
    ("registration", lambda p: p.metadata.update(registration_endpoint=None), "client", "--client-id"),
]
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server/as"


@pytest.mark.parametrize(("step", "spoil", "fault", "words"), BROKEN, ids=[f"{b[0]}-{b[3]}" for b in BROKEN])
def test_the_doctor_names_the_first_broken_step_and_whose_fault_it_is(
    tmp_path: Path, step: str, spoil: Broken, fault: str, words: str
) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        spoil(provider)
        code, out, _ = await dovetail("doctor", "auth", provider.url)
        assert code == 1
        failed = out[out.index("BROKEN") :]
        assert failed.startswith(f"BROKEN {step}: ")
        assert f"         fault: the {fault}\n" in failed
        assert words in failed
        assert out.count("BROKEN") == 1

    run(tmp_path, test)


def test_the_doctor_says_that_a_server_refuses_its_own_tokens(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        def never(request: Any) -> Reply:
            where = f"{provider.base}{RESOURCE}"
            return Reply(401, {"WWW-Authenticate": f'Bearer resource_metadata="{where}"'})

        provider.answers["/mcp"] = never
        code, out, _ = await dovetail("doctor", "auth", provider.url, "--login")
        assert code == 1
        assert "BROKEN accepted" in out
        assert "audience" in out

    run(tmp_path, test)


def test_the_doctor_reports_an_unreachable_server(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        code, out, _ = await dovetail("doctor", "auth", "http://127.0.0.1:9/mcp")
        assert code == 1
        assert "BROKEN challenge" in out
        assert "fault: the network" in out

    run(tmp_path, test)


# --- without a browser here -------------------------------------------------------------------------------------------


def with_devices(provider: Provider) -> None:
    """The provider lets users type in codes; the first question comes too early."""
    provider.metadata["device_authorization_endpoint"] = f"{provider.base}/device"
    provider.secrets.append("dev1ce-code")
    begun = {
        "device_code": "dev1ce-code",
        "user_code": "ABCD-EFGH",
        "verification_uri": f"{provider.base}/code",
        "interval": 1,
    }
    provider.answers["/device"] = lambda _: answer(200, begun)
    early = [refuse("authorization_pending")]
    provider.answers["/token"] = lambda request: (
        early.pop() if early and b"device_code" in request.body else None
    )


def test_login_without_a_browser_shows_the_page_and_waits_for_it(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dovetail.cli.main", "login", provider.url, "--no-browser", "--port", str(port),
            env=dovetail.environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        page = ""
        async with asyncio.timeout(HANG):
            while not page.startswith("http"):
                page = (await process.stderr.readline()).decode().strip()
            assert page.startswith(f"{provider.base}/authorize?")
            back = await visit(page)
            assert back.startswith(f"http://127.0.0.1:{port}/callback?")
            async with HttpFetch().session() as send:
                (await send("GET", back, {})).close()
            out, _ = await process.communicate()
        assert (process.returncode, out.decode()) == (
            0,
            f"logged in to {provider.url} by {provider.issuer}\n",
        )
        assert not dovetail.visits.exists()

    run(tmp_path, test)


def test_login_with_a_device_given_by_hand_and_log_out_of_it(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        with_devices(provider)
        code, out, err = await dovetail("login", provider.url, "--device", "--client-id", "by-hand")
        assert code == 0, err
        assert f"Visit {provider.base}/code and enter the code ABCD-EFGH" in err
        assert (await dovetail("call", provider.url, "echo"))[0] == 0
        token = next(iter(provider.granted))
        code, out, _ = await dovetail("logout", provider.url)
        assert (code, out) == (0, "logged out\n")
        revoked = provider.forms("/revoke")
        assert [form["client_id"] for form in revoked] == ["by-hand", "by-hand"]
        assert revoked[1]["token"] == token

    run(tmp_path, test)


DEVICE = """
import asyncio, sys
from dovetail import Client
from dovetail.auth import DeviceCode, MemoryTokens

async def main():
    async with Client(sys.argv[1], revision="modern", auth=DeviceCode("by-hand", store=MemoryTokens())) as client:
        print(await client.call_tool("echo"))

asyncio.run(main())
"""


def test_a_program_whose_output_is_a_pipe_shows_the_code_before_it_waits(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        with_devices(provider)
        seen = False
        answers = provider.answers["/token"]
        provider.answers["/token"] = lambda request: (
            answers(request) if seen else refuse("authorization_pending")
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DEVICE, provider.url, stdout=asyncio.subprocess.PIPE
        )  # fmt: skip
        assert process.stdout is not None
        async with asyncio.timeout(HANG):
            line = (await process.stdout.readline()).decode()
            assert line == f"Visit {provider.base}/code and enter the code ABCD-EFGH\n"
            seen = True
            await process.communicate()
        assert process.returncode == 0

    run(tmp_path, test)


def test_the_doctor_walks_the_way_of_a_device(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        with_devices(provider)
        code, out, err = await dovetail(
            "doctor", "auth", provider.url, "--device", "--login", "--client-id", "by-hand"
        )
        assert code == 0, out + err
        assert "ABCD-EFGH" in err
        assert "ok     accepted" in out
        assert provider.authorizations() == []

    run(tmp_path, test)


def test_the_doctor_reports_that_device_login_is_not_supported(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        code, out, _ = await dovetail("doctor", "auth", provider.url, "--device", "--client-id", "by-hand")
        assert code == 1
        assert "BROKEN authorization" in out
        assert "device_authorization_endpoint" in out
        assert "fault: the authorization server" in out

    run(tmp_path, test)


def test_the_doctor_says_why_the_server_does_not_take_the_token(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        reason = "the audience of the token (aud) is not this server"
        challenge = f'Bearer error="invalid_token", error_description="{reason}"'
        provider.answers["/mcp"] = lambda request: (
            Reply(401, {"WWW-Authenticate": challenge}) if "authorization" in request.headers else None
        )
        code, out, _ = await dovetail("doctor", "auth", provider.url, "--login")
        assert code == 1
        assert "BROKEN accepted: " in out
        assert "the audience of the token (aud) is not this server" in out

    run(tmp_path, test)


def test_login_at_a_server_without_oauth_says_so_and_asks_for_a_token(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        provider.answers["/mcp"] = lambda request: (
            Reply(401) if request.headers.get("authorization") != "Bearer plain" else modern(request)
        )
        for path in (
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-authorization-server/as",
            "/.well-known/oauth-authorization-server",
            "/authorize",
            "/register",
        ):
            provider.answers[path] = lambda _: Reply(404)
        code, _, err = await dovetail("login", provider.url)
        assert code == 1
        assert "without OAuth" in err
        assert "--auth TOKEN" in err
        assert (await dovetail("call", provider.url, "echo", "--auth", "plain"))[0] == 0
        assert (await dovetail("call", provider.url, "echo", DOVETAIL_TOKEN="plain"))[0] == 0

    run(tmp_path, test)


def test_whoami_reports_the_token_in_the_environment(tmp_path: Path) -> None:
    async def test(dovetail: Terminal, provider: Provider) -> None:
        claims = base64.urlsafe_b64encode(b'{"sub": "ann"}').decode().rstrip("=")
        code, out, _ = await dovetail("whoami", provider.url, "--json", DOVETAIL_TOKEN=f"e30.{claims}.c2ln")
        assert code == 0
        found = {"subject": "ann", "resource": provider.url, "source": "DOVETAIL_TOKEN"}
        assert json.loads(out) == found

    run(tmp_path, test)
