"""What client and server of SDK 1.x share."""
