"""MCP Apps (extension ``io.modelcontextprotocol/ui``, 2026-01-26): tools whose results a host shows in a page of the
server.

```python
@server.tool(app=App(file="chart.html", csp={"resourceDomains": ["https://cdn.example.com"]}))
def sales(year: int) -> list[Month]: ...
```

The page is a ``ui://`` resource. Its ``_meta`` lists the origins and permissions that it may use, and the ``_meta`` of
the tool names the page. A client that does not declare the extension gets an ordinary tool, with ``fallback`` as its
text. Tools for the page alone (``visibility=["app"]``) are not listed for it. This is not access control: use
``scopes``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, structs
from msgspec.structs import replace

from ..errors import RegistrationError
from ..model import CallToolResult, ResourceContents, TextContent
from ..model.meta import APP_MIME_TYPE, APPS_EXTENSION, FLAT_PAGE
from ..server.input_requests.input_required import InputRequired
from ..server.list_pages import shows_apps
from ..server.server import Server
from ..server.signatures.depends import CONTEXT
from ..server.signatures.functions import Function
from ..server.signatures.returns import tool_result
from ..settings import check_kinds
from ..settings.parameter_kinds import MAPPING, NAMES, PATH, TEXT, Kind, or_none
from .extension import Extension

if TYPE_CHECKING:
    from ..server.registry.component_tables import RegisteredTool

EXTENSION: Final = APPS_EXTENSION
HTML: Final = APP_MIME_TYPE
SCHEME: Final = "ui://"
_CSP: Final = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
_PERMISSIONS: Final = ("camera", "microphone", "geolocation", "clipboardWrite")
_ORIGIN: Final = re.compile(r"(https|wss|http|ws)://(\*\.)?[A-Za-z0-9.-]+(:[0-9]{1,5})?")
"""Origins allowed in a Content-Security-Policy: without characters that could start another directive."""
Visibility = Sequence[Literal["model", "app"]]
_APP_KINDS: Final[Mapping[str, Kind]] = {
    "html": or_none(TEXT),
    "file": or_none(PATH),
    "uri": or_none(TEXT),
    "csp": MAPPING,
    "permissions": NAMES,
    "domain": or_none(TEXT),
    "prefers_border": (bool | None, "True, False or None"),
    "visibility": NAMES,
    "fallback": or_none((str | Callable, "a string or a function")),
}


class App(Struct, frozen=True, kw_only=True):
    """The page that shows the results of a tool. Set one of ``html``, ``file`` and ``uri``."""

    html: str | None = None
    """The HTML of the page."""
    file: str | os.PathLike[str] | None = None
    """The file that contains the HTML."""
    uri: str | None = None
    """The ``ui://`` URI of a resource that is registered separately, or the URI to give to the page."""
    csp: Mapping[str, Sequence[str]] = {}
    """Origins that the page may use, by ``connectDomains``, ``resourceDomains``, ``frameDomains`` and
    ``baseUriDomains``. By default none."""
    permissions: Sequence[str] = ()
    """Browser permissions that the page needs, such as "camera"."""
    domain: str | None = None
    """The origin from which the page should be served."""
    prefers_border: bool | None = None
    """Whether the page should have a border."""
    visibility: Visibility = ("model", "app")
    """Whether the model, the page, or both can call the tool."""
    fallback: str | Callable[[Any], str] | None = None
    """The text for clients without apps, or a function from the result of the tool to this text."""

    def __post_init__(self) -> None:
        check_kinds(_APP_KINDS, structs.asdict(self))

    def meta(self) -> dict[str, Any]:
        """The ``_meta`` of the page's resource."""
        said: dict[str, Any] = {
            "csp": {name: list(origins) for name, origins in self.csp.items()},
            "permissions": {name: {} for name in self.permissions},
            "domain": self.domain,
        }
        found = {name: value for name, value in said.items() if value}
        return found if self.prefers_border is None else {**found, "prefersBorder": self.prefers_border}


