"""What is said about HTTP is said on the hosts a module names with ``ON``."""

from tests.http.conftest import hosted

__all__ = ["hosted"]
