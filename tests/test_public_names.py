"""The names people import are a promise: this list changes only on purpose."""

import ast
import importlib
import inspect
import pkgutil
import pydoc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import dovetail
from dovetail import auth, middleware
from dovetail.cli.main import COMMANDS
from dovetail.cli.main import main as command_line
from dovetail.errors import DovetailError
from dovetail.manifest.contract import Contract
from dovetail.server.registry.component_options import ToolOptions

PROMISED = [
    "Accepted",
    "Annotations",
    "App",
    "Audio",
    "AudioContent",
    "AuthError",
    "CallToolResult",
    "CapabilityError",
    "Client",
    "Clients",
    "Completion",
    "ConfigError",
    "Context",
    "ContractError",
    "Declined",
    "Depends",
    "DovetailError",
    "Elicit",
    "ElicitUrl",
    "EmbeddedResource",
    "File",
    "FileResource",
    "FolderResource",
    "GetPromptResult",
    "Handle",
    "HttpOptions",
    "Icon",
    "Image",
    "ImageContent",
    "InputNotSupported",
    "InputRejected",
    "InputRequired",
    "InvalidToken",
    "Keys",
    "Limits",
    "LocalProtocolError",
    "LockError",
    "Principal",
    "PromptMessage",
    "ProtocolError",
    "ReadResourceResult",
    "Reconnect",
    "Refusal",
    "RegistrationError",
    "RemoteProtocolError",
    "RequestTimeout",
    "ResourceContents",
    "ResourceLink",
    "Root",
    "Roots",
    "RouteRequest",
    "RouteResponse",
    "Sample",
    "Sampled",
    "SamplingMessage",
    "Server",
    "ServerRequestsNotSupported",
    "SessionLost",
    "SkillError",
    "StateError",
    "StatusError",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StoreUnreadable",
    "TaskOptions",
    "TextContent",
    "TextResource",
    "Timeouts",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "TransportError",
    "Unavailable",
    "Upload",
    "UrlResource",
    "__version__",
    "get_context",
]

CONTEXT = [
    "ask_all",
    "confirm",
    "cancelled",
    "client_capabilities",
    "client_info",
    "close_stream",
    "continue_as_task",
    "create_handle",
    "critical",
    "debug",
    "elicit",
    "elicit_url",
    "error",
    "hide",
    "info",
    "input_responses",
    "lifespan",
    "list_roots",
    "log",
    "message",
    "meta",
    "notice",
    "notify",
    "principal",
    "read_resource",
    "report_progress",
    "request_id",
    "request_state",
    "revision",
    "sample",
    "scope",
    "server",
    "session",
    "show",
    "state",
    "step",
    "wait",
    "warning",
]

SERVER = [
    "add_method",
    "add_notification",
    "add_prompt",
    "add_resource",
    "add_tool",
    "add_tools",
    "asgi",
    "call_tool",
    "completion",
    "dispatcher",
    "extensions",
    "from_fastapi",
    "from_openapi",
    "get_prompt",
    "handle",
    "health",
    "hide",
    "instructions",
    "lifecycle",
    "limits",
    "method",
    "metrics",
    "middleware",
    "mount",
    "name",
    "notify_resource_updated",
    "on_event",
    "prompt",
    "read_resource",
    "registry",
    "remove_prompt",
    "remove_resource",
    "remove_tool",
    "resource",
    "restrict",
    "route",
    "run",
    "running",
    "search",
    "serve",
    "subscriptions",
    "tool",
    "transform",
    "version",
    "watch",
]


def test_exactly_the_promised_names_are_exported() -> None:
    assert sorted(dovetail.__all__) == sorted(PROMISED)
    assert set(PROMISED) <= set(dir(dovetail))


@pytest.mark.parametrize("name", PROMISED)
def test_every_name_is_there(name: str) -> None:
    assert getattr(dovetail, name) is getattr(dovetail, name)


ANSWERED = {
    "BlockedAddress",
    "Expired",
    "HandlerTimeout",
    "InvalidArguments",
    "InvalidProof",
    "MissingNonce",
    "LoopError",
    "MissingScope",
    "NoToken",
    "ReturnError",
    "ServerBusy",
    "TaskQuotaFull",
    "ShuttingDown",
    "WorkerLost",
}
"""What a server makes an answer of before anybody could catch it, or what has a name above among its bases."""
TERMINAL = (
    "auth.commands",
    "cli",
    "compat",
    "inspector",
    "integrations",
    "gateway.trust",
    "middleware.audit",
)
"""Where errors are raised to be said at a terminal, and the names of other libraries."""


