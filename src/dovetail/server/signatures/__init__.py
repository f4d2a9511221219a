"""From a plain function to its schema, the decoder of its arguments and the result of what it returned.

Start with `functions`; `schemas` turns one annotation into a type and a schema, `returns` values into results.
"""