class Apps(Extension):
    """MCP Apps: tools whose results a host shows as a page. The option ``app=`` of a tool registers it."""

    id = EXTENSION
    settings = MappingProxyType({"mimeTypes": [HTML]})
    _server: Server

    def __init__(self) -> None:
        super().__init__(decorators={"app": self._attach})

    def attach(self, server: Server) -> None:
        """Register pages with ``server``."""
        self._server = server
        server.dispatcher.admission.methods.extend("ping")  # hosts of pages send it on every revision

    def _attach(self, entry: RegisteredTool, value: Any) -> None:
        """Set the page of ``entry``, unless another version of the tool has one."""
        server = self._server
        if value is None or entry.name in server.registry.tools:
            return
        app = app_of(value)
        _check(app, entry.name)
        uri = app.uri or f"{SCHEME}{re.sub('[^A-Za-z0-9._-]+', '-', server.name)}/{entry.name}.html"
        if app.html is not None or app.file is not None:
            reader = partial(_page, uri, app)
            server.registry.add_resource(
                uri, reader, name=entry.name, mime_type=HTML, meta={"ui": app.meta()} if app.meta() else None
            )
        elif uri not in server.registry.resources:
            raise RegistrationError(
                f"tool {entry.name!r}: register the resource {uri} before the tool, or give html or file"
            )
        definition = entry.definition
        shown = {"resourceUri": uri, "visibility": list(app.visibility)}
        definition.meta = {**(definition.meta or {}), "ui": shown, FLAT_PAGE: uri}
        if app.fallback is not None:
            own = entry.context_parameter
            entry.call = partial(_with_fallback, entry.call, own, entry.function, app.fallback)
            entry.context_parameter = own or CONTEXT


def app_of(value: Any) -> App:
    """Convert the option ``app=``: an `App`, the path of a page, or the URI of a page.

    Raises:
        RegistrationError: it has another type.
    """
    if isinstance(value, App):
        return value
    if isinstance(value, str) and value.startswith(SCHEME):
        return App(uri=value)
    if isinstance(value, str | os.PathLike):
        return App(file=value)  # pyright: ignore[reportUnknownArgumentType]
    raise RegistrationError(f"app must be an App, a path or a ui:// URI, not {type(value).__name__}")


def _page(uri: str, app: App) -> ResourceContents:
    text = app.html if app.file is None else Path(app.file).read_text(encoding="utf-8")
    found = ResourceContents(uri, mime_type=HTML, text=text or "")
    if app.meta():
        found.meta = {"ui": app.meta()}
    return found


async def _with_fallback(
    call: Callable[..., Any], own: str | None, function: Function, fallback: Any, /, **arguments: Any
) -> Any:
    context = arguments[own or CONTEXT]
    if own is None:
        del arguments[CONTEXT]
    value = await call(**arguments)
    if type(value) is InputRequired or shows_apps(context.client_capabilities):
        return value
    result = tool_result(value, function)
    if not isinstance(result, CallToolResult) or result.is_error is True:
        return result
    text = fallback if isinstance(fallback, str) else fallback(value)
    return replace(result, content=[TextContent(text)])


def _check(app: App, name: str) -> None:
    """Refuse options that a host would, or should, reject."""
    if app.html is not None and app.file is not None:
        raise RegistrationError(f"the app of tool {name!r} has html or a file, not both")
    if app.file is not None and not Path(app.file).is_file():
        raise RegistrationError(f"the app of tool {name!r}: the file {app.file} does not exist")
    if app.html is None and app.file is None and app.uri is None:
        raise RegistrationError(f"the app of tool {name!r} needs html, a file or a uri")
    if app.uri is not None and not app.uri.startswith(SCHEME):
        raise RegistrationError(f"the page of tool {name!r} needs a {SCHEME} URI, not {app.uri!r}")
    for member, origins in app.csp.items():
        wrong = [origin for origin in origins if not _ORIGIN.fullmatch(origin)]
        if member not in _CSP or isinstance(origins, str) or wrong:
            said = f"{wrong[0]!r} is not an origin" if member in _CSP and wrong else f"not {member!r}"
            raise RegistrationError(
                f"csp of tool {name!r} must have lists of origins as {', '.join(_CSP)}: {said}"
            )
    for one in app.permissions:
        if one not in _PERMISSIONS:
            raise RegistrationError(
                f"permissions of tool {name!r} must be among {', '.join(_PERMISSIONS)}, not {one!r}"
            )
    if not app.visibility or isinstance(app.visibility, str) or not {*app.visibility} <= {"model", "app"}:
        raise RegistrationError(f"visibility of tool {name!r} must be 'model', 'app' or both")
