"""Programs that run in a peer's environment and print one JSON object."""
