"""How tools, resources and prompts get into a FastMCP server: decorators in every form, ``add_…``, ``remove_…``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from ..decorators import get_fastmcp_meta
from ..prompts.base import FunctionPrompt, Prompt
from ..prompts.decorator import PromptMeta
from ..resources.base import FunctionResource, Resource, wanted_parameters
from ..resources.decorator import ResourceMeta
from ..resources.template import FunctionResourceTemplate, ResourceTemplate
from ..tools.base import Tool
from ..tools.function_tool import FunctionTool, ToolMeta
from .providers.local import LocalProvider

_TWO_NAMES = (
    "Cannot specify both a name as first argument and as keyword argument. "
    "Use either @{0}({1!r}) or @{0}(name={2!r}), not both."
)


class Registering:
    """The part of a server its author talks to."""

    _local_provider: LocalProvider
    _tool_serializer: Callable[[Any], str] | None
    support_tasks: bool

    def component_changed(self, component: Any) -> None:
        """A component is shown now, or is not any more."""
        raise NotImplementedError

    def _adopt(self, component: Any) -> Any:
        kept = self._local_provider.add(component)
        if kept is component:
            component._owner = self
        return kept

    # Tools

    def tool(self, name_or_fn: Any = None, *, name: str | None = None, **options: Any) -> Any:
        """Register a function: ``@mcp.tool``, ``@mcp.tool()``, ``@mcp.tool("name")``, ``mcp.tool(function)``."""
        if _is_function(name_or_fn) or isinstance(name_or_fn, FunctionTool | staticmethod | partial):
            return self._add_function(name_or_fn, name, options)
        return partial(self._add_named, _chosen("tool", name_or_fn, name), options)

    def _add_named(self, name: str | None, options: dict[str, Any], fn: Any) -> Any:
        return self._add_function(fn, name, options)

    def _add_function(self, fn: Any, name: str | None, options: dict[str, Any]) -> Any:
        if isinstance(fn, staticmethod):
            fn = fn.__func__
        options.setdefault("serializer", self._tool_serializer)
        self._inherit(options)
        made = FunctionTool.from_function(fn, name=name, **options)
        self.add_tool(made)
        return made

    def _inherit(self, options: dict[str, Any]) -> None:
        """What a component does not say itself, its server says."""
        if options.get("task") is None:
            options["task"] = self.support_tasks

    def add_tool(self, tool: Any) -> Any:
        """Register a tool, or a function as one."""
        if not isinstance(tool, Tool):
            note = get_fastmcp_meta(tool)
            options = note.options() if isinstance(note, ToolMeta) else {}
            tool = FunctionTool.from_function(tool, **options)
        return self._adopt(tool)

    def remove_tool(self, name: str, version: str | None = None) -> None:
        """Take a tool out of the list."""
        self._local_provider.remove_tool(name, version)

    # Resources

    def resource(self, uri: Any, **options: Any) -> Any:
        """Register the reader of a URI, or of all URIs of a template."""
        if inspect.isroutine(uri) or not isinstance(uri, str):
            raise TypeError(
                "The @resource decorator was used incorrectly. It requires a URI as the first argument. "
                "Use @resource('uri') instead of @resource"
            )
        return partial(self._add_reader, uri, options)

    def _add_reader(self, uri: str, options: dict[str, Any], fn: Any) -> Any:
        if isinstance(fn, classmethod):
            raise ValueError(
                "To decorate a classmethod, first define the method and then call resource() on it."
            )
        if isinstance(fn, staticmethod):
            fn = fn.__func__
        options = {key: value for key, value in options.items() if key != "app"}
        self._inherit(options)
        if "{" in uri and "}" in uri:
            return self.add_template(FunctionResourceTemplate.from_function(fn, uri, **options))
        if wanted_parameters(fn):
            return self.add_template(FunctionResourceTemplate.from_function(fn, uri, **options))
        return self.add_resource(FunctionResource.from_function(fn, uri, **options))

    def add_resource(self, resource: Any, *_: Any, **__: Any) -> Any:
        """Register a resource or a template, or a function that `resource` has marked."""
        if isinstance(resource, Resource | ResourceTemplate):
            return self._adopt(resource)
        note = get_fastmcp_meta(resource)
        if not isinstance(note, ResourceMeta):
            raise TypeError(
                f"Expected Resource, ResourceTemplate, or @resource-decorated function, got {type(resource)}"
            )
        return self._add_reader(note.uri, note.options, resource)

    def add_template(self, template: ResourceTemplate) -> ResourceTemplate:
        """Register a template."""
        return self._adopt(template)

    def remove_resource(self, uri: str) -> None:
        """Take a resource out of the list."""
        self._local_provider.remove_resource(str(uri))

    # Prompts

    def prompt(self, name_or_fn: Any = None, *, name: str | None = None, **options: Any) -> Any:
        """Register a function as a prompt, in the same forms as a tool."""
        if _is_function(name_or_fn) or isinstance(name_or_fn, FunctionPrompt | staticmethod):
            fn = name_or_fn.__func__ if isinstance(name_or_fn, staticmethod) else name_or_fn
            return self._add_named_prompt(name, options, fn)
        return partial(self._add_named_prompt, _chosen("prompt", name_or_fn, name), options)

    def _add_named_prompt(self, name: str | None, options: dict[str, Any], fn: Any) -> Any:
        self._inherit(options)
        return self.add_prompt(FunctionPrompt.from_function(fn, name, **options))

    def add_prompt(self, prompt: Any) -> Any:
        """Register a prompt, or a function as one."""
        if not isinstance(prompt, Prompt):
            note = get_fastmcp_meta(prompt)
            given = note if isinstance(note, PromptMeta) else PromptMeta(options={})
            prompt = FunctionPrompt.from_function(prompt, given.name, **given.options)
        return self._adopt(prompt)

    def remove_prompt(self, name: str) -> None:
        """Take a prompt out of the list."""
        self._local_provider.remove_prompt(name)


def _is_function(given: Any) -> bool:
    return not isinstance(given, classmethod) and inspect.isroutine(given)


def _chosen(what: str, given: Any, name: str | None) -> str | None:
    """The name of what is registered: the first argument of a decorator may be it."""
    if isinstance(given, classmethod):
        raise ValueError(f"To decorate a classmethod, first define the method and then call {what}() on it.")
    if given is None:
        return name
    if not isinstance(given, str):
        raise TypeError(f"First argument to @{what} must be a function, string, or None, got {type(given)}")
    if name is not None:
        raise TypeError(_TWO_NAMES.format(what, given, name))
    return given
