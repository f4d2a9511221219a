"""Preparing plain callables: names, arguments, contexts, prompts, resources, raw schemas."""

from __future__ import annotations

import functools
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pydantic
import pytest
from msgspec import UNSET, Raw

from dovetail.errors import DovetailError, ProtocolError, RegistrationError
from dovetail.server.signatures.functions import PromptFunction, ResourceFunction, prepare_tool
from dovetail.server.signatures.validation_errors import InvalidArguments

if TYPE_CHECKING:
    from dovetail import Context


class Marked:
    __dovetail_context__ = True


def forecast(city: str, days: int = 3) -> str:
    """Tell the weather.

    More about it that a model need not read.

    Args:
        city: Where.
        days (int): How far
            ahead.
    """
    return city * days


# Signatures


def test_name_description_and_schema_come_from_the_function() -> None:
    function = prepare_tool(forecast)
    assert function.name == "forecast"
    assert function.description == "Tell the weather."
    assert function.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "description": "How far ahead.", "default": 3},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert not function.signature.is_async
    assert function.signature.call is forecast


def test_given_descriptions_take_precedence_over_the_docstring() -> None:
    assert prepare_tool(forecast, name="weather").name == "weather"


def test_absent_null_and_empty_arguments_are_the_same() -> None:
    def now() -> str: ...

    function = prepare_tool(now)
    for arguments in (UNSET, Raw(b"null"), Raw(b"{}"), Raw(b" {\n} ")):
        assert function.decode(arguments) == {}


def test_the_context_is_found_by_its_mark_and_left_out() -> None:
    def plain(a: int, ctx: Marked) -> None: ...
    def optional(ctx: Marked | None = None, *, a: int) -> None: ...
    def quoted(a: int, ctx: Context) -> None: ...  # imported for type checkers only

    for function in (prepare_tool(plain), prepare_tool(optional), prepare_tool(quoted)):
        assert function.signature.context_parameter == "ctx"
        assert list(function.input_schema["properties"]) == ["a"]
        assert function.decode(Raw(b'{"a":1}')) == {"a": 1}
    assert prepare_tool(forecast).signature.context_parameter is None


def test_positional_only_parameters_are_called_by_name() -> None:
    def power(base: int, exponent: int = 2, /, *, minus: int = 0) -> int:
        return base**exponent - minus

    function = prepare_tool(power)
    assert function.signature.call(**function.decode(Raw(b'{"base":3,"minus":1}'))) == 8


def test_partials_bind_for_good() -> None:
    function = prepare_tool(functools.partial(forecast, days=2), name="two")
    assert list(function.input_schema["properties"]) == ["city"]
    assert function.signature.call(**function.decode(Raw(b'{"city":"x"}'))) == "xx"
    with pytest.raises(InvalidArguments):
        function.decode(Raw(b'{"city":"x","days":9}'))


def test_methods_objects_static_methods_and_wrappers_are_functions_too() -> None:
    class Service:
        """A service."""

        async def ask(self, question: str) -> str:
            """Ask it."""
            return question

        @staticmethod
        def twice(n: int) -> int:
            return n * 2

        def __call__(self, n: int) -> int:
            """Call it."""
            return n

    ask = prepare_tool(Service().ask)
    assert (ask.name, ask.signature.is_async, ask.description) == ("ask", True, "Ask it.")
    assert ask.decode(Raw(b'{"question":"q"}')) == {"question": "q"}
    assert prepare_tool(Service.__dict__["twice"]).name == "twice"
    assert prepare_tool(Service()).name == "Service"
    assert prepare_tool(Service()).description == "Call it."

    @functools.wraps(forecast)
    def wrapper(*args: Any, **keywords: Any) -> str:
        return forecast(*args, **keywords)

    assert prepare_tool(wrapper).input_schema == prepare_tool(forecast).input_schema


