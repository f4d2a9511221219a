"""`InMemoryTaskStore`: the store that a server has anyhow, said to ``enable_tasks(store=…)``."""

from ..kept_by_ours import KeptByOurs


class InMemoryTaskStore(KeptByOurs):
    """Tasks are kept in memory, by ours."""
