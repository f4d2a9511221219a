"""The options of tools, resources and prompts at registration, and the definitions built from them.

Decorators and ``add_*`` share these checks. A misspelt option is refused by name.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict, TypeGuard, cast

import msgspec
from msgspec import UNSET, Meta, ValidationError

from ...core.channel import EMPTY
from ...core.principal import Principal
from ...core.rights import Right, Rights
from ...errors import RegistrationError
from ...lazy_pattern import lazy_pattern
from ...model import CacheScope, Icon, Prompt, Resource, ResourceTemplate, Tool
from ...model.meta import APPS_EXTENSION, IDEMPOTENCY_EXTENSION, TASKS_EXTENSION
from ...wire.dialects.dialect import VENDOR
from ..execution import Run
from ..signatures.functions import Function
from ..signatures.validation_errors import NAME_SHOWN
from .tool_versions import check_version

logger = logging.getLogger("dovetail.server")

_SCOPE: Final = lazy_pattern(r"[\x21\x23-\x5b\x5d-\x7e]+")
_TOOL_NAME: Final = r"[A-Za-z0-9_.-]{1,128}"
"""Names recommended by 2025-11-25 and later."""
TaskSupport = Literal["forbidden", "optional", "required"]


class Hints(TypedDict, total=False):
    """The annotations that the specification defines; other members are allowed."""

    title: str
    readOnlyHint: bool
    destructiveHint: bool
    idempotentHint: bool
    openWorldHint: bool
    audience: list[Literal["user", "assistant"]]
    priority: Annotated[float, Meta(ge=0, le=1)]
    lastModified: str


Auth = Callable[[Principal | None], bool] | Callable[[Principal | None, str, Mapping[str, Any]], bool]
Scopes = Collection[str] | Callable[[str, Mapping[str, Any]], Collection[str]]


class RightOptions(TypedDict, total=False):
    """Options that restrict who can use a component."""

    tags: Collection[str]
    """Tags by which `Server.hide`, `Server.transform` and middleware select components."""
    scopes: Scopes
    """Scopes that a caller needs. Without them the component is not listed, and a call is refused with their names.
    For a resource it can be a function of the URI and the arguments of the template that returns them."""
    auth: Auth | None
    """A function of the principal that returns whether it can use the component; for all others it does not exist.
    For a resource it can take the principal, the URI and the arguments of the template."""


class SharedOptions(RightOptions, total=False):
    """Options of everything that appears in a list."""

    name: str
    """The name; by default that of the function."""
    title: str | None
    """A display title."""
    description: str | None
    """The description; by default the docstring of the function."""
    icons: Sequence[Icon | Mapping[str, Any]] | None
    """Icons that clients can show."""
    annotations: Mapping[str, Any] | None
    """Annotations of the specification, such as ``readOnlyHint`` of a tool."""
    meta: Mapping[str, Any] | None
    """Members of ``_meta`` in the lists."""
    timeout: float | None
    """Seconds that one call can run; by default the ``timeout`` of the server. ``None``: no limit."""
    run: Run
    """Where a synchronous function runs: "thread" (the default), "inline" (on the event loop) or "process"."""


class ToolOptions(SharedOptions, total=False):
    """Options of `Server.tool` and `Server.add_tool`."""

    output_schema: Mapping[str, Any] | None
    """The JSON Schema of the structured result; by default that of the return annotation."""
    structured: bool | None
    """Whether the result has structured content; by default the return annotation decides."""
    text: bool
    """Whether structured content is repeated as text, for clients that read the content alone; by default as the server
    says. Older revisions, which have no structured content, always get the text."""
    strict_arguments: bool
    """Refuse ``"5"`` for a number and ``"[1, 2]"`` for a list; by default as the server says."""
    limit: int | None
    """Calls of this tool that run at the same time; further calls wait in a queue."""
    queue: int
    """Calls that can wait, 100 by default; further calls are refused with 1004."""
    task: TaskSupport
    """Whether a call can ("optional"), must ("required") or cannot ("forbidden") run as a task."""
    asks_first: bool
    """On 2026-07-28, run as a call until ``await ctx.continue_as_task()``, so that the tool can request input first."""
    resume: bool
    """Whether another worker runs the task again after its worker died; results of `ctx.step` are stored for it."""
    app: Any
    """The page that shows the results: an `App`, a path, or the ``ui://`` URI of a resource."""
    version: str | None
    """The version of the tool. The newest version is listed; older ones are called as ``name@version``."""
    deprecated: bool | str
    """True, or a sentence that names the replacement."""


