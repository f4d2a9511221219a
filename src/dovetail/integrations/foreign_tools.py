"""Tools of agent frameworks in a `Server`: which module knows a tool, by the package that its class is from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final, cast

from ..errors import RegistrationError

PACKAGES: Final = {"langchain_core": "langchain", "agents": "openai_agents", "pydantic_ai": "pydantic_ai"}
"""Package of a framework → module of `dovetail.integrations`."""


def tool_options(tools: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The options of `Server.add_tool` for each of ``tools``. A list stands for its items.

    Raises:
        RegistrationError: it is neither a function nor a tool of a framework that is known here.
    """
    for tool in tools:
        if isinstance(tool, list | tuple):
            yield from tool_options(cast("Iterable[Any]", tool))
        elif (module := _module_of(tool)) is not None:
            yield from import_module(f"{__package__}.{module}").as_tools(tool)
        elif callable(tool):
            yield {"function": tool}
        else:
            known = "a function, or a tool of LangChain, the OpenAI Agents SDK or Pydantic AI"
            raise RegistrationError(f"add_tools takes {known}, not {type(tool).__name__!r}")


def _module_of(tool: Any) -> str | None:
    for kind in type(tool).__mro__:
        module = PACKAGES.get(kind.__module__.partition(".")[0])
        if module is not None:
            return module
    return None
