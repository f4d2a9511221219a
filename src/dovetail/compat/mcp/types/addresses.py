"""Addresses, as pydantic has them."""

from typing import Annotated

from pydantic.networks import AnyUrl as AnyUrl
from pydantic.networks import FileUrl as FileUrl
from pydantic.networks import UrlConstraints

Url = Annotated[AnyUrl, UrlConstraints(host_required=False)]
"""An ``AnyUrl`` that needs no host."""
