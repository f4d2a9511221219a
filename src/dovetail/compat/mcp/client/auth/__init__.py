"""How a client of SDK 1.x shows who it is: OAuth, over `dovetail.auth`."""

from .exceptions import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from .oauth2 import OAuthClientProvider, PKCEParameters, TokenStorage

__all__ = [
    "OAuthClientProvider",
    "OAuthFlowError",
    "OAuthRegistrationError",
    "OAuthTokenError",
    "PKCEParameters",
    "TokenStorage",
]
