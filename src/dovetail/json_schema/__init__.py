"""JSON Schema of authors, of Dovetail and of other servers.

Start with `references` (what a ``$ref`` points at) and `validation` (what is wrong with a value, by jsonschema-rs;
`size` bounds what is compiled). `merging` makes one schema of several, `profiles` writes schemas for clients that know
a part of JSON Schema, `comparison` checks whether one schema accepts everything that another does. `keywords` has
the shared tables.
"""
