"""Models on this machine: fetched when asked for, found by name."""
