"""A server that misbehaves, as bytes on pipes: each tool is one fault. ``python stub.py [mode]``."""

import json
import os
import sys

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
LONG = "x" * 10_240
NAMES = {
    "names": ["", LONG, "\x1b[31mred", "new\nline", "fine", "fine", "\u202eright", "sp ace"],
    "": ["ok", "die", "ask", "rubbish", "flood", "never", "wrong", "count"],
}


def say(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(id: object, words: str) -> None:
    say(id=id, result={"content": [{"type": "text", "text": words}]})


def tools(names: list[str]) -> list[dict[str, object]]:
    return [{"name": name, "description": "d\x1b[0m", "inputSchema": {"type": "object"}} for name in names]


listed = list(NAMES.get(MODE, NAMES[""]))
asking = None
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        if MODE == "silent" or (MODE == "slow" and not os.path.exists(sys.argv[2])):
            continue
        if MODE == "gibberish":
            sys.stdout.write("HTTP/1.1 400 \xff\x00\n{}\n[]\n" * 10)
        capabilities = {"tools": {"listChanged": True}}
        if MODE == "templates":
            capabilities["resources"] = {}
        told = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
        say(id=id, result={**told, "serverInfo": {"name": "stub", "version": "1"}})
    elif method == "tools/list":
        if MODE == "nolist":
            continue
        say(id=id, result={"tools": tools(listed)} if MODE != "badlist" else {"tools": 7})
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "die":
            sys.exit(3)
        elif name == "ask":
            asking = id
            schema = {"type": "object", "properties": {"day": {"type": "string"}}}
            say(id="q1", method="elicitation/create", params={"message": "when?", "requestedSchema": schema})
        elif name == "rubbish":
            sys.stdout.write('this is no JSON\n{"jsonrpc": "1.0"}\n[[[[\n\n{"id": 77, "result": {}}\n')
            text(id, "after rubbish")
        elif name == "flood":
            for _ in range(20_000):
                params = {"level": "debug", "data": "flood" * 20}
                sys.stdout.write(
                    json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
                )
                sys.stdout.write("\n")
            text(id, "after the flood")
        elif name == "wrong":
            say(id=id, result={"content": 7})
        elif name == "move":
            listed = ["moved"]
            text(id, "moving")
        elif name != "never":
            if name in listed or name in ("ok", "count"):
                text(id, f"{name} {os.getpid()}")
            else:
                say(id=id, error={"code": -32602, "message": f"Unknown tool: {name}"})
    elif method == "resources/list":
        say(id=id, result={"resources": []})
    elif method == "resources/templates/list":
        templates = [{"name": one, "uriTemplate": one} for one in ("file://host{/path*}", "open://{name}")]
        say(id=id, result={"resourceTemplates": templates})
    elif method == "resources/read":
        say(id=id, result={"contents": [{"uri": message["params"]["uri"], "text": "read"}]})
    elif id == "q1":
        sys.exit(4)  # it dies with the answer in its hands
    elif method == "ping":
        say(id=id, result={})
