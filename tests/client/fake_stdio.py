"""A legacy server on stdio that meets the modern probe in one of the ways real ones do.

Run as ``python fake_stdio.py MODE LOG``; every method it hears is appended to LOG. Uses nothing but the standard
library, so that it starts quickly.
"""

import json
import sys


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def result(id, value):
    write({"jsonrpc": "2.0", "id": id, "result": value})


def error(id, code, message="no"):
    write({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


def meet_probe(mode, id):
    if mode == "exit":
        print("what is server/discover?", file=sys.stderr, flush=True)
        sys.exit(3)
    if mode == "silent":
        return
    if mode == "garbage":
        sys.stdout.write("Traceback: KeyError server/discover\n{]\n")
        sys.stdout.flush()
    elif mode == "legacy-discovery":
        result(id, {"supportedVersions": ["2025-06-18"], "capabilities": {}, "resultType": "complete"})
    elif mode == "unsupported":
        write(
            {
                "jsonrpc": "2.0",
                "id": id,
                "error": {
                    "code": -32022,
                    "message": "no",
                    "data": {"supported": ["2025-06-18"], "requested": "x"},
                },
            }
        )
    elif mode == "strange":
        result(id, {"hello": "world"})
    else:
        error(id, int(mode))


def answer(method, id, params):
    if method == "initialize":
        result(
            id,
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            },
        )
    elif method == "tools/list":
        result(id, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        result(id, {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]})
    elif id is not None:
        error(id, -32601)


def main():
    mode, path = sys.argv[1:3]
    deaf = False
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        with open(path, "a") as log:
            log.write(f"{method}\n")
        if deaf:
            continue
        if method == "server/discover":
            if mode == "hang":
                deaf = True
            else:
                meet_probe(mode, id)
        elif method:
            answer(method, id, message.get("params"))


main()
