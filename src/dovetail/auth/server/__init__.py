"""The server's half: who verifies tokens, and what callers without a good one are told.

Start with `verifier`, what every verifier is; `gate` asks them for each request over HTTP.
"""
