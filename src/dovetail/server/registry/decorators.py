"""How tools, resources, prompts and completions get into a server: decorators and ``add_*``, at any time.

A decorated function stays an ordinary callable, and type checkers see it unchanged. Whatever is wrong with a
definition is said here, when the module is imported, and never later to a client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, Unpack, cast, overload

from msgspec import UNSET

from ...core.principal import Principal
from ...core.rights import Rights, at
from ...errors import RegistrationError
from ...model import Prompt, Resource, ResourceTemplate
from ...settings import Limits
from ...wire.dialects import Dialect
from ...wire.headers import header_map
from ..execution import HandlerRunner
from ..signatures.functions import Function, Prepared, PromptFunction, ResourceFunction, prepare_tool
from .completions import Completer, completer_of
from .component_options import (
    PromptOptions,
    ResourceOptions,
    SharedOptions,
    ToolOptions,
    check,
    describe,
    given,
    marked,
    read_rights,
    tool_definition,
)
from .component_tables import (
    Changed,
    Register,
    Registered,
    RegisteredPrompt,
    RegisteredResource,
    RegisteredTool,
)
from .tool_versions import split
from .uri_checks import check_media_type, check_uri

if TYPE_CHECKING:
    from ...extensions.apps import Apps
    from ..server import Server

LONGEST_DESCRIPTION: Final = 10_000
"""Characters of a description above which a note is logged, or the registration refused where the dialect says
so."""


F = TypeVar("F", bound=Callable[..., Any])
logger = logging.getLogger("dovetail.server")

_SHAPING = ("name", "output_schema", "structured")


class Decorator(Protocol):
    """Takes a function, registers it, gives it back."""

    def __call__(self, function: F, /) -> F: ...


def decorator(add: Callable[[Callable[..., Any]], Any]) -> Decorator:
    """A decorator that gives its function to ``add`` and leaves it as it is."""

    def decorate(function: F, /) -> F:
        add(function)
        return function

    return decorate


class Registration:
    """The part of a `Server` its author talks to before anybody calls."""

    dialect: Dialect
    limits: Limits
    strict_arguments: bool
    """Whether tools refuse texts in place of numbers, lists and objects."""
    text: bool
    """Whether tools repeat structured content as text."""
    apps: Apps | None = None
    """Made with the first tool that has a page."""

    def __init__(self, timeout: float | None) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"the timeout of a server must be more than 0 seconds, not {timeout}")
        self.timeout = timeout
        self.runner = HandlerRunner(self.limits)
        self.register = Register(self.changed)
        self.completions: dict[tuple[str, str], Completer] = {}
        """By reference and argument."""
        self.param_headers: dict[str, Mapping[tuple[str, ...], Any]] = {}
        """Tools whose arguments are mirrored in headers, for the admission ladder."""
        self.generation: int = 0
        """Counts the changes of what is registered."""
        self._restricted: dict[str, Rights] = {}
        """By tag."""
        self.component_options: dict[str, Callable[[Any, Any], None]] = {}
        """What extensions make of the options they add, by option."""

    def _note_coercion(self, tool: str) -> None:
        """Count a call of ``tool`` whose arguments were coerced."""
        raise NotImplementedError

    def changed(self, kind: Changed) -> None:
        """A list is another one now."""
        raise NotImplementedError

    def _offer(self) -> None:
        """Something new may be offered."""
        raise NotImplementedError

    # Tools

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: str | None = None, /, **options: Unpack[ToolOptions]) -> Decorator: ...
    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a tool: ``@server.tool`` or ``@server.tool(title=…, timeout=…)``.

        Name, description and schemas come from the function, its docstring and its annotations.

        Raises:
            RegistrationError: the function or an option cannot be used; the message says what to change.
        """
        return self._decorate(function, options, self.add_tool)

    def add_tool(
        self,
        function: Callable[..., Any] | Function | None = None,
        *,
        input_schema: Mapping[str, Any] | None = None,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> RegisteredTool:
        """Register a function; or ``name``, ``input_schema`` and ``handler``: a tool with your own schema.

        That schema survives untouched, and the handler gets the arguments as one dict or as ``**arguments`` (and
        a `Context`, if it asks for one). ``list_changed`` goes out by itself.
        """
        target = handler or function
        options = cast("ToolOptions", {**marked(target), **options})
        check(options, ToolOptions, "a tool", self.component_options)
        if target is None:
            raise RegistrationError("add_tool needs a function, or name, input_schema and handler")
        chosen: dict[str, Any] = {name: options.get(name) for name in _SHAPING}
        prepared = prepare_tool(target, input_schema=input_schema, **chosen)
        prepared.text = options.get("text", self.text)
        if not options.get("strict_arguments", self.strict_arguments):
            prepared.on_coerced = partial(self._note_coercion, prepared.name)
        what = f"tool {prepared.name!r}"
        description = self._description(prepared.description, options, what)
        entry = RegisteredTool(
            name=prepared.name,
            definition=tool_definition(prepared, description, options),
            version=options.get("version"),
            task=options.get("task", "forbidden"),
            asks_first=options.get("asks_first", False),
            resume=options.get("resume", False),
            headers=header_map(prepared.input_schema),
            **self._shared(prepared, what, options),
        )
        if options.get("app") is not None and entry.name not in self.register.tools.entries:
            self._attach(entry, options.get("app"))
        self._apply_options(entry, options)
        self.register.tools.add(prepared.name, entry)
        self._note(prepared.name)
        if entry.task != "forbidden" or "tasks/create" in self.dialect.methods:
            self.enable_tasks()
        return entry

    def _apply_options(self, entry: Registered, options: Mapping[str, Any]) -> None:
        """Have extensions act on the options that they added."""
        for name in options.keys() & self.component_options.keys():
            self.component_options[name](entry, options[name])

    def _attach(self, entry: RegisteredTool, app: Any) -> None:
        from ...extensions.apps import Apps, app_of  # a server without apps never loads them

        if self.apps is None:
            self.apps = Apps(cast("Server", self))
        self.apps.attach(entry, app_of(app))

    def enable_tasks(self) -> None:
        """Serve the methods of tasks from now on; done by itself with the first tool that may run as one."""
        raise NotImplementedError

    def remove_tool(self, name: str) -> None:
        """Take a tool out of the list, with all its versions, or ``name@version`` alone; ``list_changed`` goes out."""
        before = self.register.tools.versions(split(name)[0])
        for key in (name, *(one.name for one in before)):
            self.param_headers.pop(key, None)
        self.register.tools.remove(name)
        self._note(split(name)[0])

    def _note(self, name: str) -> None:
        """Note for each version of a tool which arguments are mirrored in headers, and that there are versions."""
        for one in self.register.tools.versions(name):
            if one.version is not None:
                self._transform_calls()
            self.param_headers.pop(one.name, None)
            if one.headers:
                self.param_headers[one.name] = one.headers

    def _transform_calls(self) -> None:
        """Calls may name a version from now on."""
        raise NotImplementedError

    # Resources

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Decorator:
        """Register the reader of ``uri``, or of every URI of a template such as ``weather://{city}/now``."""
        if callable(uri):
            raise RegistrationError('a resource needs its address: @server.resource("scheme://path")')
        add = self.add_resource_template if "{" in uri else self.add_resource
        return decorator(lambda function: add(uri, function, **options))

    def add_resource(
        self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> RegisteredResource:
        """Register ``function`` as the reader of ``uri``. ``list_changed`` goes out by itself.

        Raises:
            RegistrationError: it is taken, or no URI; or the media type is none.
        """
        check_uri(uri)
        entry = self._resource(uri, None, function, options)
        self.register.resources.add(uri, entry)
        return entry

    def add_resource_template(
        self, template: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> RegisteredResource:
        """Register ``function`` as the reader of every URI that ``template`` matches.

        Raises:
            RegistrationError: the template is malformed, or its variables are not the function's parameters.
        """
        entry = self._resource(template, template, function, options)
        self.register.templates.add(template, entry)
        return entry

    def _resource(
        self, uri: str, template: str | None, function: Callable[..., Any], options: ResourceOptions
    ) -> RegisteredResource:
        options = cast("ResourceOptions", {**marked(function), **options})
        check(options, ResourceOptions, "a resource", self.component_options)
        prepared = ResourceFunction(function, template, name=options.get("name"))
        what = f"resource {uri!r}"
        check_media_type(options.get("mime_type"), what)
        if template is None:
            definition = Resource(uri, prepared.name, size=given(options.get("size")))
        else:
            definition = ResourceTemplate(uri, prepared.name)
        definition.mime_type = given(options.get("mime_type"))
        describe(definition, self._description(prepared.description, options, what), options)
        entry = RegisteredResource(
            name=uri,
            definition=definition,
            mime_type=options.get("mime_type"),
            ttl_ms=options.get("ttl_ms"),
            cache_scope=options.get("cache_scope"),
            **self._shared(prepared, what, options, uri, template),
        )
        self._apply_options(entry, options)
        return entry

    def remove_resource(self, uri: str) -> None:
        """Take a resource out of the list; ``list_changed`` goes out by itself."""
        self.register.resources.remove(uri)

    def remove_resource_template(self, template: str) -> None:
        """Take a template out of the list; ``list_changed`` goes out by itself."""
        self.register.templates.remove(template)

    # Prompts and completions

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, function: str | None = None, /, **options: Unpack[PromptOptions]) -> Decorator: ...
    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a prompt: its parameters are the blanks, its result the messages."""
        return self._decorate(function, options, self.add_prompt)

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> RegisteredPrompt:
        """Register ``function`` as a prompt. ``list_changed`` goes out by itself."""
        options = cast("PromptOptions", {**marked(function), **options})
        check(options, PromptOptions, "a prompt", self.component_options)
        prepared = PromptFunction(function, name=options.get("name"))
        what = f"prompt {prepared.name!r}"
        prompt = Prompt(prepared.name, arguments=prepared.arguments or UNSET)
        describe(prompt, self._description(prepared.description, options, what), options)
        entry = RegisteredPrompt(
            name=prepared.name, definition=prompt, **self._shared(prepared, what, options)
        )
        self._apply_options(entry, options)
        self.register.prompts.add(entry.name, entry)
        return entry

    def remove_prompt(self, name: str) -> None:
        """Take a prompt out of the list; ``list_changed`` goes out by itself."""
        self.register.prompts.remove(name)

    def completion(self, *, ref: str, argument: str) -> Decorator:
        """Register a function that completes ``argument`` of the prompt, resource template or tool ``ref``.

        It takes the value typed so far and, if it has a second parameter, the arguments already given; it
        returns a list of strings.
        """

        def add(function: Callable[..., Any]) -> None:
            if (ref, argument) in self.completions:
                raise RegistrationError(f"the argument {argument!r} of {ref!r} has a completion already")
            self.completions[ref, argument] = completer_of(function)
            self._offer()

        return decorator(add)

    # What they share

    def _decorate(self, function: Any, options: dict[str, Any], add: Callable[..., Any]) -> Any:
        if callable(function):
            add(function, **options)
            return function
        if function is not None:
            options = {"name": function, **options}
        return decorator(partial(add, **options))

    def _shared(
        self,
        prepared: Prepared,
        what: str,
        options: SharedOptions,
        uri: str | None = None,
        template: str | None = None,
    ) -> dict[str, Any]:
        """What every entry has."""
        rights = read_rights(options, what, addressed=uri is not None)
        if uri is not None and template is None:
            rights = at(rights, uri, {})
        tags = frozenset(options.get("tags") or ())
        return {
            "function": prepared,
            "context_parameter": prepared.signature.context_parameter,
            "call": self.runner.prepare(prepared.signature, what, options, self.timeout),
            "tags": tags,
            "rights": sum((self._restricted.get(tag, ()) for tag in sorted(tags)), rights),
        }

    def restrict(
        self,
        tag: str,
        *,
        scopes: Collection[str] = (),
        auth: Callable[[Principal | None], bool] | None = None,
    ) -> None:
        """Let only callers with these ``scopes`` (and for whom ``auth`` says True) use what has this ``tag``.

        It holds for what is registered already and for what comes, beside the rights each has of its own.
        """
        rights = read_rights({"scopes": scopes, "auth": auth}, f"tag {tag!r}")
        self._restricted[tag] = self._restricted.get(tag, ()) + rights
        for entry in self.register:
            if tag in entry.tags:
                entry.rights += rights
        for kind in ("tools", "resources", "prompts"):
            self.changed(kind)

    def _description(self, found: str | None, options: SharedOptions, what: str) -> str | None:
        text = options.get("description", found)
        tool, problem, kind = what.startswith("tool"), None, None
        if text is not None and len(text) > LONGEST_DESCRIPTION:
            problem = f"the description of {what} has more than {LONGEST_DESCRIPTION} characters"
            kind = "tool_description_too_long" if tool else None
        elif not text and tool:
            problem = f"{what} has no description: write a docstring"
        if problem is not None:
            if self.dialect.long_description_is_error:
                raise RegistrationError(problem, kind=kind)
            logger.log(logging.DEBUG if kind is None else logging.WARNING, problem)
        return text
