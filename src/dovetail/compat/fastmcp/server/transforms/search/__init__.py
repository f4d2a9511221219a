"""Tools that are found, not listed."""

from .base import SearchTransform, serialize_tools_for_output_json
from .bm25 import BM25SearchTransform
from .regex import RegexSearchTransform

__all__ = [
    "BM25SearchTransform",
    "RegexSearchTransform",
    "SearchTransform",
    "serialize_tools_for_output_json",
]
