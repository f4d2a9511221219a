"""`dovetail.testing.choose`: the right tools pass, wrong ones fail, and recorded answers need no model."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, ProtocolError, Server
from dovetail.client.samplers import Anthropic, Ollama, OpenAI
from dovetail.model import CreateMessageRequestParams, CreateMessageResult, TextContent, ToolUseContent
from dovetail.testing import Case, choose
from tests.support.aio import run


def shop(description: str = "Buy an item.") -> Server:
    server = Server("shop", instructions="Sell tea.")

    @server.tool(description=description)
    def buy(item: str, count: int = 1) -> str:
        return "bought"

    @server.tool(name="account.delete")
    def delete() -> str:
        """Delete the account."""
        raise AssertionError("choose never runs a tool")

    return server


class Keywords:
    """A model that calls a tool if the prompt has a word of its description."""

    def __init__(self) -> None:
        self.requests: list[CreateMessageRequestParams] = []

    async def __call__(self, request: CreateMessageRequestParams) -> CreateMessageResult:
        self.requests.append(request)
        content = request.messages[0].content
        assert isinstance(content, TextContent)
        words = set(content.text.lower().replace(".", "").split())
        found: list[Any] = [
            ToolUseContent(f"c{number}", tool.name, {"item": "tea"} if tool.name == "buy" else {})
            for number, tool in enumerate(request.tools or ())
            if str(tool.description).lower().split()[0] in words
        ]
        return CreateMessageResult("assistant", found or TextContent("Hello!"), "keywords-1")


@run
async def test_right_tools_pass_and_the_report_is_a_table() -> None:
    model = Keywords()
    cases = [
        Case("Buy some tea.", expected="buy", forbidden="account.*", arguments={"item": "tea"}),
        Case("Hello!", forbidden="*"),
        Case("Delete my account.", expected="account.close|account.delete"),
        Case("Buy tea and delete my account.", expected=["buy", "account.delete"]),
    ]
    report = await choose(shop(), cases, model=model)
    assert report.passed, str(report)
    assert report.exit_code == 0
    report.check()
    lines = str(report).splitlines()
    assert lines[0].split() == ["prompt", "called", "result"]
    assert lines[1].split() == ["Buy", "some", "tea.", "buy", "ok"]
    assert lines[2].split() == ["Hello!", "no", "tool", "ok"]
    assert lines[4].split()[-3:] == ["buy,", "account.delete", "ok"]
    assert lines[-1].startswith("4 of 4 passed (keywords-1; 2 tools, ")
    assert [result.called for result in report.results][3] == ["buy", "account.delete"]


@run
async def test_the_model_reads_the_tools_and_instructions_of_the_server() -> None:
    model = Keywords()
    await choose(shop(), [Case("Hello", forbidden="*")], model=model, system="Be brief.")
    (request,) = model.requests
    assert request.tools
    assert [tool.name for tool in request.tools] == ["buy", "account_delete"]  # what models accept
    assert request.tools[0].input_schema["properties"]["count"]["type"] == "integer"
    assert request.system_prompt == "Be brief.\n\nSell tea."


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (Case("Delete my account.", expected="buy"), "buy was not called"),
        (Case("Delete my account.", forbidden=["account.*"]), "account.delete is forbidden"),
        (Case("Delete my account.", forbidden="*"), "account.delete is forbidden"),
        (
            Case("Buy tea.", expected="buy", arguments={"item": "milk"}),
            'no call with the arguments {"item":"milk"}',
        ),
        (
            Case("Buy tea.", expected="buy", arguments={"color": None}),
            'no call with the arguments {"color":null}',
        ),
        (Case("Buy tea.", expected=["buy", "account.delete"]), "account.delete was not called"),
    ],
)
@run
async def test_wrong_tools_fail_with_the_reason(case: Case, reason: str) -> None:
    report = await choose(shop(), [case, Case("Hello!", forbidden="*")], model=Keywords())
    assert report.exit_code == 1
    assert [result.passed for result in report.results] == [False, True]
    assert f"FAILED: {reason}" in str(report)
    assert "1 of 2 passed" in str(report)
    with pytest.raises(AssertionError, match="1 of 2 passed"):
        report.check()


def fails(request: Any) -> Any:
    raise ProtocolError("sampling_failed", "the provider answered HTTP 500")


def talks_nonsense(request: Any) -> Any:
    return {"content": {"type": "nonsense"}}


@pytest.mark.parametrize("model", [fails, talks_nonsense])
@run
async def test_a_model_that_fails_is_a_failed_case(model: Any) -> None:
    report = await choose(shop(), [Case("Hello", forbidden="*")], model=model)
    assert report.exit_code == 1
    assert "the model failed" in str(report)


@run
async def test_recorded_answers_are_replayed_without_a_model(tmp_path: Path) -> None:
    file = tmp_path / "choices.json"
    cases: list[Any] = [
        {"prompt": "Buy tea.", "expected": "buy", "arguments": {"item": "tea"}},
        {"prompt": "Hello!", "forbidden": "*"},
    ]
    first = await choose(shop(), cases, model=Keywords(), record=file)
    again = await choose(shop(), cases, replay=file)
    assert again.passed
    assert str(again) == str(first)
    # Other expectations of the same answers can be judged later.
    stricter = await choose(shop(), [Case("Buy tea.", forbidden="buy")], replay=file)
    assert "buy is forbidden" in str(stricter)


@run
async def test_a_recording_does_not_hide_a_change(tmp_path: Path) -> None:
    file = tmp_path / "choices.json"
    cases = [Case("Buy tea.", expected="buy")]
    await choose(shop(), cases, model=Keywords(), record=file)
    changed = await choose(shop("Sell an item."), cases, replay=file)
    assert changed.exit_code == 1
    assert "have changed since the recording" in str(changed)
    other = await choose(shop(), [Case("Buy milk.", expected="buy")], replay=file)
    assert "no recorded answer" in str(other)
    more = await choose(shop(), cases, replay=file, runs=2)
    assert "no recorded answer" in str(more)


@run
async def test_several_runs_pass_by_their_rate(tmp_path: Path) -> None:
    file, asked = tmp_path / "choices.json", 0

    async def forgetful(request: CreateMessageRequestParams) -> Any:
        nonlocal asked
        asked += 1
        if asked == 2:
            return "I do not know."
        return {"content": {"type": "tool_use", "id": "1", "name": "buy", "input": {"item": "tea"}}}

    cases = [Case("Buy tea.", expected="buy")]
    report = await choose(shop(), cases, model=forgetful, runs=4, pass_rate=0.75, record=file)
    assert asked == 4
    assert "ok 3 of 4" in str(report)
    strict = await choose(shop(), cases, replay=file, runs=4)
    assert "FAILED 3 of 4: buy was not called" in str(strict)


@run
async def test_a_model_is_asked_a_few_prompts_at_a_time() -> None:
    running, most, gate = 0, 0, asyncio.Event()

    async def slow(request: CreateMessageRequestParams) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 4:
            gate.set()
        await gate.wait()
        running -= 1
        return "Hello"

    report = await choose(shop(), [Case(f"Hello {n}", forbidden="*") for n in range(20)], model=slow)
    assert report.passed
    assert most == 4


@run
async def test_a_connected_client_stays_connected() -> None:
    async with Client(shop()) as client:
        report = await choose(client, [Case("Buy tea.", expected="buy")], model=Keywords())
        assert report.passed
        assert (await client.call_tool("buy", {"item": "tea"})).text == "bought"


class Provider:
    """A provider of models that always answers the same."""

    def __init__(self, answer: Any) -> None:
        self.answer = json.dumps(answer).encode()
        self.status, self.headers = 200, dict[str, str]()
        self.asked: list[Any] = []

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Any]:
        yield self.send

    async def send(self, method: str, url: str, headers: Any, body: bytes, timeout: float) -> Any:
        self.asked.append(json.loads(body))
        return self

    async def read(self, limit: int) -> bytes:
        return self.answer

    def close(self) -> None: ...


CALL = {"name": "buy", "arguments": '{"item": "tea"}'}
OPENAI = {
    "model": "gpt-5",
    "choices": [
        {
            "message": {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": CALL}]},
            "finish_reason": "tool_calls",
        }
    ],
}
CLAUDE = {
    "model": "claude-5",
    "content": [{"type": "tool_use", "id": "1", "name": "buy", "input": {"item": "tea"}}],
    "stop_reason": "tool_use",
}


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@run
async def test_the_samplers_are_models(kind: str) -> None:
    provider = Provider({"openai": OPENAI, "anthropic": CLAUDE}[kind])
    model: Any = {
        "openai": lambda: OpenAI("gpt-5", api_key="k", http=provider),
        "anthropic": lambda: Anthropic("claude-5", api_key="k", http=provider),
    }[kind]()
    report = await choose(shop(), [Case("Buy tea.", expected="buy", arguments={"item": "tea"})], model=model)
    assert report.passed, str(report)
    assert "account_delete" in json.dumps(provider.asked)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs model="),
        ({"model": Ollama("llama4")}, "has no tools"),
        ({"model": Keywords(), "replay": "x"}, "not both"),
        ({"replay": "x", "record": "y"}, "record= needs model="),
        ({"model": Keywords(), "cases": []}, "at least one case"),
        ({"model": Keywords(), "runs": 0}, "runs="),
        ({"model": Keywords(), "pass_rate": 0}, "pass_rate="),
        ({"replay": "/there/is/none.json"}, "cannot be read"),
    ],
)
@run
async def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    cases = options.pop("cases", [Case("Hello", forbidden="*")])
    with pytest.raises(ValueError, match=said):
        await choose(shop(), cases, **options)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{}", b'{"tools": "x", "answers": [{"run": 1}]}'])
@run
async def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "choices.json"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="has no answers of choose"):
        await choose(shop(), [Case("Hello", forbidden="*")], replay=file)


def test_a_case_without_expectations_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs expected= or forbidden="):
        Case("Hello")


def test_what_a_model_says_cannot_control_the_terminal() -> None:
    @run
    async def scenario() -> None:
        async def evil(request: Any) -> Any:
            return {"content": {"type": "tool_use", "id": "1", "name": "\x1b[2Jbuy", "input": {}}}

        report = await choose(shop(), [Case("Hello\x1b[31m", forbidden="*")], model=evil)
        assert "\x1b" not in str(report)

    scenario()


def test_a_program_exits_with_the_code_of_the_report(tmp_path: Path) -> None:
    program = tmp_path / "check.py"
    program.write_text(
        "import asyncio, sys\n"
        "from dovetail import Server\n"
        "from dovetail.testing import Case, choose\n"
        "server = Server('s')\n"
        "cases = [Case('Hi', expected=sys.argv[1])]\n"
        "server.add_tool(lambda: 'x', name='greet', description='Greet.')\n"
        "model = lambda request: {'content': {'type': 'tool_use', 'id': '1', 'name': 'greet', 'input': {}}}\n"
        "report = asyncio.run(choose(server, cases, model=model))\n"
        "print(report)\n"
        "sys.exit(report.exit_code)\n"
    )
    for tool, code in (("greet", 0), ("other", 1)):
        done = subprocess.run(
            [sys.executable, str(program), tool], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (code, "")
        assert "greet" in done.stdout


def test_the_module_of_choose_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys, dovetail.testing as t; loaded = 'dovetail.testing.tool_choice' in sys.modules; "
        "t.choose; print(loaded, 'dovetail.testing.tool_choice' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True"]