def test_a_missing_annotation_takes_anything() -> None:
    def anything(value, other=None): ...

    function = prepare_tool(anything)
    assert function.input_schema["properties"] == {"value": {}, "other": {"default": None}}
    assert function.decode(Raw(b'{"value":[1,{"a":null}]}')) == {"value": [1, {"a": None}], "other": None}


def test_a_default_of_none_allows_null() -> None:
    def tool(limit: int = None): ...  # noqa: RUF013

    assert prepare_tool(tool).decode(Raw(b'{"limit":null}')) == {"limit": None}


def test_mutable_defaults_are_fresh_for_every_call() -> None:
    def tool(items: list[int] = [1]): ...  # noqa: B006

    function = prepare_tool(tool)
    function.decode(UNSET)["items"].append(2)
    assert function.decode(UNSET) == {"items": [1]}


def test_annotations_may_name_classes_of_the_scope_that_defines_the_function() -> None:
    @dataclass
    class Local:
        inner: list[Local]

    def tool(value: Local) -> Local: ...

    function = prepare_tool(tool)
    assert function.decode(Raw(b'{"value":{"inner":[{"inner":[]}]}}')) == {"value": Local([Local([])])}
    assert function.output_schema is not None


def test_pydantic_fields_give_defaults_aliases_and_descriptions() -> None:
    def tool(
        count: int = pydantic.Field(3, ge=1, description="How many."),
        names: list[str] = pydantic.Field(default_factory=lambda: ["x"]),  # noqa: B008
        kind: Annotated[str, pydantic.Field(alias="type")] = "k",
        needed: str = pydantic.Field(...),
    ) -> None: ...

    function = prepare_tool(tool)
    properties = function.input_schema["properties"]
    assert properties["count"] == {"type": "integer", "minimum": 1, "description": "How many.", "default": 3}
    assert function.input_schema["required"] == ["needed"]
    assert function.decode(Raw(b'{"needed":"n","type":"t"}')) == {
        "count": 3, "names": ["x"], "kind": "t", "needed": "n",
    }  # fmt: skip
    with pytest.raises(InvalidArguments, match="count: expected integer >= 1"):
        function.decode(Raw(b'{"needed":"n","count":0}'))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def tool(*args): ...", r"\*args"),
        ("def tool(**options): ...", r"\*\*options"),
        ("def tool(a: 'Nowhere'): ...", "parameter 'a' of 'tool' cannot be resolved"),
        ("def tool(a: 'int or'): ...", "not a type"),
        ("async def tool():\n    yield 1", "async generator"),
        ("tool = classmethod(print)", "classmethod"),
        ("tool = lambda x: x", "name="),
        ("tool = 3", "a function is needed"),
        ("class C:\n    def method(self, a: int): ...\ntool = C.method", "without its object"),
    ],
)
def test_what_cannot_be_called_by_name_is_refused_at_registration(source: str, reason: str) -> None:
    names: dict[str, Any] = {}
    exec(source, names)
    with pytest.raises(RegistrationError, match=reason):
        prepare_tool(names["tool"])


# Decoding


def test_all_that_is_wrong_is_said_at_once_with_the_name_that_was_meant() -> None:
    def tool(city: str, days: int, unit: str = "C"): ...

    with pytest.raises(InvalidArguments) as caught:
        prepare_tool(tool).decode(Raw(b'{"citty":"Oslo","days":"three","zzzzzz":1}'))
    assert caught.value.message == (
        "Invalid arguments for tool: unknown argument 'citty', did you mean 'city'?; unknown argument 'zzzzzz'; "
        "city: is required; days: expected integer, got string"
    )
    assert caught.value.data["errors"][3] == {"path": "days", "reason": "expected integer, got string"}


def test_hostile_arguments_are_answered_and_bounded() -> None:
    function = prepare_tool(forecast)
    hostile = [b"[]", b"3", b'"x"', b"{", b'{"city":}', b'{"city":"\xff"}', b'{"city":' + b"[" * 100_000]
    hostile.append(b"{" + b",".join(b'"k%d":1' % n for n in range(5000)) + b"}")
    hostile.append(b'{"' + b"x" * 100_000 + b'":1}')
    for arguments in hostile:
        with pytest.raises(InvalidArguments) as caught:
            function.decode(Raw(arguments))
        assert len(caught.value.message) < 1000
        assert len(caught.value.problems) <= 10


