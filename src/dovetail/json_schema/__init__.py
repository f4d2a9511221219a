"""JSON Schema of authors, of Dovetail and of other servers.

Start with `references`, which resolves a ``$ref``, and `validation`, which validates values with jsonschema-rs (`size`
limits a schema before it is compiled). `merging` combines several schemas, `profiles` writes schemas for clients that
know a part of JSON Schema, `comparison` checks whether one schema accepts everything that another does. `keywords` has
the shared tables.
"""
