"""Ready-made `on_sample` callbacks for the common model providers.

```python
from dovetail.client.samplers import Anthropic, Ollama, Samplers

Client(target, on_sample=Samplers(Anthropic("claude-3-5-sonnet-latest", api_key=key), Ollama("llama3.2")))
```
"""

from .anthropic import Anthropic
from .base import Profile, Sampler
from .choosing import Samplers, choose
from .mock import Mock
from .ollama import Ollama
from .openai import LMStudio, OpenAI

__all__ = ["Anthropic", "LMStudio", "Mock", "Ollama", "OpenAI", "Profile", "Sampler", "Samplers", "choose"]
