"""Who calls, as far as the transport has found out."""
