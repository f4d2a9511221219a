"""Which ``Host`` and ``Origin`` a server of SDK 1.x answers to."""

from typing import Any

from pydantic import BaseModel, ConfigDict

DEFAULT_MAX_REQUEST_BODY_SIZE = 4 * 1024 * 1024


class TransportSecuritySettings(BaseModel):
    model_config = ConfigDict(defer_build=True)

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = []
    allowed_origins: list[str] = []


def http_options(settings: TransportSecuritySettings | None) -> dict[str, Any]:
    """These settings as options of our HTTP application; ``name:*`` means the name with any port."""
    if settings is None or not settings.enable_dns_rebinding_protection:
        return {}
    hosts = (host.removesuffix(":*") for host in settings.allowed_hosts)
    return {"allowed_hosts": tuple(hosts), "allowed_origins": tuple(settings.allowed_origins)}


def is_open(settings: TransportSecuritySettings | None) -> bool:
    """Whether the author wants no look at ``Host`` and ``Origin`` at all, which is their default."""
    return settings is None or not settings.enable_dns_rebinding_protection


class TransportSecurityMiddleware:
    """The settings, kept for those who ask for them; our application obeys them."""

    def __init__(self, settings: TransportSecuritySettings | None = None) -> None:
        self.settings = settings or TransportSecuritySettings(enable_dns_rebinding_protection=False)
