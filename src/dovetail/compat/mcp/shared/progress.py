"""Report progress step by step."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

from .context import RequestContext


class Progress(BaseModel):
    progress: float
    total: float | None


class ProgressContext:
    """How far a call is; `progress` adds to it and tells."""

    def __init__(self, session: Any, progress_token: Any, total: float | None) -> None:
        self.session = session
        self.progress_token = progress_token
        self.total = total
        self.current = 0.0

    async def progress(self, amount: float, message: str | None = None) -> None:
        """Come further by ``amount``."""
        self.current += amount
        await self.session.send_progress_notification(
            self.progress_token, self.current, total=self.total, message=message
        )


@contextmanager
def progress(
    ctx: RequestContext[Any, Any, Any], total: float | None = None
) -> Generator[ProgressContext, None, None]:
    """A counter for the call of ``ctx``.

    Raises:
        ValueError: its client asked for no progress.
    """
    if ctx.meta is None or ctx.meta.progressToken is None:
        raise ValueError("No progress token provided")
    yield ProgressContext(ctx.session, ctx.meta.progressToken, total)
