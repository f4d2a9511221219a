"""A long job: progress, cancelling, and a task whose result is fetched later. ``dovetail run long_job.py``"""

import asyncio

from dovetail import Context, Server, ToolError

server = Server("renderer")


@server.tool(task="optional", timeout=3600, limit=2, queue=10)
async def render(frames: int, ctx: Context, seconds: float = 0.01) -> str:
    """Render a film, frame by frame.

    Args:
        frames: how many
        seconds: how long each takes
    """
    if not 1 <= frames <= 10_000:
        raise ToolError("render 1 to 10000 frames")
    for number in range(1, frames + 1):
        await asyncio.sleep(seconds)  # a cancelled call ends here
        await ctx.report_progress(number, frames, f"frame {number}")
    await ctx.info(f"rendered {frames} frames")
    return f"film of {frames} frames"