def test_decoding_a_simple_tool_is_one_python_call() -> None:
    decode = prepare_tool(forecast).decode
    arguments = Raw(b'{"city":"x"}')
    decode(arguments)  # the first call makes the decoder
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        decode(arguments)
    finally:
        sys.setprofile(None)
    assert calls <= 2


# Raw schemas

RAW = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "kind": {"enum": ["a", "b"]}},
    "required": ["n"],
    "additionalProperties": False,
    "x-vendor": {"kept": True},
}


def test_a_raw_schema_survives_and_is_enforced() -> None:
    function = prepare_tool(lambda arguments: arguments, name="raw", input_schema=RAW)
    assert function.input_schema == RAW
    keywords = function.decode(Raw(b'{"n":1,"kind":"a"}'))
    assert function.signature.call(**keywords) == {"n": 1, "kind": "a"}
    for wrong in (
        b"{}",
        b'{"n":0}',
        b'{"n":1,"kind":"secret"}',
        b'{"n":1,"secret":2}',
        b'{"n":"secret"}',
        b"[]",
    ):
        with pytest.raises(InvalidArguments) as caught:
            function.decode(Raw(wrong))
        assert "secret" not in caught.value.message.replace("'secret' was unexpected", "")


def test_a_raw_handler_may_ask_for_the_context() -> None:
    def handler(arguments: dict[str, Any], ctx: Marked) -> None: ...

    function = prepare_tool(handler, name="raw", input_schema={"type": "object"})
    assert function.signature.context_parameter == "ctx"
    assert function.decode(UNSET) == {"arguments": {}}
    with pytest.raises(RegistrationError, match="one dict"):
        prepare_tool(forecast, input_schema={"type": "object"})


def test_the_handler_of_a_raw_schema_may_take_keywords_of_any_name() -> None:
    def handler(ctx: Marked, **arguments: Any) -> Any:
        return arguments

    function = prepare_tool(handler, name="raw", input_schema={"type": "object"})
    assert function.signature.context_parameter == "ctx"
    given = {"from": 1, "a b": 2, "function": 3, "self": 4, "inner": 5}
    assert function.decode(Raw(msgspec.json.encode(given))) == given
    assert function.decode(UNSET) == {}

    def both(arguments: Any, **rest: Any) -> Any:
        return rest

    for wrong in (both, lambda: None, lambda *rest: rest):
        with pytest.raises(RegistrationError):
            prepare_tool(wrong, name="raw", input_schema={"type": "object"})
    with pytest.raises(RegistrationError, match="every argument must have a name"):
        prepare_tool(handler)


def test_hints_for_unknown_arguments_are_computed_for_the_first_few_only() -> None:
    function = prepare_tool(forecast)
    names = [f"citty{number}" for number in range(4000)]
    begin = time.process_time()
    with pytest.raises(InvalidArguments) as caught:
        function.decode(Raw(msgspec.json.encode(dict.fromkeys(names, 1))))
    assert time.process_time() - begin < 0.2
    reasons = [problem.reason for problem in caught.value.problems]
    assert len(reasons) == 10
    assert sum("did you mean 'city'?" in reason for reason in reasons) == 3
    prompt = PromptFunction(forecast)
    with pytest.raises(InvalidArguments) as caught:
        prompt.decode(dict.fromkeys(names, "1") | {"city": "Oslo"})
    assert sum("did you mean" in problem.reason for problem in caught.value.problems) == 3


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {},
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/x.json"}}},
        {"type": "object", "$schema": "http://example.com/other"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": []},
        {"type": "object", "required": "a"},
        {"type": "object", "$ref": "#/nope"},
    ],
)
def test_a_malformed_raw_schema_is_refused_at_registration(schema: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError) as caught:
        prepare_tool(lambda a: a, name="raw", input_schema=schema)
    assert caught.value.kind == "tool_schema_invalid"


