"""Tasks, seen by clients of SDK 1.x."""
