"""What a server shows, beside what its functions do: ready-made resources, pages of tools, and the contract of it all.

`lock` writes down what a server offers, `diff` says what a change of it means to clients (over `schemas`, which knows
when one JSON Schema takes everything another does), `contract` lets a client refuse what has changed.
"""
