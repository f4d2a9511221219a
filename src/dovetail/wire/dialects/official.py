"""The specification and nothing else; still understands everybody, unless made strict by `strictly`."""

from .aliases import METHODS, PARAMS, RESULTS
from .base import Dialect

OFFICIAL = Dialect(name="official", inbound_methods=METHODS, field_in=PARAMS, result_in=RESULTS)
