"""The skills extension: the methods that list and load skills, and the folders they are read from.

Start with `methods`; nothing here is loaded before the first `Server.add_skills`.
"""
