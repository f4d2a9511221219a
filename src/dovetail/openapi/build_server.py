"""Build a server from a description: each operation becomes a tool, a resource, a template or nothing."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import msgspec
from msgspec import Raw, UnsetType
from msgspec.structs import replace

from .. import extras
from ..client.http_client import Fetch
from ..errors import ProtocolError, RegistrationError, ToolError
from ..json_schema.problem import Problem
from ..json_schema.validation import Validator
from ..model import CallToolResult
from ..server.registry.registry import LONGEST_DESCRIPTION
from ..server.server import Server
from ..server.signatures.functions import Function
from ..server.signatures.parameters import read_signature
from ..server.signatures.validation_errors import InvalidArguments
from ..shapes import Object, is_list, is_object
from ..transports.http.client.adapters import HttpxClient, fetch_with
from ..transports.http.client.url_parts import same_origin
from .api_calls import Api, ExpectedResponse, Read, contents_of, tool_result, validator_of
from .asgi_client import AsgiFetch
from .description import Document, Spec, read
from .openapi_schemas import OpenApiSchemas
from .operation_arguments import ApiRequest, RequestPlan, legal, unique
from .operations import Operation, operations
from .parameter_styles import BadValue
from .route_map import Route, check, kind_of

REQUEST_SECONDS: Final = 30.0
"""Seconds for a response of the API, by default."""


log = logging.getLogger("dovetail.openapi")

S = TypeVar("S", bound=Server)
Make = Callable[..., S]


class ApiFunction(Function):
    """A tool of an API: its arguments and its request."""

    def __init__(
        self,
        name: str,
        operation: Operation,
        plan: RequestPlan,
        handler: Any,
        expected: ExpectedResponse | None,
    ) -> None:
        super().__init__(replace(read_signature(handler, name=name), parameters=()))
        words = dict.fromkeys((operation.summary, operation.description))
        self.description = "\n\n".join(filter(None, words))[:LONGEST_DESCRIPTION] or operation.what
        self.input_schema = plan.schema
        self._plan = plan
        self._expected = expected
        self._validator: Validator | None = None
        self._tried = False

    @property
    def output_schema(self) -> Object | None:
        return None if self._expected is None else self._expected.schema

    def decode(self, arguments: Raw | UnsetType) -> dict[str, Any]:
        """Return the request, as the only keyword of the handler."""
        try:
            values: Any = {} if isinstance(arguments, UnsetType) else msgspec.json.decode(arguments)
        except (ValueError, RecursionError):
            raise InvalidArguments(self.name, [Problem("", "the arguments are not valid JSON")]) from None
        values = {} if values is None else values
        if not is_object(values):
            raise InvalidArguments(
                self.name, [Problem("", "the arguments must be an object")], kind="invalid_params"
            )
        if not self._tried:
            self._tried = True
            self._validator = validator_of(self.input_schema)
        if self._validator is not None and (found := self._validator.problem(values)):
            values = self.fitting(values, found, self._validator)
        missing = [name for name in self.input_schema.get("required", ()) if name not in values]
        if missing:
            raise InvalidArguments(self.name, [Problem(name, "is required") for name in missing])
        try:
            return {"request": self._plan.request(values)}
        except BadValue as error:
            raise InvalidArguments(self.name, [Problem(error.argument, error.reason)]) from None


class Builder:
    """Registers the operations of one description with a server."""

    def __init__(self, server: Server, document: Document, api: Api, names: Mapping[str, str]) -> None:
        self._server = server
        self._document = document
        self._api = api
        self._names = names
        self._taken: set[str] = set()
        self._requests = OpenApiSchemas(document, request=True)
        self._answers = OpenApiSchemas(document, request=False)

    def add(self, operation: Operation, kind: str) -> None:
        """Register ``operation``.

        Raises:
            RegistrationError: it cannot be registered.
        """
        told = self._names.get(operation.id) or self._names.get(operation.what)
        name = unique(told or operation.id or f"{operation.method.lower()}{operation.path}", self._taken)
        plan = RequestPlan(operation, self._document, self._requests)
        if kind == "tool":
            self._add_tool(name, operation, plan)
        else:
            self._add_resource(name, operation, plan, wide=kind == "template")

    def _add_tool(self, name: str, operation: Operation, plan: RequestPlan) -> None:
        api, expected = self._api, self._expected(operation)

        async def call(request: ApiRequest) -> CallToolResult:
            return tool_result(await api.ask(request), expected)

        method = operation.method
        hints: Object = {"readOnlyHint": method in ("GET", "HEAD", "OPTIONS"), "openWorldHint": True}
        if not hints["readOnlyHint"]:
            hints |= {"destructiveHint": method != "POST", "idempotentHint": method in ("PUT", "DELETE")}
        self._server.add_tool(
            ApiFunction(name, operation, plan, call, expected),
            title=operation.summary or None,
            tags=operation.tags,
            deprecated=operation.deprecated,
            annotations=hints,
        )

    def _expected(self, operation: Operation) -> ExpectedResponse | None:
        if not operation.answers:
            return None
        several = len(operation.answers) > 1
        schema = self._answers.closed({"anyOf": list(operation.answers)} if several else operation.answers[0])
        return ExpectedResponse(schema) if schema else None

    def _add_resource(self, name: str, operation: Operation, plan: RequestPlan, *, wide: bool) -> None:
        """Register a resource; its URI has the path parameters, and query parameters if ``wide`` or required."""
        needed = {argument for argument, one in plan.parameters.items() if one.required}
        if wide or needed:
            shown = [argument for argument, one in plan.parameters.items() if one.place in ("path", "query")]
        else:
            shown = []
        if any(plan.parameters[argument].place not in ("path", "query") for argument in needed):
            raise RegistrationError("it needs a header or a cookie, which a URI cannot contain")
        variables = {argument: legal(argument).replace(".", "_").replace("-", "_") for argument in shown}
        address = self._address(operation, plan, variables)
        reader = self._reader(plan, variables, needed)
        add = self._server.add_resource
        add(
            address,
            reader,
            name=name,
            title=operation.summary or None,
            description=(operation.description or operation.summary or operation.what)[:LONGEST_DESCRIPTION],
            tags=operation.tags,
        )

    def _address(self, operation: Operation, plan: RequestPlan, variables: Mapping[str, str]) -> str:
        path = quote(operation.path, safe="/{}%:@!$&'()*+,;=~")
        for argument, variable in variables.items():
            if plan.parameters[argument].place == "path":
                path = path.replace(f"{{{quote(plan.parameters[argument].name)}}}", f"{{{variable}}}")
                path = path.replace(f"{{{plan.parameters[argument].name}}}", f"{{{variable}}}")
        query = [name for argument, name in variables.items() if plan.parameters[argument].place == "query"]
        host = legal(self._server.name).replace("_", "-").replace(".", "-").lower()
        return f"api://{host}{path}" + (f"{{?{','.join(query)}}}" if query else "")

    def _reader(
        self, plan: RequestPlan, variables: Mapping[str, str], needed: set[str]
    ) -> Callable[..., Any]:
        api = self._api
        arguments = {variable: argument for argument, variable in variables.items()}
        required = {variables[argument] for argument in needed if plan.parameters[argument].place == "path"}

        async def reader(**values: Any) -> Read:
            given = {arguments[name]: value for name, value in values.items() if value is not None}
            try:
                request = plan.request(given) if needed <= given.keys() else None
            except BadValue:
                request = None
            if request is None:
                raise ProtocolError("resource_not_found")
            try:
                return contents_of(await api.ask(request))
            except ToolError as error:
                raise ProtocolError("resource_not_readable", error.message) from None

        made = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=str,
                default=inspect.Parameter.empty if name in required else None,
            )
            for name in arguments
        ]
        reader.__signature__ = inspect.Signature(made)  # pyright: ignore[reportFunctionMemberAccess]
        return reader


def from_openapi(
    make: Make[S],
    spec: Spec,
    *,
    client: Any = None,
    base_url: str | None = None,
    routes: Sequence[Route] = (),
    names: Mapping[str, str] | None = None,
    request_timeout: float | None = REQUEST_SECONDS,
    **options: Any,
) -> S:
    """Build a server for the HTTP API in ``spec`` (OpenAPI 3.0 or 3.1; a dict, text, a path or a URL).

    ``client`` is the base URL of the API, or an HTTP client of httpx2 or httpx with its authorization; ``base_url`` is
    the base URL if neither has it. Each operation becomes a tool, unless one of ``routes`` matches. ``names`` are new
    names by ``operationId``; ``options`` are those of ``make``, a `Server`.

    Raises:
        RegistrationError: the description cannot be used, or the base URL is unknown.
    """
    document = read(spec)
    fetch, base = _target(document, client, base_url)
    return _build(make, document, fetch, base, routes, names or {}, request_timeout, options)


def from_fastapi(
    make: Make[S],
    app: Any,
    *,
    routes: Sequence[Route] = (),
    names: Mapping[str, str] | None = None,
    request_timeout: float | None = REQUEST_SECONDS,
    run_lifespan: bool = True,
    **options: Any,
) -> S:
    """Build a server for a FastAPI application, which is called in this process, without a socket.

    The server also runs the lifespan of the application, unless ``run_lifespan=False``. The other options are those of
    `from_openapi`.
    """
    fetch = AsgiFetch(app, run_lifespan=run_lifespan)
    document = Document(app.openapi())
    return _build(make, document, fetch, "http://localhost", routes, names or {}, request_timeout, options)


def _build(
    make: Make[S],
    document: Document,
    fetch: Fetch,
    base: str,
    routes: Sequence[Route],
    names: Mapping[str, str],
    request_timeout: float | None,
    options: dict[str, Any],
) -> S:
    if not extras.installed("jsonschema_rs"):
        raise extras.missing("jsonschema_rs", "checking arguments and responses of an API")
    server = make(**_described(document, options))
    limit = server.limits.max_response_bytes or server.limits.max_message_bytes
    api = Api(fetch, base, timeout=request_timeout, limit=limit)
    server.lifecycle.wrap_lifespan(api.around)
    builder, checked = Builder(server, document, api, names), check(routes)
    for operation in operations(document):
        kind = kind_of(operation, checked)
        if kind is None:
            continue
        try:
            builder.add(operation, kind)
        except RegistrationError as error:
            log.warning("%s is not registered: %s", operation.what, error.message)
    return server


def _described(document: Document, options: dict[str, Any]) -> dict[str, Any]:
    """Return the default name of the server: the title of the description."""
    info: Any = document.root.get("info")
    told: Object = info if is_object(info) else {}
    found = {
        "name": told.get("title"),
        "version": told.get("version"),
        "instructions": told.get("description"),
    }
    texts = {key: value for key, value in found.items() if isinstance(value, str) and value}
    return {"name": "api", **texts, **options}


def _target(document: Document, client: Any, base_url: str | None) -> tuple[Fetch, str]:
    """Return the HTTP client and the base URL.

    Raises:
        RegistrationError: the base URL is unknown, or only known from an untrusted description.
    """
    if client is None or isinstance(client, str):
        from ..transports.http.client.connection_pool import (
            HttpFetch,  # not needed with a client of the caller
        )

        fetch: Fetch = HttpFetch()
    else:
        fetch = fetch_with(client)
    if base_url is None:
        base_url = client if isinstance(client, str) else None
    if base_url is None and isinstance(fetch, HttpxClient):
        base_url = str(fetch.client.base_url) or None
    return fetch, _base(base_url if base_url is not None else _named(document))


def _named(document: Document) -> str:
    """The first server of the description."""
    servers: Any = document.root.get("servers")
    first: Any = servers[0] if is_list(servers) and servers else {}
    url: Any = first.get("url") if is_object(first) else None
    if not isinstance(url, str):
        url = "/" if document.origin else ""
    variables: Any = first.get("variables") if is_object(first) else None
    for name, one in (variables if is_object(variables) else {}).items():
        url = url.replace(f"{{{name}}}", str(one.get("default", "")) if is_object(one) else "")
    if document.origin is not None:
        url = urljoin(document.origin, url)
        if not same_origin(document.origin, url):
            raise RegistrationError(
                "the description names another host than its own: give base_url=… or client=…"
            )
    return url


def _base(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
        )
        port = parts.port
    except ValueError:
        usable, port = False, None
    if not usable or port == 0 or any(one in (".", "..") for one in url.split("/")) or not url.isprintable():
        raise RegistrationError(
            "the base URL of the API is unknown: give base_url=… or client=…, an http(s) URL without a query"
        )
    return url.rstrip("/")
