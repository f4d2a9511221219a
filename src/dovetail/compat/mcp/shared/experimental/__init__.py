"""What both sides of tasks share."""
