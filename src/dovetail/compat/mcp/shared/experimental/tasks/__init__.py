"""What both sides of tasks share. Tasks are kept by ours: there is no store to be written."""
