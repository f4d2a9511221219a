"""Attacks on live servers and clients of ours, each printing what was tried and what held.

`python -m attacks` runs all of them on every transport; `--short` makes them smaller. Everything
stays on loopback, bounded in count and time, and ends the processes it started.
"""
