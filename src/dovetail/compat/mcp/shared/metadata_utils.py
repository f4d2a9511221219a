"""How something is called where people read it."""

from ..types import Implementation, Prompt, Resource, ResourceTemplate, Tool


def get_display_name(obj: Tool | Resource | Prompt | ResourceTemplate | Implementation) -> str:
    """Its title or, for tools, the title of its annotations; else its name."""
    if obj.title is not None:
        return obj.title
    if isinstance(obj, Tool) and obj.annotations is not None and obj.annotations.title is not None:
        return obj.annotations.title
    return obj.name
