"""What came with 2025-03-26: audio, tool annotations, texts of progress, completions."""

from ...model import (
    AudioContent,
    CreateMessageResult,
    InitializeResult,
    ProgressNotificationParams,
    SamplingMessage,
    ServerCapabilities,
    Tool,
)
from .capabilities import on_member, without_capabilities
from .conversions import audio_message_to_text, audio_to_resource
from .plans import Edits

_server = without_capabilities("completions")

INTRODUCED = Edits(
    without={
        Tool: ("annotations",),
        ProgressNotificationParams: ("message",),
    },
    convert={
        ServerCapabilities: _server,
        InitializeResult: on_member("capabilities", _server),
        AudioContent: audio_to_resource,
        SamplingMessage: audio_message_to_text,
        CreateMessageResult: audio_message_to_text,
    },
)
