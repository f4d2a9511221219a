"""`choose`: does a model pick the right tools of a server?

Each case is a prompt with tools that the model must call and tools that it must not call. The model gets the tools of
the server, and its first answer is judged; no tool is run. Answers can be recorded, so that later runs need neither
a model nor a network.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, field

from ..client import Client
from ..client.server_requests.callbacks import sampled
from ..errors import DovetailError
from ..integrations.remote_tools import function_name, object_schema
from ..model import (
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolUseContent,
)
from ..telemetry.terminal_sanitizer import printable

Model = Callable[[CreateMessageRequestParams], Any | Awaitable[Any]]
"""A sampler of `dovetail.client.samplers`, or a function such as ``Client(on_sample=…)`` takes."""

MAX_TOKENS: Final = 1024
"""Tokens of one answer."""
MAX_PROMPT_WIDTH: Final = 48
"""Characters of a prompt in the table."""
CONCURRENT_REQUESTS: Final = 4
"""Requests to the model at one time."""


class Case(Struct, frozen=True):
    """A prompt, and what the model is to make of it.

    Names may have wildcards (``delete_*``), and ``price|search`` is either of two. ``Case("Hello!", forbidden="*")``
    expects an answer without a tool.

    Raises:
        ValueError: neither a tool is expected nor one forbidden.
    """

    prompt: str
    expected: str | Sequence[str] = ()
    """Tools that the model must call, all of them."""
    forbidden: str | Sequence[str] = ()
    """Tools that it must not call."""
    arguments: Mapping[str, Any] | None = None
    """Arguments that a call of an expected tool must have, with these values; others are ignored."""

    def __post_init__(self) -> None:
        if not self.expected and not self.forbidden:
            raise ValueError(
                f"the case {self.prompt!r} needs expected= or forbidden=; forbidden='*' forbids all tools"
            )

    def judge(self, calls: Sequence[ToolCall]) -> str:
        """Return why these calls are wrong; empty if they are right."""
        names = [call.name for call in calls]
        for name in names:
            if any(_matches(name, pattern) for pattern in _names(self.forbidden)):
                return f"{name} is forbidden"
        for pattern in _names(self.expected):
            if not any(_matches(name, pattern) for name in names):
                return f"{pattern} was not called"
        if self.arguments is not None and not any(self._has_arguments(call) for call in calls):
            wanted = msgspec.json.encode(dict(self.arguments)).decode()
            return f"no call with the arguments {wanted}"
        return ""

    def _has_arguments(self, call: ToolCall) -> bool:
        expected = _names(self.expected)
        if expected and not any(_matches(call.name, pattern) for pattern in expected):
            return False
        return all(
            name in call.arguments and call.arguments[name] == value
            for name, value in (self.arguments or {}).items()
        )


class ToolCall(Struct, frozen=True):
    """A tool that the model wants to call, under the name that the server gave it."""

    name: str
    arguments: dict[str, Any] = {}


class ModelAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer of the model, as it is recorded."""

    prompt: str
    run: int = 0
    model: str = ""
    calls: list[ToolCall] = []
    text: str = ""


class RecordedAnswers(Struct, frozen=True, kw_only=True):
    """The file of `choose`: the answers, and a digest of the tools that the model saw."""

    format: int = 1
    tools: str
    answers: list[ModelAnswer]


class CaseResult(Struct, frozen=True, kw_only=True):
    """A case and the answers to it."""

    case: Case
    answers: list[ModelAnswer]
    problems: list[str]
    """By answer: why it is wrong; empty if it is right."""
    passed: bool

    @property
    def called(self) -> list[str]:
        """The names of all tools that were called, in order."""
        return list(dict.fromkeys(call.name for answer in self.answers for call in answer.calls))

    @property
    def outcome(self) -> str:
        """``ok``, or what is wrong, with the number of right answers where there are several."""
        wrong = next((problem for problem in self.problems if problem), "")
        right = self.problems.count("")
        several = "" if len(self.problems) == 1 else f" {right} of {len(self.problems)}"
        return f"ok{several}" if self.passed else f"FAILED{several}: {wrong}"


