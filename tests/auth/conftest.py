"""What is said about HTTP is said on the hosts a module names with ``ON``."""

from tests.http.conftest import hosted, pytest_generate_tests

__all__ = ["hosted", "pytest_generate_tests"]
