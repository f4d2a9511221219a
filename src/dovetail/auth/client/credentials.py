"""Logins without a browser: client credentials, workload identity, and identity assertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ...settings import check_kinds
from ...settings.parameter_kinds import FLAG, SCOPES, TEXT, or_none
from ..core.grants import Credentials, EnterpriseAssertion, Workload
from ..core.registration import PRIVATE_KEY, SECRET_BASIC, Identity
from .authorizer import Authorizer
from .storage import STORAGE, TokenStorage

_TOKEN: Final = (str | Callable, "a string, or a function that returns one")


class ClientCredentials(Authorizer):
    """A machine registered by hand, authenticated by a secret or by a key (``private_key_jwt``).

    Raises:
        ValueError: neither or both are given, or the key is not valid.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: str | bytes | None = None,
        algorithm: str = "ES256",
        scopes: str | Sequence[str] | None = None,
        store: TokenStorage | None = None,
        issuer: str | None = None,
        allow_private: bool = False,
    ) -> None:
        """Set a secret or a private key.

        Args:
            client_id: The client id.
            client_secret: The client secret.
            private_key: The private key (PEM) for ``private_key_jwt``.
            algorithm: The signature algorithm of the private key.
            scopes: Scopes to request; by default those that the server asks for.
            store: Where tokens are stored; by default files of the user.
            issuer: The issuer to which these credentials belong. Other issuers never receive them.
            allow_private: Whether a public server can name an authorization server in a private network.
        """
        check_kinds(
            {
                "client_id": TEXT,
                "client_secret": or_none(TEXT),
                "private_key": (str | bytes | None, "a private key in PEM, or None"),
                "algorithm": TEXT,
                "scopes": or_none(SCOPES),
                "store": STORAGE,
                "issuer": or_none(TEXT),
                "allow_private": FLAG,
            },
            locals(),
        )
        if (client_secret is None) == (private_key is None):
            raise ValueError("give either client_secret or private_key")
        signer = None
        if private_key is not None:
            from .signing import KeySigner

            signer = KeySigner.of_pem(private_key, algorithm)
        identity = Identity(
            client_id=client_id,
            client_secret=client_secret,
            issuer=issuer,
            method=None if private_key is None else PRIVATE_KEY,
        )
        super().__init__(
            Credentials(identity, signer), scopes=scopes, store=store, allow_private=allow_private
        )


class WorkloadIdentity(Authorizer):
    """A workload with a JWT from its platform. ``token`` is the JWT, or a function (async or not) that
    returns it.
    """

    def __init__(
        self,
        token: str | Callable[[], Any],
        *,
        client_id: str = "",
        scopes: str | Sequence[str] | None = None,
        store: TokenStorage | None = None,
        issuer: str | None = None,
        allow_private: bool = False,
    ) -> None:
        """Set the JWT of the platform.

        Args:
            token: The JWT, or a function (async or not) that returns it.
            client_id: The client id, if the authorization server needs one.
            scopes: Scopes to request; by default those that the server asks for.
            store: Where tokens are stored; by default files of the user.
            issuer: The issuer to which these credentials belong. Other issuers never receive them.
            allow_private: Whether a public server can name an authorization server in a private network.
        """
        check_kinds(
            {
                "token": _TOKEN,
                "client_id": TEXT,
                "scopes": or_none(SCOPES),
                "store": STORAGE,
                "issuer": or_none(TEXT),
                "allow_private": FLAG,
            },
            locals(),
        )
        super().__init__(
            Workload(Identity(client_id=client_id, issuer=issuer), _source(token)),
            scopes=scopes,
            store=store,
            allow_private=allow_private,
        )


class IdentityAssertion(Authorizer):
    """An employee: the company's identity provider exchanges the ID token for an ID-JAG, which gets the
    access token.

    ``idp_id_token`` is the token, or a function (async or not) that returns it.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        idp_token_endpoint: str,
        idp_client_id: str,
        idp_id_token: str | Callable[[], Any],
        idp_client_secret: str | None = None,
        scopes: str | Sequence[str] | None = None,
        store: TokenStorage | None = None,
        issuer: str | None = None,
        allow_private: bool = False,
    ) -> None:
        """Set the client at both authorization servers.

        Args:
            client_id: The client id at the authorization server of the MCP server.
            client_secret: The client secret at the authorization server of the MCP server.
            idp_token_endpoint: The token endpoint of the identity provider.
            idp_client_id: The client id at the identity provider.
            idp_id_token: The ID token of the user, or a function (async or not) that returns it.
            idp_client_secret: The client secret at the identity provider.
            scopes: Scopes to request; by default those that the server asks for.
            store: Where tokens are stored; by default files of the user.
            issuer: The issuer to which these credentials belong. Other issuers never receive them.
            allow_private: Whether a public server can name an authorization server in a private network.
        """
        check_kinds(
            {
                "client_id": TEXT,
                "client_secret": or_none(TEXT),
                "idp_token_endpoint": TEXT,
                "idp_client_id": TEXT,
                "idp_id_token": _TOKEN,
                "idp_client_secret": or_none(TEXT),
                "scopes": or_none(SCOPES),
                "store": STORAGE,
                "issuer": or_none(TEXT),
                "allow_private": FLAG,
            },
            locals(),
        )
        idp = Identity(
            client_id=idp_client_id,
            client_secret=idp_client_secret,
            method=None if idp_client_secret is None else SECRET_BASIC,
        )
        identity = Identity(client_id=client_id, client_secret=client_secret, issuer=issuer)
        super().__init__(
            EnterpriseAssertion(identity, idp, idp_token_endpoint, _source(idp_id_token)),
            scopes=scopes,
            store=store,
            allow_private=allow_private,
        )


def _source(token: str | Callable[[], Any]) -> Callable[[], Any]:
    if isinstance(token, str):
        return lambda: token
    return token
