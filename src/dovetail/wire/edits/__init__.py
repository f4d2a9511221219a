"""Differences between revisions as edit tables, and the `Downgrade` built from them."""