class ChoiceReport(Struct, frozen=True, kw_only=True):
    """The results of all cases. ``str(report)`` is a table."""

    results: list[CaseResult]
    model: str
    tools: int
    tool_bytes: int
    """Bytes of the definitions that the model reads with every prompt."""

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return all(result.passed for result in self.results)

    @property
    def exit_code(self) -> int:
        """0 if every case passed, else 1: ``sys.exit(report.exit_code)``."""
        return 0 if self.passed else 1

    def check(self) -> None:
        """Raise an AssertionError with the table unless every case passed."""
        if not self.passed:
            raise AssertionError(f"the model did not choose the right tools\n\n{self}")

    def __str__(self) -> str:
        rows = [("prompt", "called", "result")]
        for result in self.results:
            prompt = printable(" ".join(result.case.prompt.split()))
            if len(prompt) > MAX_PROMPT_WIDTH:
                prompt = f"{prompt[: MAX_PROMPT_WIDTH - 1]}…"
            called = printable(", ".join(result.called)) or "no tool"
            rows.append((prompt, called, printable(result.outcome)))
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows]
        right = sum(result.passed for result in self.results)
        size = f"{self.tools} tools, {self.tool_bytes} bytes of definitions"
        lines += ["", f"{right} of {len(self.results)} passed ({printable(self.model)}; {size})"]
        return "\n".join(lines)


class _Chooser(Struct):
    """One run of `choose`: the tools as the model sees them, and where answers come from."""

    model: Model | None
    system: str
    tools: list[Tool]
    names: dict[str, str]
    """The name at the server, by the name that the model sees."""
    digest: str
    known: dict[tuple[str, int], ModelAnswer] | None = None
    """Recorded answers by prompt and run; None to ask the model."""
    stale: str = ""
    """Why recorded answers are not valid any more."""
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENT_REQUESTS))

    async def result(self, case: Case, runs: int, pass_rate: float) -> CaseResult:
        found = await asyncio.gather(*(self._judged(case, run) for run in range(runs)))
        problems = [problem for _, problem in found]
        passed = problems.count("") >= pass_rate * runs
        return CaseResult(
            case=case, answers=[answer for answer, _ in found], problems=problems, passed=passed
        )

    async def _judged(self, case: Case, run: int) -> tuple[ModelAnswer, str]:
        if self.known is not None:
            answer = self.known.get((case.prompt, run))
            if self.stale or answer is None:
                reason = self.stale or "no recorded answer; record again"
                return ModelAnswer(prompt=case.prompt, run=run), reason
            return answer, case.judge(answer.calls)
        async with self.slots:
            try:
                answer = await self._asked(case.prompt, run)
            except (DovetailError, msgspec.ValidationError, TypeError) as error:
                return ModelAnswer(prompt=case.prompt, run=run), f"the model failed: {error}"
        return answer, case.judge(answer.calls)

    async def _asked(self, prompt: str, run: int) -> ModelAnswer:
        assert self.model is not None
        request = CreateMessageRequestParams(
            [SamplingMessage("user", TextContent(prompt))], MAX_TOKENS, tools=self.tools
        )
        request.tool_choice = ToolChoice(mode="auto")
        if self.system:
            request.system_prompt = self.system
        found = self.model(request)
        result = sampled(await found if inspect.isawaitable(found) else found, request)
        content = cast("list[Any]", result.content) if isinstance(result.content, list) else [result.content]
        calls = [
            ToolCall(self.names.get(block.name, block.name), block.input)
            for block in content
            if isinstance(block, ToolUseContent)
        ]
        text = "\n".join(block.text for block in content if isinstance(block, TextContent))
        return ModelAnswer(prompt=prompt, run=run, model=_model_of(result), calls=calls, text=text)


