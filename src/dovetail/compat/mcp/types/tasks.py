"""Work that goes on after its request was answered, as revision 2025-11-25 has it."""

from datetime import datetime
from typing import Any, Final, Literal

from .base import Open, Result, StrictInteger
from .notices import Notification, NotificationParams
from .requests import PaginatedRequest, PaginatedResult, Request, RequestParams

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
TASK_STATUS_WORKING: Final[Literal["working"]] = "working"
TASK_STATUS_INPUT_REQUIRED: Final[Literal["input_required"]] = "input_required"
TASK_STATUS_COMPLETED: Final[Literal["completed"]] = "completed"
TASK_STATUS_FAILED: Final[Literal["failed"]] = "failed"
TASK_STATUS_CANCELLED: Final[Literal["cancelled"]] = "cancelled"


class RelatedTaskMetadata(Open):
    taskId: str


class Task(Open):
    taskId: str
    status: TaskStatus
    statusMessage: str | None = None
    createdAt: datetime
    lastUpdatedAt: datetime
    ttl: StrictInteger | None
    pollInterval: StrictInteger | None = None


class CreateTaskResult(Result):
    task: Task


class GetTaskRequestParams(RequestParams):
    model_config = Open.model_config
    taskId: str


class GetTaskRequest(Request[Any, Any]):
    method: Literal["tasks/get"] = "tasks/get"
    params: GetTaskRequestParams


class GetTaskResult(Result, Task): ...


class GetTaskPayloadRequestParams(RequestParams):
    model_config = Open.model_config
    taskId: str


class GetTaskPayloadRequest(Request[Any, Any]):
    method: Literal["tasks/result"] = "tasks/result"
    params: GetTaskPayloadRequestParams


class GetTaskPayloadResult(Result): ...


class CancelTaskRequestParams(RequestParams):
    model_config = Open.model_config
    taskId: str


class CancelTaskRequest(Request[Any, Any]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: CancelTaskRequestParams


class CancelTaskResult(Result, Task): ...


class ListTasksRequest(PaginatedRequest[Any, Any]):
    method: Literal["tasks/list"] = "tasks/list"


class ListTasksResult(PaginatedResult):
    tasks: list[Task]


class TaskStatusNotificationParams(NotificationParams, Task): ...


class TaskStatusNotification(Notification[Any, Any]):
    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"
    params: TaskStatusNotificationParams
