"""The reserved keys of ``_meta`` and the identifiers of the official extensions."""

from typing import Final

PREFIX: Final = "io.modelcontextprotocol/"

PROGRESS_TOKEN: Final = "progressToken"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
CLIENT_INFO: Final = PREFIX + "clientInfo"
SERVER_INFO: Final = PREFIX + "serverInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
RELATED_TASK: Final = PREFIX + "related-task"

TASKS_EXTENSION: Final = PREFIX + "tasks"
SKILLS_EXTENSION: Final = PREFIX + "skills"
APPS_EXTENSION: Final = PREFIX + "ui"
APP_MIME_TYPE: Final = "text/html;profile=mcp-app"
"""MCP Apps, UI Resource Format: ``mimeType`` MUST be this one."""

IDEMPOTENCY_EXTENSION: Final = "io.dovetail/idempotency"
IDEMPOTENCY_KEY: Final = "io.dovetail/idempotency-key"
"""Ours: a call with such a key is run once, however often it arrives."""

VERSION: Final = "dovetail/version"
"""Ours: which version of a tool a definition is, or a call wants."""
VIA: Final = "dovetail/via"
"""Ours: the proxies a request came through, by which one that runs in a circle is known."""
FASTMCP: Final = "fastmcp"
"""FastMCP's: an object with the same, and with tags."""
