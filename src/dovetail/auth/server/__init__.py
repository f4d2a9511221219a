"""Server-side authorization: token verification and challenges.

Start with `verifier`, the base of all verifiers; `authenticate` runs them for each HTTP request.
"""
