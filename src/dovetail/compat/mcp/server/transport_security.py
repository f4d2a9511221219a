"""Which ``Host`` and ``Origin`` a server of SDK 1.x lets in."""

from pydantic import BaseModel, Field


class TransportSecuritySettings(BaseModel):
    """Names that requests may use; ``:*`` at the end of one stands for every port."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = Field(default_factory=list)
    allowed_origins: list[str] = Field(default_factory=list)
