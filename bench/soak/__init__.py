"""Soak test: mixed traffic on every transport, three slope alarms, and a check for leaks."""
