"""Calling a tool as SDK 1.x does: arguments and results are checked by JSON Schema, failures are results."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from .....errors import DovetailError, Refusal
from .....json_schema.problem import SchemaError
from .... import serving
from ... import types
from ...shared.exceptions import UrlElicitationRequiredError
from ..session import Unasked
from .bridge import task_work

if TYPE_CHECKING:
    from .....json_schema.validator import Validator
    from .server import Server

log = logging.getLogger("dovetail.compat")


class Checks:
    """Validators of the tools that were listed, each made once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Validator | None]] = {}

    def fault(self, schema: dict[str, Any], value: Any) -> str | None:
        """What is wrong with ``value``, in the words of jsonschema; None when it fits."""
        made = self._made.get(id(schema))
        if made is None or made[0] is not schema:
            made = self._made[id(schema)] = schema, _validator(schema)
        if made[1] is not None:
            problems = made[1].problems(value)
            if not problems:
                return None
            return _words(schema, value) or f"{problems[0]}"
        return _words(schema, value)


def _validator(schema: dict[str, Any]) -> Validator | None:
    from .....json_schema.validator import Validator  # by now a tool is called

    try:
        return Validator(schema, trusted=True)
    except SchemaError:
        return None  # theirs finds out when it is used, and so do we


def _words(schema: dict[str, Any], value: Any) -> str | None:
    """What jsonschema says, which is what clients of such servers have always read."""
    try:
        import jsonschema
    except ImportError:
        return None
    try:
        jsonschema.validate(instance=value, schema=schema)
    except (jsonschema.ValidationError, jsonschema.SchemaError) as error:
        return error.message
    return None


def failed(text: str) -> types.CallToolResult:
    """A tool that failed, and why."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=True)


class ToolCall:
    """The handler of ``tools/call`` around the author's function."""

    def __init__(
        self, server: Server[Any, Any], function: Callable[..., Awaitable[Any]], *, validate: bool
    ) -> None:
        self._server = server
        self._function = function
        self._validate = validate
        self._checks = Checks()

    async def __call__(self, request: types.CallToolRequest) -> types.ServerResult:
        return types.ServerResult.model_construct(await self._run(request))  # nothing is left to validate

    async def _run(self, request: types.CallToolRequest) -> types.CallToolResult | types.CreateTaskResult:
        name, arguments = request.params.name, request.params.arguments or {}
        try:
            tool = await self._server.tool_definition(name)
            if self._validate and tool is not None:
                fault = self._checks.fault(tool.inputSchema, arguments)
                if fault is not None:
                    return failed(f"Input validation error: {fault}")
            value = await self._function(name, arguments)
            if isinstance(value, types.CreateTaskResult) and (work := task_work.get()) is not None:
                value = await work()
            result = self._result(value)
            if (
                isinstance(result, types.CallToolResult)
                and tool is not None
                and tool.outputSchema is not None
            ):
                return self._checked(tool.outputSchema, result)
            return result
        except (UrlElicitationRequiredError, Unasked, Refusal):
            raise
        except Exception as error:
            if isinstance(error, DovetailError) or serving.strict():
                raise
            log.debug("tool %r failed", name, exc_info=True)
            return failed(str(error))

    def _checked(self, schema: dict[str, Any], result: types.CallToolResult) -> types.CallToolResult:
        if result.isError:
            return result
        if result.structuredContent is None:
            return failed("Output validation error: outputSchema defined but no structured output returned")
        fault = self._checks.fault(schema, result.structuredContent)
        return result if fault is None else failed(f"Output validation error: {fault}")

    @staticmethod
    def _result(value: Any) -> types.CallToolResult | types.CreateTaskResult:
        if isinstance(value, types.CallToolResult | types.CreateTaskResult):
            return value
        structured = None
        if isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) == 2:
            content, structured = cast("tuple[Any, Any]", value)
        elif isinstance(value, dict):
            import json  # as above

            structured = cast("dict[str, Any]", value)
            content = [types.TextContent(type="text", text=json.dumps(value, indent=2))]
        elif isinstance(value, Iterable):
            content = cast("Iterable[Any]", value)
        else:
            return failed(f"Unexpected return type from tool: {type(value).__name__}")
        return types.CallToolResult(content=list(content), structuredContent=structured, isError=False)
