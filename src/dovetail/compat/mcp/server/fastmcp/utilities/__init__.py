"""What the SDK's FastMCP keeps for itself and servers import all the same."""
