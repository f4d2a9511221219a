"""How an OAuth client authenticates at a token endpoint: nothing, a secret, or a signed assertion (RFC 6749, 2.3)."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote_plus

from .registration import SECRET_BASIC, SECRET_POST


def basic_header(client_id: str, secret: str) -> str:
    """The ``Authorization`` header of a client with a secret."""
    # RFC 6749, 2.3.1: both parts are encoded as in a form before they are put together.
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return "Basic " + b64encode(pair.encode()).decode()


def authenticate(form: dict[str, str], client_id: str, method: str, secret: str | None) -> dict[str, str]:
    """Add the client to ``form``; return the headers that carry its secret when ``method`` puts it there."""
    if client_id:
        form["client_id"] = client_id  # the official SDK wants it also beside a header that names it
    if secret is not None and method == SECRET_BASIC:
        return {"Authorization": basic_header(client_id, secret)}
    if secret is not None and method == SECRET_POST:
        form["client_secret"] = secret
    return {}
