"""Small things about tasks."""

from typing import Final
from uuid import uuid4

from ....types import TaskStatus

MODEL_IMMEDIATE_RESPONSE_KEY: Final = "io.modelcontextprotocol/model-immediate-response"
RELATED_TASK_METADATA_KEY: Final = "io.modelcontextprotocol/related-task"


def is_terminal(status: TaskStatus) -> bool:
    """Whether nothing more comes of a task."""
    return status in ("completed", "failed", "cancelled")


def generate_task_id() -> str:
    return str(uuid4())
