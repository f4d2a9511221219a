"""Interoperability: our server with other people's clients, our client with other people's servers.

Every server here offers the same small things under the same names (``servers/``), and every client tries them one
after the other (``clients/``): list, call, read, prompt, complete, subscribe, sample, elicit.
"""
