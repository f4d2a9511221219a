"""Tasks of SDK 1.x, over ours."""
