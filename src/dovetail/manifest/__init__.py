"""The manifest of a server: everything it offers, written to a lock file and compared.

`lock` writes and reads the file, `diff` classifies changes between two manifests, `contract` makes a client refuse
tools that differ from the file.
"""
