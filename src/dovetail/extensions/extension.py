"""`Extension`: what a protocol extension adds to a server or a client, and the checks of its registration.

`ordered` checks a list of extensions and puts it in order: the requirements of an extension precede it; otherwise the
given order is kept. `ServerExtensions` adds them to a server, `client_options` to a client.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast

import msgspec
from msgspec import Raw, Struct

from ..client.calling.params import own_method
from ..core.channel import EMPTY
from ..drivers.middleware_chain import Middleware, Wrapper
from ..errors import RegistrationError
from ..server.registry.component_options import MARK, OPTION_OWNERS, ToolOptions, marked
from ..server.registry.custom_methods import MethodOptions, NotificationOptions, check_name
from ..server.server import Server
from ..server.signatures.annotation_schemas import Schemas
from ..server.signatures.method_signatures import MethodFunction
from ..server.signatures.parameters import MISSING
from ..wire.methods import METHODS, Method, Reader

if TYPE_CHECKING:
    from ..server.lifecycle import Enter

F = TypeVar("F", bound=Callable[..., Any])
ComponentDecorator = Callable[[Any, Any], None]
"""Takes a registered tool, resource or prompt and the value of an option."""

_ID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""A vendor's prefix, a slash and a name (SEP-2133)."""


class ExtensionMethod(Struct, frozen=True, eq=False):
    """A method or notification of an extension: its handler, and the options of `Server.add_method`."""

    handler: Callable[..., Any]
    options: Mapping[str, Any] = EMPTY


