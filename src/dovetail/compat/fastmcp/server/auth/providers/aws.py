"""Logging in with Amazon Cognito."""

from typing import Any

from ..configuring import configured
from ..oidc_proxy import OIDCProxy


class AWSCognitoProvider(OIDCProxy):
    """Users of one pool log in with Amazon Cognito."""

    @configured("AWS_COGNITO", "user_pool_id", "client_id", "client_secret")
    def __init__(self, *, user_pool_id: str, aws_region: str = "eu-central-1", **options: Any) -> None:
        pool = f"https://cognito-idp.{aws_region}.amazonaws.com/{user_pool_id}"
        super().__init__(config_url=f"{pool}/.well-known/openid-configuration", **options)
