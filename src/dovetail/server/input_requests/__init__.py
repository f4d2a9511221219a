"""Input requests to the client on every revision: elicitation, sampling and roots.

Start with `client_requests`. `request_kinds` has the kinds of requests, `elicitation_forms` their schemas.
"""
