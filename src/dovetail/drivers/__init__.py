"""Where the core meets tasks: *duplex* for a lasting peer, *exchange* for one call, pools for what blocks."""
