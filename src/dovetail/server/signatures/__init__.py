"""Function signatures: the schema of a tool, the decoding of its arguments and the conversion of its result.

Start with `functions`; `annotation_schemas` turns one annotation into a type and a schema, `returns` converts values.
"""