class ResourceOptions(SharedOptions, total=False):
    """Options of `Server.resource` and `Server.add_resource`."""

    mime_type: str | None
    """The MIME type of the content."""
    size: int | None
    """The size of the content in bytes, if it is known."""
    ttl_ms: int
    """Milliseconds for which clients can cache the content."""
    cache_scope: CacheScope
    """Whether shared caches can store the content ("public") or only the cache of one user ("private")."""


class PromptOptions(SharedOptions, total=False):
    """Options of `Server.prompt` and `Server.add_prompt`."""


class OptionOwner(NamedTuple):
    """The extension that an option belongs to."""

    id: str
    module: str
    """The module and the name of its class."""
    name: str
    absent: Any = None
    """The value that is the same as no option."""
    methods: frozenset[str] = frozenset()
    """Methods of a dialect that it answers: there every tool registers it."""


OPTION_OWNERS: Final[Mapping[str, OptionOwner]] = {
    "app": OptionOwner(APPS_EXTENSION, "dovetail.extensions.apps", "Apps"),
    "task": OptionOwner(
        TASKS_EXTENSION, "dovetail.extensions.tasks", "Tasks", "forbidden", frozenset({"tasks/create"})
    ),
    "store": OptionOwner(IDEMPOTENCY_EXTENSION, "dovetail.extensions.idempotency", "Idempotency"),
}
"""By option of a tool or of `Server`: the extension it belongs to, which the first use of the option registers."""
MARK: Final = "__dovetail_options__"
"""The attribute in which a function has options of extensions until it is registered: see `Extension.option`."""


def marked(function: Any) -> Mapping[str, Any]:
    """The options of extensions that a function was given by a decorator."""
    return getattr(function, MARK, EMPTY)


def check(
    options: Mapping[str, Any], known: type[Any], what: str, of_extensions: Collection[str] = ()
) -> None:
    """Refuse an option that neither ``known`` nor an extension has."""
    names = [*known.__annotations__, *of_extensions]  # with the inherited ones
    for option in options:
        if option not in names:
            import difflib  # only a misspelt option needs it

            near = difflib.get_close_matches(option, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise RegistrationError(f"{what} takes no option {option!r}{hint}")
    _check_kinds(options, what)
    timeout = options.get("timeout")
    if timeout is not None and not timeout > 0:
        raise RegistrationError(f"the timeout of {what} must be more than 0 seconds, not {timeout}")
    for option, least in (("limit", 1), ("queue", 0)):
        number = options.get(option)
        if number is not None and number < least:
            raise RegistrationError(f"the {option} of {what} must be at least {least}, not {number}")
    if options.get("run", "thread") not in ("thread", "inline", "process"):
        raise RegistrationError(f"{what} can run in 'thread', 'inline' or 'process', not {options['run']!r}")
    if options.get("task", "forbidden") not in ("forbidden", "optional", "required"):
        raise RegistrationError(f"task of {what} is 'forbidden', 'optional' or 'required'")


_TEXT: Final = (str, "a string")
_NUMBER: Final = (int | float, "a number")
_WHOLE: Final = (int, "a whole number")
_SWITCH: Final = (bool, "True or False")
_MAPPING: Final = (Mapping, "a mapping")
_WORDS: Final = (Collection, "a list of strings")
_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    **dict.fromkeys(("name", "title", "description", "mime_type", "version"), _TEXT),
    **dict.fromkeys(("annotations", "meta", "output_schema"), _MAPPING),
    **dict.fromkeys(("limit", "queue", "size", "ttl_ms"), _WHOLE),
    **dict.fromkeys(("structured", "asks_first", "resume", "strict_arguments", "text"), _SWITCH),
    "timeout": _NUMBER,
    "tags": _WORDS,
    "icons": (Collection, "a list of icons"),
    "deprecated": (bool | str, "True or a sentence"),
}


