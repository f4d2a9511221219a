"""What `enable_tasks` gives back."""


class TaskSupport:
    """Tasks are on: ours keeps them, and with ``DOVETAIL_STORE`` they outlive the process."""
