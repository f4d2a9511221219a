"""The tools of MCP servers as the tool objects of agent frameworks.

One module for each framework, loaded when it is imported and no sooner:

```python
from dovetail.integrations import langchain

async with dovetail.Client("http://127.0.0.1:8000/mcp") as client:
    agent = create_agent(model, await langchain.load_tools(client))
```

`remote_tools` has what the modules share. `foreign_tools` is the way back: tools of a framework in a `Server`.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

FRAMEWORKS: Final = (
    "autogen", "crewai", "google_adk", "langchain", "llama_index", "openai_agents", "pydantic_ai", "semantic_kernel",
    "smolagents", "strands",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in FRAMEWORKS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*FRAMEWORKS, "FRAMEWORKS"]
