"""The registry of tools, resources, prompts and completions.

Start with `registry`; `component_tables` holds the tables, `component_options` checks the options.
"""
