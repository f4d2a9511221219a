"""JSON Schema for both sides: schemas that authors wrote by hand, and those that foreign servers declare.

Start with `validator`: it compiles a schema and says what is wrong with a value. `weight` counts beforehand how much
work that can be, so that neither a hostile schema nor a hostile value costs more than `settings` allows; `small` checks
where jsonschema-rs is not installed, and says why a value does not fit wherever it can.
"""
