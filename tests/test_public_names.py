"""The names people import are a promise: this list changes only on purpose."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import dovetail
from dovetail.errors import DovetailError

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
    "Request",
    "RequestTimeout",
    "ResourceContents",
    "ResourceLink",
    "Response",
    "Root",
    "Roots",
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
    "UrlResource",
    "__version__",
    "get_context",
]

CONTEXT = [
    "ask_all",
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
    "add_capability",
    "add_method",
    "add_notification",
    "add_prompt",
    "add_resource",
    "add_resource_template",
    "add_tool",
    "asgi",
    "completion",
    "handle",
    "hide",
    "method",
    "notify_resource_updated",
    "prompt",
    "prompts",
    "remove_method",
    "remove_prompt",
    "remove_resource",
    "remove_resource_template",
    "remove_tool",
    "resource",
    "resource_templates",
    "resources",
    "respond",
    "route",
    "run",
    "running",
    "search",
    "serve",
    "start",
    "stop",
    "tool",
    "tools",
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
    "ShareFull",
    "ShuttingDown",
    "WorkerLost",
}
"""What a server makes an answer of before anybody could catch it, or what has a name above among its bases."""
COMMANDS = ("auth.commands", "cli", "compat", "inspector", "tooling", "gateway.trust", "middleware.audit")
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
        if one.__module__.startswith("dovetail.") and not home.startswith(COMMANDS):
            missing |= {one.__name__} - set(dovetail.__all__)
    assert missing == ANSWERED


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Servre"):
        dovetail.Servre  # noqa: B018  # pyright: ignore


def test_contexts_and_servers_have_what_was_promised() -> None:
    public = {name for name in dir(dovetail.Context) if not name.startswith("_")}
    assert public == {*CONTEXT, "close"}
    assert set(SERVER) <= set(dir(dovetail.Server))


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
        ("http.serving", {"sqlite3", "tempfile", "importlib.metadata", "dovetail.auth.server"}),
    ],
)
def test_a_process_that_serves_loads_nothing_it_may_never_need(room: str, unwanted: set[str]) -> None:
    """Stores, crash reports, worker processes and logins come later: less memory at rest, and a quicker start."""
    code = f"import sys, dovetail.transports.{room}; from dovetail import Server; Server('x'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not unwanted & set(done.stdout.split())
