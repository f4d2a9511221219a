"""`Registry`: the tools, resources, prompts and completions of a server.

Components can be added and removed at any time. An invalid definition raises an error at registration, not during a
call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, Unpack, cast

from msgspec import UNSET

from ...core.principal import Principal
from ...core.rights import Rights, at, needed
from ...core.subscription_hub import PublishedChange
from ...errors import ProtocolError, RegistrationError
from ...model import Prompt, Resource, ResourceTemplate
from ...wire.dialects import OFFICIAL, Dialect
from ...wire.headers import header_map
from ..composition import NAME_LENGTH, SHORTEST_LIMIT, Composition
from ..execution import HandlerRunner
from ..signatures.functions import Function, Prepared, PromptFunction, ResourceFunction, prepare_tool
from .completions import Completer, completer_of
from .component_options import (
    OPTION_OWNERS,
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
    Registered,
    RegisteredPrompt,
    RegisteredResource,
    RegisteredTool,
    Table,
    ToolTable,
)
from .tool_versions import split
from .uri_checks import check_media_type, check_uri

if TYPE_CHECKING:
    from ...gateway.transform_chain import TransformChain

LONGEST_DESCRIPTION: Final = 10_000
"""The length of a description above which a warning is logged, or, in some dialects, the registration is refused."""


F = TypeVar("F", bound=Callable[..., Any])
logger = logging.getLogger("dovetail.server")

_SHAPING = ("name", "output_schema", "structured")


class Decorator(Protocol):
    """Registers a function and returns it unchanged."""

    def __call__(self, function: F, /) -> F: ...


def decorator(add: Callable[[Callable[..., Any]], Any]) -> Decorator:
    """A decorator that passes its function to ``add`` and returns it unchanged."""

    def decorate(function: F, /) -> F:
        add(function)
        return function

    return decorate


class Registry:
    """The components of a server: those registered with it, and the servers mounted in it.

    Each change of a list calls all ``listeners`` with the list and the change for subscribers.
    """

    def __init__(
        self,
        runner: HandlerRunner,
        *,
        dialect: Dialect = OFFICIAL,
        timeout: float | None = None,
        strict_arguments: bool = False,
        text: bool = True,
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"the timeout of a server must be more than 0 seconds, not {timeout}")
        self._runner, self._dialect, self._timeout = runner, dialect, timeout
        self.tools = ToolTable(self.changed)
        self.resources: Table[RegisteredResource] = Table("resources", "resource", self.changed)
        self.templates: Table[RegisteredResource] = Table("resources", "resource template", self.changed)
        self.prompts: Table[RegisteredPrompt] = Table("prompts", "prompt", self.changed)
        self.completions: dict[tuple[str, str], Completer] = {}
        """Completers, by reference and argument."""
        self.composition: Composition | None = None
        """The servers mounted in this one; None without any."""
        self.max_name_length = NAME_LENGTH
        """Characters that the name of a mounted tool can have with its prefix."""
        self.transforms: TransformChain | None = None
        """The views through which clients see the components; None without any."""
        self.listeners: list[Callable[[Changed | Literal["completions"], PublishedChange | None], None]] = []
        """Called after every change."""
        self.param_headers: dict[str, Mapping[tuple[str, ...], Any]] = {}
        """Tools whose arguments are mirrored in headers, for the checks of headers."""
        self.generation: int = 0
        """The number of changes so far."""
        self.component_options: dict[str, Callable[[Any, Any], None]] = {}
        """The handlers of options that extensions add, by option."""
        self.find_option: Callable[[str], None] = _no_extension
        """Registers the extension that owns an option."""
        self._dialect_options = [
            option for option, owner in OPTION_OWNERS.items() if owner.methods & dialect.methods
        ]
        """Options whose extension answers methods of this dialect."""
        self.upload_added: Callable[[], Any] = _ignore
        """Called when a tool takes an `Upload`."""
        self.version_added: Callable[[], None] = _ignore
        """Called when a tool gets a version: calls may name it from then on."""
        self.coerced: Callable[[str], None] = _ignore_tool
        """Called with the name of a tool whose arguments were coerced."""
        self._strict_arguments, self._text = strict_arguments, text
        self._restricted: dict[str, Rights] = {}
        """Restrictions, by tag."""

    def changed(self, kind: Changed, news: PublishedChange | None = None) -> None:
        """Note that the list ``kind`` has changed, and call the listeners."""
        self.generation += 1
        for listener in self.listeners:
            listener(kind, news)

    def limit_names(self, limit: int) -> None:
        """Limit the names of tools in prefixed mounts to ``limit`` characters."""
        if not isinstance(limit, int) or limit < SHORTEST_LIMIT:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(f"max_name_length is a number from {SHORTEST_LIMIT} on, not {limit!r}")
        self.max_name_length = limit
        if self.composition is not None:
            self.composition.limit_names(limit)

    def table(self, name: str) -> Table[Any]:
        """The list called ``name``: tools, resources, templates or prompts."""
        return vars(self)[name]

    def components(self) -> Iterator[Registered]:
        """Everything that is registered."""
        for table in (self.tools, self.resources, self.templates, self.prompts):
            yield from table.values()

    def scopes(self) -> frozenset[str]:
        """The scopes that any component requires, those of mounted servers included."""
        own = frozenset[str]().union(*(needed(entry.rights) for entry in self.components() if entry.rights))
        return own if self.composition is None else own | self.composition.scopes()

    def rights_of(self, uri: str) -> Rights:
        """The access rights of ``uri``; unrestricted if no resource has it."""
        found = self.find_resource(uri)
        return () if found is None else at(found[0].rights, uri, found[1])

    def find_resource(self, uri: str) -> tuple[RegisteredResource, dict[str, Any]] | None:
        """The resource with ``uri``, and the arguments that its template extracts; fixed URIs precede templates."""
        entry = self.resources.entries.get(uri)
        if entry is not None:
            return entry, {}
        for candidate in self.templates.entries.values():
            template = candidate.function.template
            values = None if template is None else template.match(uri)
            if values is None or (candidate.has is not None and not candidate.has(uri)):
                continue
            try:
                return candidate, candidate.function.decode(values)
            except ProtocolError:
                continue  # a value of the wrong type: another template may match
        return None

    # Tools

    def add_tool(
        self,
        function: Callable[..., Any] | Function | None = None,
        *,
        input_schema: Mapping[str, Any] | None = None,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> RegisteredTool:
        """`Server.add_tool`."""
        target = handler or function
        options = cast("ToolOptions", {**marked(target), **options})
        check(options, ToolOptions, "a tool", self.component_options)
        if target is None:
            raise RegistrationError("add_tool needs a function, or name, input_schema and handler")
        chosen: dict[str, Any] = {name: options.get(name) for name in _SHAPING}
        prepared = prepare_tool(target, input_schema=input_schema, **chosen)
        prepared.text = options.get("text", self._text)
        if not options.get("strict_arguments", self._strict_arguments):
            prepared.on_coerced = lambda: self.coerced(prepared.name)
        what = f"tool {prepared.name!r}"
        description = self._description(prepared.description, options, what)
        entry = RegisteredTool(
            name=prepared.name,
            definition=tool_definition(prepared, description, options),
            version=options.get("version"),
            asks_first=options.get("asks_first", False),
            resume=options.get("resume", False),
            headers=header_map(prepared.input_schema),
            **self._shared(prepared, what, options),
        )
        for option in self._dialect_options:
            if option not in self.component_options:
                self.find_option(option)
        self._apply_options(entry, options)
        self.tools.add(prepared.name, entry)
        self._note(prepared.name)
        if prepared.takes_uploads:
            self.upload_added()
        return entry

    def _apply_options(self, entry: Registered, options: Mapping[str, Any]) -> None:
        """Pass the options that extensions added to their handlers."""
        for name, value in options.items():
            owner = OPTION_OWNERS.get(name)
            if owner is not None and name not in self.component_options and value != owner.absent:
                self.find_option(name)
            if (apply := self.component_options.get(name)) is not None:
                apply(entry, value)

    def remove_tool(self, name: str) -> None:
        """`Server.remove_tool`."""
        before = self.tools.versions(split(name)[0])
        for key in (name, *(one.name for one in before)):
            self.param_headers.pop(key, None)
        self.tools.remove(name)
        self._note(split(name)[0])

    def _note(self, name: str) -> None:
        """Record the versions of a tool, and for each the arguments that are mirrored in headers."""
        for one in self.tools.versions(name):
            if one.version is not None:
                self.version_added()
            self.param_headers.pop(one.name, None)
            if one.headers:
                self.param_headers[one.name] = one.headers

    # Resources

    def add_resource(
        self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> RegisteredResource:
        """`Server.add_resource`."""
        if "{" in uri:
            entry = self._resource(uri, uri, function, options)
            self.templates.add(uri, entry)
        else:
            check_uri(uri)
            entry = self._resource(uri, None, function, options)
            self.resources.add(uri, entry)
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
        """Remove a resource or a resource template from the list."""
        (self.templates if "{" in uri else self.resources).remove(uri)

    # Prompts and completions

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> RegisteredPrompt:
        """`Server.add_prompt`."""
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
        self.prompts.add(entry.name, entry)
        return entry

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt from the list."""
        self.prompts.remove(name)

    def add_completion(self, ref: str, argument: str, function: Callable[..., Any]) -> None:
        """`Server.completion`."""
        if (ref, argument) in self.completions:
            raise RegistrationError(f"the argument {argument!r} of {ref!r} has a completion already")
        self.completions[ref, argument] = completer_of(function)
        for listener in self.listeners:
            listener("completions", None)

    # Shared helpers

    def _shared(
        self,
        prepared: Prepared,
        what: str,
        options: SharedOptions,
        uri: str | None = None,
        template: str | None = None,
    ) -> dict[str, Any]:
        """The common part of every entry."""
        rights = read_rights(options, what, addressed=uri is not None)
        if uri is not None and template is None:
            rights = at(rights, uri, {})
        tags = frozenset(options.get("tags") or ())
        return {
            "function": prepared,
            "context_parameter": prepared.signature.context_parameter,
            "call": self._runner.prepare(prepared.signature, what, options, self._timeout),
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
        """`Server.restrict`."""
        rights = read_rights({"scopes": scopes, "auth": auth}, f"tag {tag!r}")
        self._restricted[tag] = self._restricted.get(tag, ()) + rights
        for entry in self.components():
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
            if self._dialect.long_description_is_error:
                raise RegistrationError(problem, kind=kind)
            logger.log(logging.DEBUG if kind is None else logging.WARNING, problem)
        return text


def _no_extension(option: str) -> None:
    """Refuse an option of an extension in a registry without a server."""


def _ignore() -> None: ...


def _ignore_tool(name: str) -> None: ...
