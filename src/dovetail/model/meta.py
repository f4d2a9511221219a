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
FLAT_PAGE: Final = "ui/resourceUri"
"""The URI of the page of a tool, for hosts that do not read ``ui.resourceUri``."""
"""MCP Apps, UI Resource Format: ``mimeType`` MUST be this one."""

IDEMPOTENCY_EXTENSION: Final = "io.dovetail/idempotency"
IDEMPOTENCY_KEY: Final = "io.dovetail/idempotency-key"
"""Vendor key: a call with this key runs once, even if it is received repeatedly."""

VERSION: Final = "dovetail/version"
"""Vendor key: the version of a tool, in a definition or in a call."""
VIA: Final = "dovetail/via"
"""Vendor key: the proxies that forwarded a request; used to detect loops."""
FASTMCP: Final = "fastmcp"
"""Key of FastMCP: an object with the tool version and tags."""