def test_all_error_types_are_importable_from_the_package_itself() -> None:
    for name in (
        "auth",
        "client",
        "core",
        "drivers",
        "gateway",
        "middleware",
        "server",
        "stores",
        "extensions",
        "manifest",
        "wire",
    ):
        room = importlib.import_module(f"dovetail.{name}")
        for found in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
            importlib.import_module(found.name)
    waiting, missing = [DovetailError], set[str]()
    while waiting:
        waiting += (one := waiting.pop()).__subclasses__()
        home = one.__module__.removeprefix("dovetail.")
        if one.__module__.startswith("dovetail.") and not home.startswith(TERMINAL):
            missing |= {one.__name__} - set(dovetail.__all__)
    assert missing == ANSWERED


MODULES = {
    "dovetail.auth": """
        AnyOf ApiKeys ClientCredentials DPoP DeviceCode IdentityAssertion IntrospectionVerifier JwtVerifier OAuth
        OAuthProxy OidcProxy StaticTokens TokenStore WorkloadIdentity
    """,
    "dovetail.compat": "install streams",
    "dovetail.extensions": "App Extension Skill Skills",
    "dovetail.gateway": "Gateway Proxy",
    "dovetail.manifest.contract": "Contract",
    "dovetail.manifest.diff": "compare",
    "dovetail.manifest.lock": "Manifest manifest_of read write",
    "dovetail.middleware": """
        Audit Caching CircuitBreaker ClientWorkarounds ConcurrencyLimit Logging Middleware Policy RateLimit Redaction
        ResponseLimit Retry Timeout Timing Tracing
    """,
    "dovetail.stores": "MemoryStore RedisStore SqliteStore",
    "dovetail.sync": "Client",
    "dovetail.testing": "Case FakeClock Faults choose connect record replay rerun",
}
"""Public modules other than `dovetail`, and their promised names."""

HOOKS = """
    call_tool complete discover get_prompt initialize list_prompts list_resources list_tools message read_resource
    subscribe task
"""
PARAMETERS: dict[str, tuple[Callable[..., Any], str]] = {
    "Server": (
        dovetail.Server,
        "name version instructions auth client_workarounds dialect extensions limits middleware store",
    ),
    "Server.add_method": (dovetail.Server.add_method, "name handler params result capability"),
    "Server.add_tool": (dovetail.Server.add_tool, "name input_schema handler"),
    "Server.completion": (dovetail.Server.completion, "ref argument"),
    "Server.handle": (dovetail.Server.handle, "message scope"),
    "Server.hide": (dovetail.Server.hide, "tags"),
    "Server.mount": (dovetail.Server.mount, "prefix"),
    "Server.resource": (dovetail.Server.resource, "mime_type auth"),
    "Server.search": (dovetail.Server.search, "always"),
    "Server.transform": (
        dovetail.Server.transform,
        "describe exclude hide include max_bytes preset_arguments rename schemas",
    ),
    "Server.watch": (dovetail.Server.watch, "uri source interval"),
    "Server.health.add": (dovetail.Server("x").health.add, "name check interval timeout failure_threshold"),
    "Context.create_handle": (dovetail.Context.create_handle, "value ttl"),
    "Context.report_progress": (dovetail.Context.report_progress, "progress total message"),
    "Client": (
        dovetail.Client,
        """
        target auth contract dialect discovery_timeout extensions headers http middleware on_elicit on_list_changed
        on_log on_message on_resource_updated on_roots on_sample on_state on_task ping_interval reconnect revision
        server_cache timeouts
        """,
    ),
    "Client.call_tool": (
        dovetail.Client.call_tool,
        "name arguments check idempotency_key on_progress timeout",
    ),
    "Contract": (Contract, "lock allow check_interval"),
    "Handle": (dovetail.Handle, "value"),
    "Principal": (dovetail.Principal, "subject issuer scopes claims client_id"),
    "Reconnect": (dovetail.Reconnect, "initial_delay max_delay max_attempts retry_calls"),
    "Refusal": (dovetail.Refusal, "code hint retry_after"),
    "Timeouts": (dovetail.Timeouts, "connect idle total"),
    "Audit": (middleware.Audit, "path checkpoint"),
    "Caching": (middleware.Caching, "ttl"),
    "CircuitBreaker": (middleware.CircuitBreaker, "failure_threshold reset_timeout success_threshold per"),
    "ClientWorkarounds": (middleware.ClientWorkarounds, "exclude"),
    "ConcurrencyLimit": (middleware.ConcurrencyLimit, "per_tool per_principal total queue"),
    "Policy": (middleware.Policy, "disabled allow approve arguments"),
    "RateLimit": (
        middleware.RateLimit,
        "per_client per_principal per_session per_address per_tool total burst",
    ),
    "ResponseLimit": (middleware.ResponseLimit, "max_bytes"),
    "Retry": (middleware.Retry, "attempts"),
    "Timeout": (middleware.Timeout, "seconds"),
    **{
        f"Middleware.{name}": (getattr(middleware.Middleware, name), "request call_next")
        for name in HOOKS.split()
    },
    "ApiKeys": (auth.ApiKeys, "header"),
    "ClientCredentials": (auth.ClientCredentials, "algorithm client_id client_secret private_key scopes"),
    "DPoP": (auth.DPoP, "inner"),
    "DeviceCode": (auth.DeviceCode, "client_id scopes show"),
    "IdentityAssertion": (
        auth.IdentityAssertion,
        "client_id client_secret idp_client_id idp_id_token idp_token_endpoint",
    ),
    "IntrospectionVerifier": (
        auth.IntrospectionVerifier,
        "audience client_id client_secret endpoint issuer",
    ),
    "JwtVerifier": (auth.JwtVerifier, "algorithms audience exclusive issuer jwks_uri keys"),
    "OAuth": (
        auth.OAuth,
        "allow_private client_id client_metadata_url client_secret open_browser redirect_port scopes store",
    ),
    "WorkloadIdentity": (auth.WorkloadIdentity, "token"),
}
"""Public callables, and parameters that each of them takes by name."""

