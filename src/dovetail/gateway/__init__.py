"""Many servers as one: mounted, behind a proxy, bridged, behind a gateway."""
