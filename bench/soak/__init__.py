"""Soak: mixed traffic on every transport for a while, three slope alarms, and nothing left behind."""
