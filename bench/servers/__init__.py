"""The same small server, written for every library under test: six tools, a resource, a prompt.

Each file is started as ``FILE stdio`` or ``FILE http PORT [HOST]`` by the interpreter of its environment and
imports nothing of ours. ``BENCH_TOOLS=N`` gives it exactly N tools, "echo" among them: the first N of the six, then
fillers. ``BENCH_MIXED=N`` adds N tools of mixed signatures (`mixed.py`).
"""
