"""JSON Schema: schemas that authors write, that Dovetail makes, and that other servers declare.

Start with `references` (what a ``$ref`` points at) and `validation` (what is wrong with a value, by jsonschema-rs;
`size` bounds what is compiled). `merging` makes one schema of several, `profiles` writes schemas for clients that know
a part of JSON Schema, `comparison` says whether one schema takes everything another does. `keywords` has the tables
they share.
"""