def test_a_price_in_cents_is_a_multiple_of_0_01() -> None:
    schema = {"type": "object", "properties": {"price": {"type": "number", "multipleOf": 0.01}}}
    function = prepare_tool(lambda a: a, name="raw", input_schema=schema)
    assert function.decode(Raw(b'{"price":19.99}')) == {"a": {"price": 19.99}}
    with pytest.raises(InvalidArguments):
        function.decode(Raw(b'{"price":19.999}'))


def test_a_raw_schema_needs_jsonschema_rs_at_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    for schemas in ({"input_schema": RAW}, {"output_schema": RAW}):
        with pytest.raises(
            DovetailError, match=r"'raw' needs jsonschema_rs: pip install 'dovetail-mcp\[schema\]'"
        ):
            prepare_tool(lambda a: a, name="raw", **schemas)


# Prompts


def test_prompt_arguments_are_announced_and_converted_from_strings() -> None:
    def plan(city: str, days: int = 3, careful: bool = False, tags: list[str] | None = None):
        """Plan a trip.

        :param city: Where to.
        :param int days: How long.
        """

    prompt = PromptFunction(plan)
    assert [(a.name, a.required, a.description) for a in prompt.arguments] == [
        ("city", True, "Where to."),
        ("days", False, "How long."),
        ("careful", False, UNSET),
        ("tags", False, UNSET),
    ]
    given = {"city": "42", "days": "5", "careful": "true", "tags": '["a"]'}
    assert prompt.decode(given) == {"city": "42", "days": 5, "careful": True, "tags": ["a"]}
    assert prompt.decode({"city": "x"}) == {"city": "x"}


def test_missing_prompt_arguments_are_all_named() -> None:
    with pytest.raises(ProtocolError) as caught:
        PromptFunction(lambda a, b, c=1: None, name="p").decode(UNSET)
    assert caught.value.kind == "prompt_argument_missing"
    assert caught.value.data == {"missing": ["a", "b"]}


def test_wrong_prompt_arguments_are_refused_without_their_value() -> None:
    with pytest.raises(InvalidArguments) as caught:
        PromptFunction(forecast).decode({"city": "x", "days": "secret", "dayz": "1"})
    assert caught.value.kind == "invalid_prompt_arguments"
    assert "secret" not in caught.value.message
    assert "did you mean 'days'?" in caught.value.message


# Resources


def test_resource_parameters_are_the_variables_of_the_uri() -> None:
    def read(city: str, day: int = 1, ctx: Marked | None = None): ...

    resource = ResourceFunction(read, "weather://{city}/now{?day}")
    assert resource.template is not None
    values = resource.template.match("weather://oslo/now?day=4")
    assert values is not None
    assert resource.decode(values) == {"city": "oslo", "day": 4}
    with pytest.raises(ProtocolError) as caught:
        resource.decode({"city": "oslo", "day": "x"})
    assert caught.value.kind == "resource_not_found"


@pytest.mark.parametrize(
    ("function", "template"),
    [
        (lambda city: None, "weather://{town}/now"),
        (lambda city, day: None, "weather://{city}/now"),
        (lambda: None, "weather://{city}/now"),
        (lambda city: None, None),
        (lambda city, day: None, "weather://{city}{?day}"),
    ],
)
def test_variables_and_parameters_must_be_the_same(function: Any, template: str | None) -> None:
    with pytest.raises(RegistrationError):
        ResourceFunction(function, template, name="r")


def test_importing_the_server_side_imports_no_pydantic() -> None:
    import subprocess

    code = (
        "import sys; import dovetail.server.signatures.functions, dovetail.server.signatures.returns; "
        "print([m for m in ('pydantic', 'attr', 'jsonschema_rs', 'annotated_types') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
