"""What came with 2025-06-18: titles, metadata below the top, structured output, links."""

from ...model import (
    AudioContent,
    CallToolResult,
    ClientCapabilities,
    CompleteRequestParams,
    EmbeddedResource,
    ImageContent,
    Implementation,
    InitializeRequestParams,
    Metadata,
    PromptArgument,
    PromptReference,
    Resource,
    ResourceContents,
    ResourceLink,
    ResourceTemplate,
    Root,
    TextContent,
    Tool,
)
from .capabilities import on_member, without_capabilities
from .conversions import link_to_text, title_to_annotations, without_last_modified
from .plans import Edits

_client = without_capabilities("elicitation")

INTRODUCED = Edits(
    without={
        Metadata: ("title", "meta"),
        Implementation: ("title",),
        PromptArgument: ("title",),
        PromptReference: ("title",),
        Tool: ("output_schema",),
        CallToolResult: ("structured_content",),
        CompleteRequestParams: ("context",),
        TextContent: ("meta",),
        ImageContent: ("meta",),
        AudioContent: ("meta",),
        EmbeddedResource: ("meta",),
        ResourceContents: ("meta",),
        Root: ("meta",),
    },
    convert={
        ClientCapabilities: _client,
        InitializeRequestParams: on_member("capabilities", _client),
        Tool: title_to_annotations,
        ResourceLink: link_to_text,
        TextContent: without_last_modified,
        ImageContent: without_last_modified,
        AudioContent: without_last_modified,
        EmbeddedResource: without_last_modified,
        Resource: without_last_modified,
        ResourceTemplate: without_last_modified,
    },
)
