"""`ResourceManager`: the resources by URI, and the templates."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Resource
    from .templates import ResourceTemplate

log = logging.getLogger("mcp.server.fastmcp")


class ResourceManager:
    """The resources of a server. Of two with one URI the first stays."""

    def __init__(self, warn_on_duplicate_resources: bool = True) -> None:
        self._resources: dict[str, Resource] = {}
        self._templates: dict[str, ResourceTemplate] = {}
        self.warn_on_duplicate_resources = warn_on_duplicate_resources

    def add_resource(self, resource: Resource) -> Resource:
        if str(resource.uri) in self._resources and self.warn_on_duplicate_resources:
            log.warning("Resource already exists: %s", resource.uri)
        return self._resources.setdefault(str(resource.uri), resource)

    def add_template(self, fn: Callable[..., Any], uri_template: str, **options: Any) -> ResourceTemplate:
        from .templates import ResourceTemplate  # known to whoever has templates

        template = ResourceTemplate.from_function(fn, uri_template, **options)
        self._templates[template.uri_template] = template
        return template

    async def get_resource(self, uri: Any, context: Any = None) -> Resource | None:
        """The resource with this URI.

        Raises:
            ValueError: there is none.
        """
        found = self._resources.get(str(uri))
        if found is not None:
            return found
        for template in self._templates.values():
            params = template.matches(str(uri))
            if params is not None:
                try:
                    return await template.create_resource(str(uri), params, context)
                except Exception as error:
                    raise ValueError(f"Error creating resource from template: {error}") from error
        raise ValueError(f"Unknown resource: {uri}")

    def list_resources(self) -> list[Resource]:
        return list(self._resources.values())

    def list_templates(self) -> list[ResourceTemplate]:
        return list(self._templates.values())