TOOL_OPTIONS = "title description annotations scopes tags version timeout limit queue run task resume"

ATTRIBUTES: dict[type, str] = {
    dovetail.Client: """
        call_tool complete create_task list_skills list_tasks list_tools load_skill request subscribe_resource task
    """,
    dovetail.Handle: "id release save value",
    dovetail.Limits: """
        client_response_timeout max_batch_size max_buffered_bytes max_concurrent_requests max_event_bytes
        max_event_loop_lag max_header_bytes max_input_rounds max_memory_bytes max_message_bytes max_outgoing_requests
        max_replay_bytes max_replay_bytes_per_session max_replay_events max_request_state_bytes
        max_requests_per_connection max_response_bytes max_sessions max_sessions_per_principal max_streams
        max_subscriptions max_tasks max_threads max_uri_length max_websocket_message_bytes max_write_buffer_bytes
    """,
    dovetail.HttpOptions: """
        session_idle_timeout session_lifetime session_ping_interval shutdown_grace_period sse_ping_interval
        sse_retry_ms
    """,
    dovetail.Server: "from_fastapi from_openapi remove_tool route run",
    middleware.Component: "name origin tags version",
    middleware.RateLimit: "erlmcp",
    middleware.Request: "arguments component operation principal revision session transport",
}

OPTIONS = {
    "run": """
        --http --port --workers --store --stateless --metrics --allowed-host --tcp --ws --sse --unix --env --env-file
    """,
    "list": "--json --revision --auth --header --env --env-file",
    "call": "--json --revision --auth --header --env --env-file",
    "read": "--json --revision --auth --header --env --env-file",
    "prompt": "--json --revision --auth --header --env --env-file",
    "worker": "--store",
    "bridge": """
        --http --port --stdio --revision --serve-revision --shared --per-session --forward-header --forward-method
    """,
    "gateway": "--http --port --yes",
    "inspect": "--no-browser --port",
    "dev": "--env --env-file",
    "doctor": "--json",
    "install": "--into --print --no-check",
    "uninstall": "--from",
    "discover": "",
    "login": "",
    "logout": "",
    "whoami": "",
    "lock": "--output",
    "diff": "",
    "new": "",
    "audit": "",
    "explain": "",
    "migrate": "",
}
"""The commands, and options that each of them takes."""


def parameters_of(function: Callable[..., Any]) -> set[str]:
    """The names a callable takes, those of an unpacked `TypedDict` included."""
    owner = function.__init__ if isinstance(function, type) else function
    names = set[str]()
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            names.add(name)
        elif unpacked := get_args(get_type_hints(owner, include_extras=True)[name]):
            names |= unpacked[0].__required_keys__ | unpacked[0].__optional_keys__
    return names


