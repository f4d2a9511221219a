"""What a server of SDK 1.x says about itself when a session begins."""

from pydantic import BaseModel, ConfigDict

from ..types import Icon, ServerCapabilities


class InitializationOptions(BaseModel):
    model_config = ConfigDict(defer_build=True)

    server_name: str
    server_version: str
    capabilities: ServerCapabilities
    instructions: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None
