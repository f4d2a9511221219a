"""Checks that decide whether a caller may see and use a component: ``tool(auth=require_scopes("x"))``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ...exceptions import AuthorizationError
from ..dependencies import get_access_token


@dataclass
class AuthContext:
    """What a check decides by."""

    token: Any
    component: Any = None

    @property
    def tool(self) -> Any:
        return self.component


AuthCheck = Callable[[AuthContext], Any]


def require_scopes(*scopes: str) -> AuthCheck:
    """The token has all of ``scopes``."""
    return lambda context: context.token is not None and set(scopes) <= set(context.token.scopes)


def restrict_tag(tag: str, *, scopes: list[str]) -> AuthCheck:
    """What has ``tag`` needs ``scopes``."""
    check = require_scopes(*scopes)
    return lambda context: tag not in getattr(context.component, "tags", ()) or check(context)


def run_auth_checks(checks: Any, context: AuthContext) -> bool:
    """Whether all of them agree; what cannot be waited for does not."""
    every: list[Any] = cast("list[Any]", checks) if isinstance(checks, list) else [checks]
    for check in every:
        try:
            said: Any = check(context)
        except AuthorizationError:
            raise
        except Exception:  # noqa: BLE001  a check that fails lets nobody in
            return False
        if inspect.iscoroutine(said):
            cast("Any", said).close()
            return False
        if not said:
            return False
    return True


def allowed(component: Any) -> bool:
    """Whether this caller may use ``component``."""
    if component.auth is None:
        return True
    return run_auth_checks(component.auth, AuthContext(get_access_token(), component))
