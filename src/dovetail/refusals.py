"""What a code means, what helps, and whether to try again: `dovetail.layers.refusals` has it all."""

from .layers.refusals import REFUSALS, Explanation, explain

__all__ = ["REFUSALS", "Explanation", "explain"]
