"""What a code means, what helps, and whether to try again: `dovetail.middleware.error_catalogue` has it all."""

from .middleware.error_catalogue import REFUSALS, Explanation, explain

__all__ = ["REFUSALS", "Explanation", "explain"]
