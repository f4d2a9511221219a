"""`InMemoryTaskMessageQueue`: the queue that a server has anyhow, said to ``enable_tasks(queue=…)``."""

from ..kept_by_ours import KeptByOurs


class InMemoryTaskMessageQueue(KeptByOurs):
    """Questions of tasks wait in memory, by ours."""
