"""Client authentication at a token endpoint: none, a secret, or a signed assertion (RFC 6749, 2.3)."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote_plus

from .registration import SECRET_BASIC, SECRET_POST


def basic_header(client_id: str, secret: str) -> str:
    """Return the ``Authorization`` header of a client with a secret."""
    # RFC 6749, 2.3.1: both parts are form-encoded before they are joined.
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return "Basic " + b64encode(pair.encode()).decode()


def authenticate(form: dict[str, str], client_id: str, method: str, secret: str | None) -> dict[str, str]:
    """Add the client to ``form``. Return the headers, which contain the secret if ``method`` requires it."""
    if client_id:
        form["client_id"] = client_id  # the official SDK expects it in addition to the header
    if secret is not None and method == SECRET_BASIC:
        return {"Authorization": basic_header(client_id, secret)}
    if secret is not None and method == SECRET_POST:
        form["client_secret"] = secret
    return {}
