"""Samplers: `on_sample` callbacks for common model providers.

```python
from dovetail.client.samplers import Anthropic, Ollama, Samplers

Client(target, on_sample=Samplers(Anthropic("claude-3-5-sonnet-latest", api_key=key), Ollama("llama3.2")))
```
"""

from .sampler_base import Mock, Profile, Sampler, Samplers, choose
from .sampler_providers import Anthropic, LMStudio, Ollama, OpenAI

__all__ = ["Anthropic", "LMStudio", "Mock", "Ollama", "OpenAI", "Profile", "Sampler", "Samplers", "choose"]
