"""JSON Schema for both sides: schemas that authors wrote by hand, and those that other servers declare.

Start with `validator`: it compiles a schema and says what is wrong with a value. `size` refuses schemas that are too
large to be compiled or checked. `problem` has what both report.
"""
