"""Where shims leave their calls and wait for answers."""
