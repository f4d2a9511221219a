"""What ours keep in memory where SDK 1.x has an object for it."""

from __future__ import annotations

from typing import Any


class KeptByOurs:
    """Stands for what ours do: it may be handed over, there is nothing to ask it."""

    def __init_subclass__(cls) -> None:
        if not cls.__module__.startswith(__name__.rpartition(".")[0]):
            raise TypeError(
                f"{cls.__name__} would not be asked: tasks are kept by ours, and with DOVETAIL_STORE they outlive the "
                "process"
            )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__name__}.{name} is not there: tasks are kept by ours; a handler has them as "
            "ctx.experimental, a client as session.experimental"
        )
