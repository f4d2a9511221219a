"""Attacks on live servers and clients of Dovetail; each prints its steps and results.

`python -m attacks` runs all of them on every transport; `--short` makes them smaller. Everything
stays on loopback, bounded in count and time, and ends the processes it started.
"""