async def choose(
    server: Any,
    cases: Iterable[Case | Mapping[str, Any]],
    *,
    model: Model | None = None,
    record: str | Path | None = None,
    replay: str | Path | None = None,
    runs: int = 1,
    pass_rate: float = 1.0,
    system: str = "",
) -> ChoiceReport:
    """Ask ``model`` which tools of ``server`` it calls for each prompt of ``cases``.

    ```python
    cases = [Case("What does a flight to Oslo cost?", expected="price", forbidden="book_*")]
    report = await choose(server, cases, model=OpenAI("gpt-5", api_key=key), record="choices.json")
    print(report)
    sys.exit(report.exit_code)
    ```

    Args:
        server: A `Server`, a connected `Client`, or whatever a `Client` connects to.
        cases: The prompts, as `Case` or as dicts with its members.
        model: A sampler, or a function that takes the request as ``Client(on_sample=…)`` does.
        record: Write the answers to this file.
        replay: Take the answers from this file instead of a model. A case fails if the tools have changed since.
        runs: How often the model is asked each prompt.
        pass_rate: The part of the runs that must be right.
        system: A system prompt that precedes the instructions of the server.

    Raises:
        ValueError: an option is wrong, or the file of ``replay`` cannot be read.
    """
    chosen = [case if isinstance(case, Case) else Case(**case) for case in cases]
    if (model is None) == (replay is None):
        raise ValueError("choose needs model=, or replay= with a file that record= has written; not both")
    if replay is not None and record is not None:
        raise ValueError("record= needs model=; replay= only reads its file")
    if not chosen or runs < 1 or not 0 < pass_rate <= 1:
        raise ValueError("choose needs at least one case, runs= of at least 1, and pass_rate= up to 1")
    if not getattr(model, "supports_tools", True):
        name = type(model).__name__
        raise ValueError(
            f"{name} has no tools; Ollama serves them at OpenAI('MODEL', base_url='http://127.0.0.1:11434/v1')"
        )
    chooser = await _chooser(server, model, system)
    if replay is not None:
        await _read(chooser, Path(replay))
    results = await asyncio.gather(*(chooser.result(case, runs, pass_rate) for case in chosen))
    answers = [answer for result in results for answer in result.answers]
    if record is not None:
        kept = RecordedAnswers(tools=chooser.digest, answers=answers)
        data = msgspec.json.format(msgspec.json.encode(kept), indent=2)
        await asyncio.to_thread(Path(record).write_bytes, data + b"\n")
    models = dict.fromkeys(answer.model for answer in answers if answer.model)
    return ChoiceReport(
        results=list(results),
        model=", ".join(models) or "no model",
        tools=len(chooser.tools),
        tool_bytes=len(msgspec.json.encode(chooser.tools)),
    )


async def _chooser(server: Any, model: Model | None, system: str) -> _Chooser:
    if isinstance(server, Client):
        definitions, instructions = await server.list_tools(), server.instructions
    else:
        async with Client(server) as client:
            definitions, instructions = await client.list_tools(), client.instructions
    names = {function_name(tool.name): tool.name for tool in definitions}
    tools = [
        Tool(function_name(tool.name), object_schema(tool.input_schema), description=tool.description)
        for tool in definitions
    ]
    whole = "\n\n".join(text for text in (system, instructions or "") if text)
    read = msgspec.json.encode([whole, *tools], order="sorted")
    return _Chooser(model, whole, tools, names, sha256(read).hexdigest())


async def _read(chooser: _Chooser, path: Path) -> None:
    try:
        found = msgspec.json.decode(await asyncio.to_thread(path.read_bytes), type=RecordedAnswers)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}); write it with record=") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} has no answers of choose: {error}") from None
    chooser.known = {(answer.prompt, answer.run): answer for answer in found.answers}
    if found.tools != chooser.digest:
        chooser.stale = "the tools or instructions have changed since the recording; record again"


def _names(given: str | Sequence[str]) -> Sequence[str]:
    return (given,) if isinstance(given, str) else given


def _matches(name: str, pattern: str) -> bool:
    return any(fnmatchcase(name, each) for each in pattern.split("|"))


def _model_of(result: CreateMessageResult) -> str:
    return "" if result.model == "unknown" else result.model
