"""A web application with a server of the SDK or FastMCP below ``/things``; it serves itself with uvicorn."""

import contextlib
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

try:
    from fastmcp import FastMCP

    mcp = FastMCP("mounted")
    app = mcp.http_app(path="/mcp")
    running = app.lifespan
except ImportError:
    try:
        from mcp.server.fastmcp import FastMCP
    except ImportError:
        from mcp.server import MCPServer as FastMCP

    mcp = FastMCP("mounted")
    app = mcp.streamable_http_app()

    def running(_):
        return mcp.session_manager.run()


@mcp.tool()
async def add(a: int, b: int) -> int:
    return a + b


@contextlib.asynccontextmanager
async def lifespan(outer):
    async with running(outer):
        print("application begins", file=sys.stderr, flush=True)
        yield {"word": "state"}
        print("application ends", file=sys.stderr, flush=True)


async def home(request):
    return PlainTextResponse(f"home {request.state.word}")


if __name__ == "__main__":
    routes = [Route("/", home), Mount("/things", app)]
    uvicorn.run(Starlette(routes=routes, lifespan=lifespan), host="127.0.0.1", port=9)
