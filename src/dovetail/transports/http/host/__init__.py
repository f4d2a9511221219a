"""What runs the server's side: hosts, processes, signals. Start with `serving`."""
