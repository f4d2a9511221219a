"""Every Python of a run of the originals' suites begins here: ``mcp`` and ``fastmcp`` mean ours, children's too."""

import os
import sys

if os.environ.get("DOVETAIL_SUITE"):
    from dovetail.compat import hook

    hook.install()
    if os.environ["DOVETAIL_SUITE"] == "fastmcp":
        import suite_helpers

        for name in ("tests", "json_schema"):
            sys.modules[f"fastmcp.utilities.{name}"] = suite_helpers
