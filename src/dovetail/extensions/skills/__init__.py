"""The skills extension: `Skills` serves skills, from folders or defined in code with `Skill`.

Start with `skill_methods`. `skill_folders` reads skills from disk, `in_code` has skills that are defined in the
program.
"""

from .in_code import Skill
from .skill_methods import Skills

__all__ = ["Skill", "Skills"]
