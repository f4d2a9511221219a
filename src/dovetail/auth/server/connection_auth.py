"""Authentication of connections without headers: a client certificate, or a token in the environment."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any, Final

from ...core.principal import Principal
from ...errors import DovetailError
from .verifier import as_verifier

TOKEN: Final = "DOVETAIL_TOKEN"
"""The environment variable that a client sets for the server it starts."""


def certificate_principal(certificate: Mapping[str, Any] | None) -> Principal | None:
    """Return the principal of a verified certificate (as from `ssl`): its common name, or first alternative
    name.
    """
    if not certificate:
        return None
    names = [name for kind, name in certificate.get("subjectAltName", ()) if kind in ("URI", "email", "DNS")]
    common = _part(certificate.get("subject", ()), "commonName")
    subject = common or (names[0] if names else None)
    if subject is None:
        return None
    claims: dict[str, Any] = {"serialNumber": certificate.get("serialNumber"), "subjectAltName": names}
    if "notAfter" in certificate:
        claims["exp"] = ssl.cert_time_to_seconds(certificate["notAfter"])
    return Principal(subject, _name(certificate.get("issuer", ())), claims=claims)


async def environment_principal(auth: Any) -> Principal | None:
    """Return the principal of the token in the environment; None without a token.

    Raises:
        DovetailError: the token is not valid.
    """
    token = os.environ.get(TOKEN)
    if auth is None or not token:
        return None
    try:
        return await token_principal(auth, token, {"transport": "stdio"})
    except DovetailError as error:
        text = f"the token in {TOKEN} is refused: {error.message}"
        raise DovetailError(text, kind="authentication_failed") from None


async def token_principal(auth: Any, token: str, scope: Mapping[str, Any]) -> Principal:
    """Return the principal of ``token`` on a connection without headers.

    Raises:
        DovetailError: no verifier accepts the token.
    """
    reason = "it is not accepted"
    for verifier in as_verifier(auth).members():
        try:
            found = await verifier.verify(token, scope)
        except DovetailError as error:
            reason = error.message
            continue
        if found is None:
            continue
        if "cnf" in found.claims:
            reason = "it is bound to a key, and DPoP is not available on this transport"
        elif missing := set(verifier.scopes) - found.scopes:
            reason = f"it lacks the scopes {', '.join(sorted(missing))}"
        else:
            return found
    raise DovetailError(reason, kind="authentication_failed")


def _part(name: Any, wanted: str) -> str | None:
    return next((value for parts in name for kind, value in parts if kind == wanted), None)


def _name(name: Any) -> str:
    """Return a distinguished name on one line."""
    return ",".join(f"{kind}={value}" for parts in name for kind, value in parts)
