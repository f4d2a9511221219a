"""From a target to a live connection: `targets` and `openers`, the decisions of `negotiate`, the attempt of `connect`.

Start with `connections`, which makes them and looks after them.
"""
