"""When it may be said: state machines without I/O and without a clock. Start with `channel`, then `admit`."""
