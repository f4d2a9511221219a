"""`dovetail list|call|read|prompt`: run as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import pytest

from dovetail import DovetailError, sync
from dovetail.cli.call import read_target
from dovetail.cli.main import main
from dovetail.cli.output import resource
from dovetail.model import ReadResourceResult, ResourceContents
from dovetail.telemetry.terminal_sanitizer import printable

SERVER = '''
from dovetail import Server, ToolError
server = Server("shop", version="2.0")

@server.tool
async def add(a: int, b: int, label: str = "sum") -> str:
    """Add two numbers."""
    return f"{label}={a + b}"

@server.tool
async def broken() -> str:
    """Fails."""
    raise ToolError("the till is empty")

@server.resource("shop://hours", mime_type="text/plain")
async def hours() -> str:
    return "9 to 5"

@server.prompt
async def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("cli") / "shop_server.py"
    path.write_text(SERVER)
    return str(path)


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    """What a command says and ends with in a separate process, with all that is logged."""
    command = [sys.executable, "-m", "dovetail.cli.main", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False
    )


def dovetail(*words: str) -> subprocess.CompletedProcess[str]:
    """The same in this process: another takes longer to begin than most commands."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(list(words))
        except SystemExit as ended:
            status = ended.code
    return subprocess.CompletedProcess(words, int(status or 0), out.getvalue(), err.getvalue())


def test_list_shows_everything(server: str) -> None:
    done = typed("list", server)
    assert done.returncode == 0, done.stderr
    assert "shop 2.0 (2026-07-28)" in done.stdout
    assert "add(a: int, b: int" in done.stdout
    assert "shop://hours" in done.stdout
    assert "greet(name: str)" in done.stdout


def test_list_as_json_on_an_older_revision(server: str) -> None:
    done = dovetail("list", server, "--json", "--revision", "2025-06-18")
    found = json.loads(done.stdout)
    assert found["revision"] == "2025-06-18"
    assert [tool["name"] for tool in found["tools"]] == ["add", "broken"]


def test_list_shows_the_skills_alone(tmp_path: Path, server: str) -> None:
    path = tmp_path / "skilled.py"
    path.write_text(
        "from dovetail import Server\n"
        "from dovetail.extensions import Skill, Skills\n"
        "server = Server('skilled', extensions=[Skills(Skill(name='write', description='How to write.'))])\n"
    )
    done = dovetail("list", str(path), "--skills")
    assert done.returncode == 0, done.stderr
    assert "skill://write/SKILL.md" in done.stdout
    assert "How to write." in done.stdout
    assert "resources" not in done.stdout
    found = json.loads(dovetail("list", str(path), "--skills", "--json").stdout)
    assert [skill["uri"] for skill in found["skills"]] == ["skill://write/SKILL.md"]
    none = dovetail("list", server, "--skills")
    assert (none.returncode, "The server has no skills." in none.stdout) == (0, True)


def test_call_reads_values_as_the_schema_wants_them(server: str) -> None:
    done = dovetail("call", server, "add", "a=1", "b=2", "label=7")
    assert (done.returncode, done.stdout) == (0, "7=3\n"), done.stderr
    done = dovetail("call", server, "add", "a:=40", "b=2", "--json")
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "sum=42"}]


def test_options_may_stand_between_the_arguments(server: str) -> None:
    done = dovetail("call", server, "add", "--json", "a=40", "--revision", "2025-06-18", "b=2")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "sum=42"}]
    done = dovetail("prompt", server, "greet", "--timeout", "20", "name=Ada")
    assert done.returncode == 0, done.stderr


def test_a_failed_tool_prints_its_text_and_exits_with_1(server: str) -> None:
    done = dovetail("call", server, "broken")
    assert (done.returncode, done.stdout) == (1, "the till is empty\n")


def test_read_and_prompt(server: str) -> None:
    assert dovetail("read", server, "shop://hours").stdout == "9 to 5\n"
    assert dovetail("prompt", server, "greet", "name=Ada").stdout == "user:\n  Greet Ada.\n"


@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", b"abcd"])
def test_bytes_are_counted_whatever_base64_fills_them_up_to(data: bytes) -> None:
    contents = ResourceContents("shop://logo", "image/png", blob=b64encode(data).decode())
    (line,) = resource(ReadResourceResult([contents]))
    assert line.startswith(f"[image/png, {len(data)} bytes")


