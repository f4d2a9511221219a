"""How tools, resources, prompts and completions get into a server, and how their handlers are run.

Start with `decorators`; `register` holds the tables, `handlers` puts the guards around a function.
"""
