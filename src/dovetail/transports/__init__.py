"""Ways to a peer. A transport moves bytes and nothing else: it knows no method, revision or session."""
