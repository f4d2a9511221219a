"""What the Lambda runtime does: import a handler once, then call it with one event after the other.

usage: lambda_runtime.py MODULE.FUNCTION — events as lines of JSON on stdin, results as lines of JSON on stdout.
"""

import importlib
import json
import os
import sys

sys.path.insert(0, os.getcwd())
module, _, function = sys.argv[1].rpartition(".")
handler = getattr(importlib.import_module(module), function)
for line in sys.stdin:
    sys.stdout.write(json.dumps(handler(json.loads(line), None)) + "\n")
    sys.stdout.flush()
