"""Record what the originals say to the miniatures: `python record.py OUT FILE…`, run by a Python that has them.

Each file has a server ``mcp`` and what to ask it: ``CALLS``, ``READS``, ``PROMPTS``. The answers are facts; nothing of
the originals is kept but those.
"""

import asyncio
import importlib.util
import json
import sys
from pathlib import Path


def load(path: Path):
    spec = importlib.util.spec_from_file_location("miniature_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def answers(module):
    from mcp import types
    from mcp.shared.exceptions import McpError
    from mcp.shared.memory import create_connected_server_and_client_session

    out = {}

    def dump(result):
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def ask(request):
        try:
            return dump(await request)
        except McpError as error:
            return {"error": {"code": error.error.code, "message": error.error.message}}

    def call(name, given):
        # Not `session.call_tool`, which validates results.
        params = types.CallToolRequestParams(name=name, arguments=given)
        request = types.ClientRequest(types.CallToolRequest(method="tools/call", params=params))
        return session.send_request(request, types.CallToolResult)

    async with create_connected_server_and_client_session(vars(module.mcp)["_mcp_server"]) as session:
        out["tools"] = await ask(session.list_tools())
        out["resources"] = await ask(session.list_resources())
        out["templates"] = await ask(session.list_resource_templates())
        out["prompts"] = await ask(session.list_prompts())
        out["calls"] = [[name, given, await ask(call(name, given))] for name, given in module.CALLS]
        out["reads"] = [[uri, await ask(session.read_resource(uri))] for uri in getattr(module, "READS", ())]
        out["gets"] = [
            [name, given, await ask(session.get_prompt(name, given))]
            for name, given in getattr(module, "PROMPTS", ())
        ]
    return out


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        path = Path(name)
        facts = asyncio.run(answers(load(path)))
        (folder / f"{path.stem}.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
