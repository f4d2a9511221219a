"""What the FastMCP classes of both families share: signatures as pydantic reads them, schemas as they write them,
media, HTTP. Start with `signatures`.
"""
