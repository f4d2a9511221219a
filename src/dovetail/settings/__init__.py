"""What users configure: one frozen struct for each subject, with safe defaults.

Sizes are bytes, times are seconds. Limits that need no configuration are constants next to the code that
enforces them.
"""

from __future__ import annotations

from .options import HttpOptions as HttpOptions
from .options import Limits as Limits
from .options import Reconnect as Reconnect
from .options import TaskOptions as TaskOptions
from .options import Timeouts as Timeouts
from .options import check_choice as check_choice
from .options import check_kinds as check_kinds
from .options import checked_seconds as checked_seconds