class Extension:
    """What a protocol extension adds to a server or a client.

    ```python
    catalog = Extension("com.example/catalog", settings={"languages": ["en"]})

    @catalog.method("com.example/search")
    async def search(params: Search, ctx: Context) -> Found: ...

    server = Server("shop", extensions=[catalog])
    ```

    ``id`` has a vendor's prefix and a name. ``settings`` are declared at ``capabilities.extensions[id]`` on every
    revision. ``version`` is the version of the package, for error messages. ``requires`` names the extensions that must
    be registered too; they are set up first. ``capabilities`` are declared in addition to the settings, by path:
    ``{"acme": {}}`` or ``{"acme.sub": {}}``. ``methods`` and ``notifications`` map names to handlers; their annotations
    are the types. ``middleware`` runs inside the middleware of the application. ``decorators`` map the name of an
    option of ``@server.tool``, ``@server.resource`` and ``@server.prompt`` to a function ``(component, value)``.
    ``lifespan(service)`` is an async context manager around the life of the server or client.

    Everything can also be set by a subclass, which calls ``super().__init__()``.
    """

    id: str = ""
    version: str | None = None
    settings: Mapping[str, Any] = EMPTY
    requires: Sequence[str] = ()
    capabilities: Mapping[str, Mapping[str, Any]] = EMPTY
    middleware: Sequence[Middleware | Wrapper] = ()

    def __init__(
        self,
        id: str | None = None,
        *,
        version: str | None = None,
        settings: Mapping[str, Any] | None = None,
        requires: Sequence[str] | None = None,
        methods: Mapping[str, Callable[..., Any]] = EMPTY,
        notifications: Mapping[str, Callable[..., Any]] = EMPTY,
        capabilities: Mapping[str, Mapping[str, Any]] | None = None,
        middleware: Sequence[Middleware | Wrapper] | None = None,
        decorators: Mapping[str, ComponentDecorator] = EMPTY,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        """Set the parts of the extension. A subclass can set them as class attributes.

        Args:
            id: The id, with the prefix of a vendor: ``com.example/catalog``.
            version: The version of the package, for error messages.
            settings: The settings declared at ``capabilities.extensions[id]``.
            requires: Ids of extensions that must be registered too; they are set up first.
            methods: Handlers of requests, by method name; their annotations are the types.
            notifications: Handlers of notifications, by method name.
            capabilities: Further capabilities to declare, by path, such as ``{"acme.sub": {}}``.
            middleware: Middleware that runs inside the middleware of the application.
            decorators: Functions ``(component, value)`` by the name of an option of ``@server.tool`` and the
                other decorators.
            lifespan: A function of the server or client that returns an async context manager around its life.
        """
        given: dict[str, Any] = {
            "id": id,
            "version": version,
            "settings": settings,
            "requires": requires,
            "capabilities": capabilities,
            "middleware": middleware,
        }
        for name, value in given.items():
            if value is not None:
                setattr(self, name, value)
        self.methods: dict[str, ExtensionMethod] = {
            name: ExtensionMethod(handler) for name, handler in methods.items()
        }
        self.notifications: dict[str, ExtensionMethod] = {
            name: ExtensionMethod(handler) for name, handler in notifications.items()
        }
        self.decorators: dict[str, ComponentDecorator] = dict(decorators)
        self._lifespan = lifespan
        _check(self)

    # --- for the author of an extension ---------------------------------------------------------------------

    def method(self, name: str, **options: Unpack[MethodOptions]) -> Callable[[F], F]:
        """Answer requests for ``name`` with the decorated function; the options are those of `Server.add_method`.

        A client that did not declare the extension cannot call it, unless ``opt_in=False``.
        """

        def add(handler: F) -> F:
            self.methods[name] = ExtensionMethod(handler, options)
            return handler

        return add

    def notification(self, name: str, **options: Unpack[NotificationOptions]) -> Callable[[F], F]:
        """Run the decorated function for every notification ``name`` of the peer."""

        def add(handler: F) -> F:
            self.notifications[name] = ExtensionMethod(handler, options)
            return handler

        return add

    def decorator(self, function: ComponentDecorator) -> ComponentDecorator:
        """Add a component decorator: its name is the option, and it takes the component and the option's value."""
        self.decorators[function.__name__] = function
        return function

    def option(self, **options: Any) -> Callable[[F], F]:
        """Set options of this extension for a function, below ``@server.tool``: ``@catalog.option(label="fruit")``.

        Raises:
            RegistrationError: the extension has no such option.
        """
        for name in options:
            if name not in self.decorators:
                raise RegistrationError(
                    f"the extension {self.id!r} has no option {name!r}: it has {_listed(self.decorators)}"
                )

        def mark(function: F) -> F:
            setattr(function, MARK, {**marked(function), **options})
            return function

        return mark

    # --- called by servers and clients ----------------------------------------------------------------------

    @property
    def has_lifespan(self) -> bool:
        """Whether the extension has a lifespan to enter when the server or client starts."""
        return self._lifespan is not None or type(self).lifespan is not Extension.lifespan

    def lifespan(self, service: Any) -> AbstractAsyncContextManager[Any]:
        """An async context manager around the life of ``service``, a `Server` or a `Client`."""
        return nullcontext() if self._lifespan is None else self._lifespan(service)

    def attach(self, server: Server) -> None:
        """The extension is registered with ``server``: override it to keep the server or to register components."""

    def __repr__(self) -> str:
        version = "" if self.version is None else f", version={self.version!r}"
        return f"{type(self).__name__}({self.id!r}{version})"


def _check(extension: Extension) -> None:
    name, cls = extension.id, type(extension).__name__
    if not isinstance(cast("Any", name), str) or not _ID.fullmatch(name):
        raise RegistrationError(
            f"the id of {cls} must be a prefix and a name, such as 'com.example/catalog', not {name!r}"
        )
    for member, kind, wanted in (
        ("settings", Mapping, "a mapping"),
        ("capabilities", Mapping, "a mapping of capabilities to their settings"),
        ("requires", Sequence, "a list of ids"),
        ("middleware", Sequence, "a list of middleware"),
    ):
        value = getattr(extension, member)
        if not isinstance(value, kind) or isinstance(value, str):
            raise RegistrationError(f"{member} of the extension {name!r} must be {wanted}, not {value!r}")
    if not (extension._lifespan is None or callable(extension._lifespan)):  # pyright: ignore[reportPrivateUsage]
        raise RegistrationError(
            f"lifespan of the extension {name!r} must be a function that takes the server, "
            f"not {extension._lifespan!r}"  # pyright: ignore[reportPrivateUsage]
        )


# --- registration -------------------------------------------------------------------------------------------


def ordered(extensions: Iterable[Extension], present: Iterable[Extension] = ()) -> list[Extension]:
    """Check ``extensions`` and put them in order: required ones first, otherwise as they are written.

    ``present`` are registered already.

    Raises:
        RegistrationError: an id or a method is duplicated, a requirement is missing, or two extensions require each
        other.
    """
    before = {each.id: each for each in present}
    found: dict[str, Extension] = {}
    for each in extensions:
        if isinstance(cast("Any", each), type):
            name = cast("Any", each).__name__
            raise RegistrationError(f"extensions has the class {name}: write {name}(…)")
        if not isinstance(cast("Any", each), Extension):
            raise RegistrationError(f"extensions is a list of Extension(…), not of {each!r}")
        other = found.get(each.id) or before.get(each.id)
        if other is not None:
            raise RegistrationError(
                f"the extension {each.id!r} is registered twice, as {other!r} and {each!r}: remove one of them"
            )
        found[each.id] = each
    done: dict[str, Extension] = {}
    for each in found.values():
        _place(each, found, before, done, ())
    _check_claims([*before.values(), *done.values()])
    return list(done.values())


def _place(
    extension: Extension,
    found: Mapping[str, Extension],
    before: Mapping[str, Extension],
    done: dict[str, Extension],
    above: tuple[str, ...],
) -> None:
    name = extension.id
    if name in done:
        return
    if name in above:
        circle = " → ".join(repr(one) for one in (*above[above.index(name) :], name))
        raise RegistrationError(f"extensions require each other: {circle}; remove one of these requirements")
    for needed in extension.requires:
        if needed in before:
            continue
        if needed not in found:
            raise RegistrationError(
                f"the extension {name!r} requires {needed!r}, which is not registered: add it to extensions=[…]"
            )
        _place(found[needed], found, before, done, (*above, name))
    done[name] = extension


def _check_claims(extensions: Sequence[Extension]) -> None:
    methods, options = dict[str, Extension](), dict[str, Extension]()
    for each in extensions:
        for name in (*each.methods, *each.notifications):
            row = METHODS.get(name)
            if row is not None and row.extension != each.id:
                free = f"{each.id}/{name.rpartition('/')[2]}"
                raise RegistrationError(
                    f"the extension {each.id!r} adds the method {name!r}, which belongs to the protocol: "
                    f"choose another name, such as {free!r}"
                )
            if row is None:
                check_name(name)
            _claim(methods, name, each, "method")
        for name in each.decorators:
            owner = OPTION_OWNERS.get(name)
            if name in ToolOptions.__annotations__ and (owner is None or owner.id != each.id):
                raise RegistrationError(
                    f"the extension {each.id!r} adds the option {name!r}, which tools have already: rename it"
                )
            _claim(options, name, each, "option")


def _claim(claimed: dict[str, Extension], name: str, extension: Extension, what: str) -> None:
    other = claimed.setdefault(name, extension)
    if other is not extension:
        raise RegistrationError(
            f"the extensions {other.id!r} and {extension.id!r} both add the {what} {name!r}: "
            f"rename it in one of them, or register only one"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


class ServerExtensions(Mapping[str, Extension]):
    """The extensions of one server, by id, in the order in which they were set up."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._added: dict[str, Extension] = {}
        self._has_lifespan = False

    def __getitem__(self, id: str) -> Extension:
        return self._added[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._added)

    def __len__(self) -> int:
        return len(self._added)

    def add(self, *extensions: Extension) -> None:
        """Register further extensions.

        Raises:
            RegistrationError: the extensions conflict with each other, or with something that is registered already.
        """
        for each in ordered(extensions, self._added.values()):
            self._check_free(each)
            self._add(each)

    def add_owner(self, option: str) -> None:
        """Register the extension that owns ``option``, unless it is registered already."""
        owner = OPTION_OWNERS[option]
        if owner.id not in self._added:
            self.add(getattr(importlib.import_module(owner.module), owner.name)())

    def _check_free(self, extension: Extension) -> None:
        server = self._server
        for name in (*extension.methods, *extension.notifications):
            if name in server.dispatcher.admission.methods.custom:
                raise RegistrationError(
                    f"the extension {extension.id!r} adds the method {name!r}, which the server "
                    f"{server.name!r} has already: rename one of them, or remove that of the server"
                )

    def _add(self, extension: Extension) -> None:
        server, path = self._server, f"extensions.{extension.id}"
        self._added[extension.id] = extension
        server.dispatcher.add_capability(path, extension.settings)
        for name, settings in extension.capabilities.items():
            server.dispatcher.add_capability(name, settings)
        for name, one in extension.methods.items():
            if name in METHODS:
                # If methods of mounted servers are merged already, the merged handler calls this one.
                server.dispatcher.methods.setdefault(name, one.handler)
            else:
                server.add_method(name, one.handler, **_method_options(one, path))
        for name, one in extension.notifications.items():
            server.add_notification(name, one.handler, **cast("NotificationOptions", one.options))
        server.registry.component_options.update(extension.decorators)
        if extension.middleware:
            server.dispatcher.pipeline.append(extension.middleware)
        if extension.has_lifespan and not self._has_lifespan:
            self._has_lifespan = True
            server.lifecycle.wrap_lifespan(self._around)
        extension.attach(server)

    def _around(self, enter: Enter | None) -> Enter:
        """The lifespan of the server inside those of the extensions."""

        @asynccontextmanager
        async def entered() -> AsyncGenerator[Any, None]:
            async with AsyncExitStack() as stack:
                for each in self._added.values():
                    if each.has_lifespan:
                        await stack.enter_async_context(each.lifespan(self._server))
                yield None if enter is None else await stack.enter_async_context(enter())

        return entered


def _method_options(method: ExtensionMethod, path: str) -> MethodOptions:
    return cast("MethodOptions", {"capability": path, "opt_in": True, **method.options})


def client_options(extensions: Iterable[Extension]) -> dict[str, Any]:
    """What the extensions of a client add to its configuration: members of `ClientConfig`.

    Raises:
        RegistrationError: they conflict with each other.
    """
    found = ordered(extensions)
    capabilities: dict[str, Any] = {"extensions": {each.id: dict(each.settings) for each in found}}
    for each in found:
        for path, settings in each.capabilities.items():
            head, _, rest = path.partition(".")
            capabilities[head] = {
                **capabilities.get(head, {}),
                **({rest: dict(settings)} if rest else settings),
            }
    return {
        "capabilities": capabilities,
        "middleware": [one for each in found for one in each.middleware],
        "methods": {name: row for each in found for name, row in _client_rows(each)},
        "notifications": [
            (name, _params_of(name, one), one.handler)
            for each in found
            for name, one in each.notifications.items()
        ],
        "lifespans": [each.lifespan for each in found if each.has_lifespan],
    }


def _client_rows(extension: Extension) -> Iterator[tuple[str, Method]]:
    """The method table rows of the methods of an extension that a client calls."""
    for name, one in extension.methods.items():
        if name not in METHODS:
            function = MethodFunction(name, one.handler, one.options.get("params"), one.options.get("result"))
            result = one.options.get("result", function.signature.returns)
            row = own_method(name, _reader(result, function), f"extensions.{extension.id}")
            assert row is not None
            yield name, row


def _params_of(name: str, notification: ExtensionMethod) -> Reader | None:
    """The decoder of the params of a server's notification."""
    function = MethodFunction(name, notification.handler)
    if function.signature.context_parameter is not None:
        raise RegistrationError(f"the handler of {name!r} has a Context: a notification has none")
    parameter = next(iter(function.signature.parameters), None)
    return _reader(
        notification.options.get("params", MISSING if parameter is None else parameter.annotation), function
    )


def _reader(annotation: Any, function: MethodFunction) -> Reader | None:
    """A decoder of a result or of params as ``annotation``; None without a usable annotation."""
    if annotation in (MISSING, None, Any, dict, dict[str, Any]):
        return None
    decode = Schemas(function.signature.locals).decoder(annotation)

    def read(raw: bytes | Raw) -> Any:
        members = _decode_members(raw)
        return decode(msgspec.json.encode({k: v for k, v in members.items() if k not in _PROTOCOL}))

    return Reader(read)


_PROTOCOL: Final = frozenset({"_meta", "resultType"})
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