def test_failures_are_one_line_and_say_what_is_wrong(server: str) -> None:
    done = typed("read", server, "shop://nothing")
    assert done.returncode == 1
    assert done.stderr.startswith("dovetail read: ")
    assert "Traceback" not in done.stderr
    done = typed("list", "http://127.0.0.1:9/mcp")
    assert (done.returncode, done.stdout) == (1, "")
    assert "refused" in done.stderr
    done = typed("list", "http://127.0.0.1:9/mcp", "--json")
    assert json.loads(done.stdout)["error"]["kind"] == "transport_error"


def test_a_file_without_a_server_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    path.write_text("x = 1\n")
    done = typed("list", str(path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.endswith(
        f"ended with exit status 0: {path} has no Server, and as a program it does not speak MCP\n"
    )


def test_a_refusal_is_printed_with_its_code_and_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "refusing.py"
    path.write_text(
        "from dovetail import Refusal, Server\nserver = Server('s', version='1')\n"
        "@server.tool\ndef later() -> str:\n    raise Refusal(1003, 'ask tomorrow', 7)\n"
    )
    done = dovetail("call", str(path), "later", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"], error["code"]) == (1, "rate_limited", 1003)
    assert (error["hint"], error["retryAfter"]) == ("ask tomorrow", 7)
    assert dovetail("call", str(path), "later").stderr.endswith("Rate limit exceeded (ask tomorrow)\n")


def test_an_unknown_tool_with_arguments_is_one_line_too(server: str) -> None:
    done = typed("call", server, "nope", "a=1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("dovetail call: Unknown tool: nope; its tools are add, ")


def test_a_mistyped_name_is_answered_with_the_one_that_was_meant(server: str) -> None:
    for command, name, meant in (
        ("call", "ad", "add"),
        ("read", "shop://hour", "shop://hours"),
        ("prompt", "great", "greet"),
    ):
        done = dovetail(command, server, name)
        assert done.returncode == 1
        assert done.stderr.endswith(f"; did you mean {meant}?\n"), done.stderr


def test_advice_goes_with_what_cannot_be_reached() -> None:
    assert "(is the server running?)" in dovetail("list", "http://127.0.0.1:9/mcp").stderr
    assert "(is the server running?)" in dovetail("list", "tcp://127.0.0.1:9").stderr
    assert "(is it installed?)" in dovetail("list", "no-such-program").stderr


def test_a_reader_that_goes_away_is_no_failure_worth_a_traceback(server: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "dovetail.cli.main", "list", server]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_wrong_command_line_exits_with_2(server: str) -> None:
    assert dovetail("call", server, "add", "a").returncode == 2
    assert dovetail("call", server, "add", "a:=x").returncode == 2
    assert dovetail("list", server, "--revision", "1999").returncode == 2
    assert dovetail("call").returncode == 2


def test_targets_are_urls_files_or_commands(tmp_path: Path) -> None:
    path = tmp_path / "foreign.py"
    path.write_text("print('hello')")
    assert read_target("https://x.example/mcp").kind == "http"
    assert read_target("tcp://h:1").kind == "tcp"
    assert read_target(str(path)).command == (sys.executable, str(path))
    assert read_target("npx -y 'some server' --flag") == ["npx", "-y", "some server", "--flag"]


def test_a_server_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\x07\nc\r") == "a\\u001b[2Jb\\u0007\nc\\r"
    assert printable("\u202e\u2066\u200f\x9b\u2028\udc00\U000e0041") == (
        "\\u202e\\u2066\\u200f\\u009b\\u2028\\udc00\\udb40\\udc41"
    )
    assert printable("naïve\tשלום 👩‍🚀\xa0日本") == "naïve\tשלום 👩‍🚀\xa0日本"


HOSTILE = """
import sys
from dovetail import Server, ToolError
server = Server("sh\\x9bop", version="2.0")
sys.stderr.write("child \\x1b[2J\\u202e says\\n")
sys.stderr.flush()

@server.tool(description="It is \\u202edd.")
async def odd() -> str:
    return "\\x9b31m\\u2066 \\x1b"

@server.tool
async def fails() -> str:
    raise ToolError("no \\x9b31m\\u2066")

@server.prompt
async def ask() -> str:
    return "\\x9b\\u202e"

@server.resource("shop://odd")
async def read() -> str:
    return "\\x9b\\u202e"
"""


def test_nothing_a_server_sends_steers_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "hostile_server.py"
    path.write_text(HOSTILE)
    plain = [("list",), ("call", "odd"), ("call", "fails"), ("prompt", "ask"), ("read", "shop://odd")]
    told = [
        ("call", "un\x9bknown"),
        ("lock", "-o", "-"),
        ("list",),
        ("call", "odd"),
    ]  # one writer has them all
    said = ""
    for (command, *rest), more in [
        *((words, ()) for words in plain),
        *((words, ("--json",)) for words in told),
    ]:
        done = typed(command, str(path), *rest, *more)
        for text in (done.stdout, done.stderr):
            assert not {"\x1b", "\x9b", "\u202e", "\u2066"} & set(text), (command, rest, more)
        said = json.loads(done.stdout) if more else said
        assert "child \\u001b[2J\\u202e says" in done.stderr
    assert said["content"][0]["text"] == "\x9b31m\u2066 \x1b"


NOISY = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        answer = {"result": {**told, "serverInfo": {"name": "noisy", "version": "1"}}}
    else:
        print(json.dumps({"jsonrpc": "2.0", "method": "no\x9b31m\u202e", "params": {}}), flush=True)
        answer = {"error": {"code": -32601, "message": "no \x9b31m\u202e"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize("command", ["bridge", "gateway"])
def test_upstream_output_cannot_control_the_terminal(command: str, tmp_path: Path) -> None:
    path, target = tmp_path / "noisy.py", f"{sys.executable} {tmp_path / 'noisy.py'}"
    path.write_text(NOISY)
    if command == "gateway":
        target = str(tmp_path / "mcp.json")
        entry = {"command": sys.executable, "args": [str(path)]}
        Path(target).write_text(json.dumps({"mcpServers": {"a": entry, "b\u202e": {"command": "no\x9b"}}}))
    line = f"{sys.executable} -m dovetail.cli.main {command} '{target}' --log-level debug"
    line += " --yes" if command == "gateway" else ""
    said: list[bytes] = []
    connecting = sync.Client(read_target(line), env=os.environ, on_stderr=said.append)
    with suppress(DovetailError), connecting as client:
        client.list_tools()
    text = b"".join(said).decode()
    assert "\\u009b31m\\u202e" in text
    assert not {"\x9b", "\u202e"} & set(text)


def test_one_of_several_servers_in_a_file_is_named(tmp_path: Path) -> None:
    two = (
        SERVER
        + 'other = Server("other")\nother.tool(lambda: "of the other", name="who", description="Which one.")\n'
    )
    (tmp_path / "two.py").write_text(two)
    words = [sys.executable, "-m", "dovetail.cli.main", "call", "two.py:other", "who"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "of the other\n"), done.stderr


@pytest.mark.parametrize("words", [["explain", "all"], ["completion", "bash"], ["list", "shop.py"]])
def test_a_reader_that_stops_early_causes_no_error_message(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SERVER)
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "dovetail.cli.main", *words]
    done = subprocess.run(
        words, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == ""


GUARDED = """
import os
from dovetail import Context, Server
from dovetail.auth import StaticTokens
server = Server("guarded", auth=StaticTokens({"sesame": "ann"}))

@server.tool
async def who(ctx: Context) -> str:
    \"\"\"Who calls, and what is set.\"\"\"
    return f"{ctx.principal} {os.environ.get('UNITS')} {os.environ.get('PLACE')}"
"""


@pytest.mark.parametrize("target", ["file", "command"])
def test_a_file_or_a_command_gets_a_token_and_variables(target: str, tmp_path: Path) -> None:
    file = tmp_path / "guarded.py"
    file.write_text(GUARDED)
    (tmp_path / "values.env").write_text("PLACE=Oslo\n")
    whole = str(file) if target == "file" else f"{sys.executable} -m dovetail.cli.main run {file}"
    words = ["--env", "UNITS=metric", "--env-file", str(tmp_path / "values.env")]
    done = typed("call", whole, "who", "--auth", "sesame", *words)
    assert (done.returncode, done.stdout) == (0, "ann metric Oslo\n"), done.stderr
    wrong = typed("call", whole, "who", "--auth", "open", *words)
    assert wrong.returncode == 1
    assert "token" in wrong.stderr
    anonymous = typed("call", whole, "who")
    assert (anonymous.returncode, anonymous.stdout) == (0, "None None None\n")


def test_the_environment_of_a_server_that_is_not_started_here_cannot_be_set(tmp_path: Path) -> None:
    for words in (["--env", "A=b"], ["--env-file", str(tmp_path)]):
        done = typed("list", "http://127.0.0.1:9/mcp", *words)
        assert done.returncode == 2
        assert "--env" in done.stderr
    file = tmp_path / "s.py"
    file.write_text(SERVER)
    for words in (["--env", "NO_SUCH_VARIABLE_IS_SET"], ["--env", "=x"], ["--env-file", "none.env"]):
        assert typed("list", str(file), *words).returncode == 2
