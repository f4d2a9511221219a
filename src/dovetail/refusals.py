"""What a code means, what helps, and whether to try again: `dovetail.middleware.refusals` has it all."""

from .middleware.refusals import REFUSALS, Explanation, explain

__all__ = ["REFUSALS", "Explanation", "explain"]
