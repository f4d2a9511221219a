"""What a server of SDK 1.x says about itself when a session begins."""

from pydantic import BaseModel

from ..types import Icon, ServerCapabilities


class InitializationOptions(BaseModel):
    server_name: str
    server_version: str
    capabilities: ServerCapabilities
    instructions: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None
