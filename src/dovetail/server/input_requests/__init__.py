"""Questions to the client: `ask` puts them in both eras, `questions` says which there are, `forms` makes their schemas.

Start with `ask`.
"""