def _check_kinds(options: Mapping[str, Any], what: str) -> None:
    """Refuse an option of the wrong type by its name, so that no call fails because of it later."""
    for option, value in options.items():
        kind, wanted = _KINDS.get(option, (object, ""))
        if value is None:
            continue
        wrong = not isinstance(value, kind)
        if kind is Collection:
            wrong = wrong or isinstance(value, str | bytes)
        elif isinstance(value, bool) and option != "deprecated":
            wrong = kind is not bool and kind is not object
        if option == "tags" and not wrong:
            wrong = not all(isinstance(each, str) for each in cast("Collection[Any]", value))
        elif option == "cache_scope" and value not in ("public", "private"):
            wrong, wanted = True, '"public" or "private"'
        elif option == "icons" and not wrong:
            wrong = not all(isinstance(each, Icon | Mapping) for each in cast("Collection[Any]", value))
        if wrong:
            raise RegistrationError(f"the {option} of {what} must be {wanted}, not {_shown(value)}")
    for name in options.get("annotations") or ():
        meant = _HINTS.get(_plain(name))
        if meant is not None and meant != name:
            raise RegistrationError(f"annotations of {what}: there is no {name!r}; did you mean {meant!r}?")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= NAME_SHOWN else f"{text[:NAME_SHOWN]}…"


def _plain(name: Any) -> str:
    return str(name).lower().replace("_", "").removesuffix("hint")


_HINTS: Final = {_plain(name): name for name in Hints.__annotations__}
"""The annotations of the specification, by the usual misspellings."""


def read_rights(options: Mapping[str, Any], what: str, *, addressed: bool = False) -> Rights:
    """The access rights that ``scopes`` and ``auth`` define; none when both are missing.

    ``addressed`` components have a URI: their ``auth`` may take it and the arguments of the template, too.
    """
    scopes: Scopes | None = options.get("scopes", ())
    auth = options.get("auth")
    if callable(scopes):
        own = _scopes_by_address(scopes, what, addressed=addressed)
        return (own, *read_rights({"auth": auth}, what, addressed=addressed))
    if not _are_scopes(scopes):
        raise RegistrationError(f"the scopes of {what} are a list of words of visible ASCII")
    if auth is not None and (not callable(auth) or inspect.iscoroutinefunction(auth)):
        raise RegistrationError(f"auth of {what} is a plain function that takes the principal")
    if not scopes and auth is None:
        return ()
    if auth is None:
        return (Right(frozenset(scopes)),)
    if _takes_address(auth):
        if not addressed:
            raise RegistrationError(f"auth of {what} takes the principal alone: only a resource has a URI")
        return (Right(frozenset(scopes), allows_at=partial(_allowed_at, auth, what)),)
    return (Right(frozenset(scopes), partial(_allowed, auth, what)),)


def _are_scopes(value: Any) -> TypeGuard[Collection[str]]:
    return (
        isinstance(value, Collection)
        and not isinstance(value, str | bytes)
        and all(
            isinstance(scope, str) and _SCOPE.fullmatch(scope) for scope in cast("Collection[Any]", value)
        )
    )