@pytest.mark.parametrize("module", MODULES)
def test_a_public_module_has_its_names(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in MODULES[module].split() if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_public_callable_takes_its_parameters(name: str) -> None:
    function, promised = PARAMETERS[name]
    assert set(promised.split()) - parameters_of(function) == set()


@pytest.mark.parametrize("owner", ATTRIBUTES, ids=lambda owner: owner.__name__)
def test_a_public_class_has_its_attributes(owner: type) -> None:
    assert set(ATTRIBUTES[owner].split()) - set(dir(owner)) == set()


def test_a_tool_takes_its_options() -> None:
    assert set(TOOL_OPTIONS.split()) - ToolOptions.__optional_keys__ == set()


@pytest.mark.parametrize("command", OPTIONS)
def test_a_command_lists_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command in COMMANDS
    with pytest.raises(SystemExit) as ended:
        command_line([command, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out.replace(",", " ").replace("[", " ").replace("]", " ").split()
    assert set(OPTIONS[command].split()) - set(told) == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Servre"):
        dovetail.Servre  # noqa: B018  # pyright: ignore


def test_contexts_and_servers_have_what_was_promised() -> None:
    public = {name for name in dir(dovetail.Context) if not name.startswith("_")}
    assert public == {*CONTEXT, "close"}
    assert {name for name in dir(dovetail.Server("x")) if not name.startswith("_")} == set(SERVER)
    assert len(SERVER) <= 45


@pytest.mark.parametrize("name", SERVER)
def test_every_public_name_of_a_server_is_documented(name: str) -> None:
    documented = inspect.getdoc(getattr(dovetail.Server, name, None))
    annotated = re.search(rf'^    {name}: \w+\n    """', inspect.getsource(dovetail.Server), re.MULTILINE)
    assert documented or annotated


def test_the_help_of_a_server_prints_no_table_of_revisions() -> None:
    text = pydoc.plain(pydoc.render_doc(dovetail.Server))
    assert "mappingproxy" not in text
    assert "2024-11-05" not in text


@pytest.mark.parametrize("statement", ["import dovetail", "from dovetail import Context, Server, ToolError"])
def test_importing_brings_nothing_but_the_standard_library_and_msgspec(statement: str) -> None:
    code = f"""
import sys
{statement}
outside = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(*sorted(name for name in outside if not name.startswith("_")))
"""
    # An empty environment, for what watches over the tests may reach into their processes through it.
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, env={}
    )
    # msgspec takes typing_extensions when it finds it; we never do.
    assert set(done.stdout.split()) <= {"dovetail", "msgspec", "typing_extensions"}


def test_importing_the_package_loads_no_part_of_it() -> None:
    code = "import sys, dovetail; print(*[m for m in sys.modules if m.startswith('dovetail.')])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_server_does_not_pay_for_a_client_or_http() -> None:
    code = "import sys; from dovetail import Server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "dovetail.client" not in loaded
    assert not [name for name in loaded if name.startswith("dovetail.transports")]


@pytest.mark.parametrize(
    ("room", "unwanted"),
    [
        ("stdio", {"sqlite3", "pickle", "pathlib", "tempfile", "importlib.metadata"}),
        ("http.http_serving", {"sqlite3", "tempfile", "importlib.metadata", "dovetail.auth.server"}),
    ],
)
def test_a_process_that_serves_loads_nothing_it_may_never_need(room: str, unwanted: set[str]) -> None:
    """Stores, crash reports, worker processes and logins come later: less memory at rest, and a quicker start."""
    code = f"import sys, dovetail.transports.{room}; from dovetail import Server; Server('x'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not unwanted & set(done.stdout.split())


DUPLICATES = {
    "Client": "sync.Client is the synchronous Client",
    "LoadedSkill": "sync.LoadedSkill is the synchronous one",
    "TaskHandle": "sync.TaskHandle is the synchronous one",
    "McpTool": "a subclass of the tool class of each agent framework",
}


def test_class_names_and_module_names_are_unique() -> None:
    root = Path(dovetail.__file__).parent
    modules = [path for path in root.rglob("*.py") if "template" not in path.parts]
    classes = [
        node.name
        for path in modules
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    names = [path.stem for path in modules if path.stem not in ("__init__", "__main__")]
    assert {name for name, count in Counter(classes).items() if count > 1} == set(DUPLICATES)
    assert [name for name, count in Counter(names).items() if count > 1] == []