def _scopes_by_address(scopes: Callable[..., Any], what: str, *, addressed: bool) -> Right:
    if not addressed:
        raise RegistrationError(f"the scopes of {what} are a list of words: only a resource has a URI")
    if inspect.iscoroutinefunction(scopes):
        raise RegistrationError(f"scopes of {what} is a plain function that takes the URI and the arguments")

    def required(uri: str, arguments: Mapping[str, Any]) -> frozenset[str] | None:
        try:
            found = scopes(uri, arguments)
        except Exception:
            logger.exception("scopes of %s failed: access is denied", what)
            return None
        if not _are_scopes(found):
            logger.error(
                "scopes of %s did not return a list of words of visible ASCII: access is denied", what
            )
            return None
        return frozenset(found)

    return Right(scopes_at=required)


def _takes_address(auth: Callable[..., Any]) -> bool:
    """Whether a function takes the principal, the URI and the arguments, and not the principal alone."""
    try:
        parameters = inspect.signature(auth).parameters.values()
    except (TypeError, ValueError):  # a function written in C
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in places and one.default is inspect.Parameter.empty]
    return len(needed) == 3


def _allowed_at(
    auth: Callable[..., Any],
    what: str,
    uri: str,
    arguments: Mapping[str, Any],
    principal: Principal | None,
) -> bool:
    return _allowed(lambda principal: auth(principal, uri, arguments), what, principal)


def _allowed(auth: Callable[[Principal | None], Any], what: str, principal: Principal | None) -> bool:
    """The result of the author's ``auth``; if it raises or returns an awaitable, access is denied."""
    try:
        said = auth(principal)
    except Exception:
        logger.exception("auth of %s failed: access is denied", what)
        return False
    if inspect.iscoroutine(said):
        said.close()
        logger.error("auth of %s is a coroutine function: access is denied; make it a plain function", what)
        return False
    return bool(said)


def tool_definition(prepared: Function, description: str | None, options: ToolOptions) -> Tool:
    """The definition in ``tools/list``; members that no revision defines go into ``_meta``."""
    if not re.fullmatch(_TOOL_NAME, prepared.name):
        logger.warning(
            "some clients refuse the tool name %r: use 1 to 128 of A-Z a-z 0-9 _ - .", prepared.name
        )
    check_version(options.get("version"), f"tool {prepared.name!r}")
    tool = Tool(prepared.name, prepared.input_schema)
    if prepared.output_schema is not None:
        tool.output_schema = prepared.output_schema
    describe(tool, description, options)
    _add_meta(tool, {"version": options.get("version"), "deprecated": options.get("deprecated")})
    return tool


def given(value: Any) -> Any:
    return UNSET if value is None else value


def describe(
    definition: Tool | Resource | ResourceTemplate | Prompt, description: str | None, options: SharedOptions
) -> None:
    definition.description = description or UNSET
    definition.title = given(options.get("title"))
    icons = options.get("icons")
    if icons:
        definition.icons = [_icon(icon) for icon in icons]
    annotations = options.get("annotations")
    if annotations and not isinstance(definition, Prompt):
        definition.annotations = dict(annotations)
        try:
            msgspec.convert(definition.annotations, Hints)
        except ValidationError as error:
            raise RegistrationError(f"annotations of {definition.name!r}: {error}") from None
    meta = options.get("meta")
    if meta:
        definition.meta = dict(meta)
    tags = options.get("tags")
    if tags:
        _add_meta(definition, {"tags": sorted(tags)})


def _add_meta(definition: Any, members: Mapping[str, Any]) -> None:
    own = {VENDOR + name: value for name, value in members.items() if value is not None}
    if own:
        definition.meta = {**(definition.meta or {}), **own}


def _icon(icon: Icon | Mapping[str, Any]) -> Icon:
    icon = icon if isinstance(icon, Icon) else msgspec.convert(icon, Icon)
    if not icon.src.startswith(("https:", "data:")):
        # revisions.md: a client that shows the icon must refuse other schemes.
        raise RegistrationError(f"an icon is an https: or data: URI, not {icon.src[:NAME_SHOWN]!r}")
    return icon
